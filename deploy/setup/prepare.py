"""Owns what database and static files need before the processes start, in one Django process. Safe to repeat."""

import os

import django
from django.core.management import call_command

from deploy.setup.places import demo_model

MODEL_NAME = "smollm2-135m-instruct"


def main() -> None:
    django.setup()
    call_command("migrate", interactive=False, verbosity=1)
    call_command("collectstatic", interactive=False, verbosity=1)
    for nth, port in enumerate(os.environ["ENGINE_PORTS"].split(","), 1):
        call_command(
            "add_engine",
            name="local" if nth == 1 else f"local-{nth}",
            kind="llamacpp",
            url=f"http://127.0.0.1:{port}",
            model=MODEL_NAME,
            tokenizer=str(demo_model().tokenizer),
            verbosity=0,  # it is started after this
        )


if __name__ == "__main__":
    main()
