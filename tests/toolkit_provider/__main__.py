"""Owns the provider's process: its tables, people and the one site that it knows; then it listens on a given socket.

    python -m tests.toolkit_provider FD REDIRECT_URI

``TOOLKIT_FOLDER`` holds the keys and the certificate, and the data from one start to the next.
"""

import socket
import sys

import django
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command

from . import people


def main(listening: int, redirect_uri: str) -> None:
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    people.move_in(redirect_uri)
    config = uvicorn.Config(
        get_asgi_application(),
        ssl_certfile=settings.FOLDER / "fullchain.pem",
        ssl_keyfile=str(settings.FOLDER / "privkey.pem"),
        lifespan="off",
        timeout_graceful_shutdown=1,
        log_level="info",
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=listening)])


main(int(sys.argv[1]), sys.argv[2])
