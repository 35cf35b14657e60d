"""Owns the command line of the web process; the serving itself is chatsite.server."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from chatsite.django_handler import UPLOAD, max_body_bytes
from chatsite.server.launch import serve
from chatsite.server.limits import Limits
from chatsite.server.listener import ListenError, adopt, bind
from chatsite.server.versions import OldVersionError


class Command(BaseCommand):
    help = "Serve the site: pages, API and streams."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default: %(default)s)")
        parser.add_argument("--fd", type=int, help="listen on this inherited TCP socket instead")

    def handle(self, *args: Any, host: str, port: int, fd: int | None, **options: Any) -> None:
        try:
            sock = bind(host, port) if fd is None else adopt(fd)
            code = serve(import_string(settings.ASGI_APPLICATION), sock, limits_from_settings())
        except (ListenError, OldVersionError) as error:
            raise CommandError(str(error)) from error
        sys.exit(code)


def limits_from_settings() -> Limits:
    return Limits(
        max_body_bytes=settings.MAX_BODY_BYTES,
        upload_path=UPLOAD,
        max_upload_bytes=max_body_bytes(UPLOAD),
        stuck_reader_s=settings.STUCK_READER_S,
        drain_s=settings.DRAIN_S,
    )
