"""Owns the command that says which hop buffers, compresses or cuts streams. What is read and judged is elsewhere."""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.hops import Verdict, judge
from streaming.management.probe.proofs import SHOWN, Proof, first_model, prove
from streaming.management.probe.reading import read_hop
from streaming.management.probe.site import Site
from streaming.management.probe.words import as_json, report, table

KEY = "PROBE_API_KEY"
#: nginx and most others wait a minute.
SILENCE_S = 65.0


class Command(BaseCommand):
    """``manage.py probe URL [URL…]``, the address nearest to the server first; needs no database."""

    help = (
        "Read a stream through each address and say which hop buffers, compresses or cuts it. Exit code 1 if one does."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "urls", nargs="+", metavar="URL", help="nearest to the server first: web process, proxy, CDN"
        )
        parser.add_argument("--events", type=whole(2, 500), default=20, help="how many trickle")
        parser.add_argument("--interval", type=whole(10, 5000), default=200, metavar="MS", help="between two of them")
        parser.add_argument(
            "--silence", type=seconds, default=SILENCE_S, metavar="S", help="that must pass uncut; 0: not tried"
        )
        parser.add_argument("--host", default="", help="the site's name, for addresses that do not bear it")
        parser.add_argument("--ca-file", default="", help="certificates to trust instead of the system's")
        parser.add_argument("--json", action="store_true", help="for scripts")
        parser.add_argument("--prove", action="store_true", help="try the whole check list, on a model")
        parser.add_argument("--model", default="", help="for --prove; default: the first that is offered")
        parser.add_argument("--report", default="probe-report.md", help="where --prove writes what it saw")

    def handle(self, *args: Any, **options: Any) -> None:
        site, urls = site_of(options), [checked(url) for url in options["urls"]]
        verdicts, proofs = asyncio.run(probed(site, urls, options))
        if options["json"]:
            shown = {"hops": as_json(verdicts), "proofs": [asdict(proof) for proof in proofs]}
            self.stdout.write(json.dumps(shown, indent=1))
        else:
            self.stdout.write(table(verdicts))
            for proof in proofs:
                self.stdout.write(f"{proof.result:9}  {proof.name}: {proof.detail}")
        if options["prove"]:
            Path(options["report"]).write_text(report(verdicts, [(p.name, p.result, p.detail) for p in proofs]))
        wrong = [f"hop {n}" for n, verdict in enumerate(verdicts, 1) if not verdict.streams]
        wrong += [f"{proof.name} ({proof.result})" for proof in proofs if proof.result != SHOWN]
        if wrong:
            raise CommandError("not as it should be: " + ", ".join(wrong), returncode=1)


async def probed(site: Site, urls: Sequence[str], options: dict[str, Any]) -> tuple[list[Verdict], list[Proof]]:
    """All hops at once, then the check list if it is asked for."""
    interval_s = options["interval"] / 1000
    reads = [read_hop(site, url, options["events"], interval_s, options["silence"]) for url in urls]
    verdicts = judge(await asyncio.gather(*reads))
    if not options["prove"]:
        return verdicts, []
    model = options["model"] or await first_model(site, urls[-1])
    return verdicts, await prove(site, verdicts, model)


def site_of(options: dict[str, Any]) -> Site:
    """Who asks. The key is in the environment: a command line is seen by everybody on the machine."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise CommandError(f"{KEY}: put an API key of the site into the environment (manage.py create_api_key)")
    if options["ca_file"] and not Path(options["ca_file"]).is_file():
        raise CommandError(f"--ca-file {options['ca_file']!r}: no such file")
    return Site(key, options["host"], options["ca_file"])


def checked(url: str) -> str:
    """An address to ask."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.username or parts.query or parts.fragment:
        raise CommandError(f"{url!r}: must be http:// or https:// with a host, without user, query or fragment")
    return url.rstrip("/")


def whole(least: int, most: int) -> Callable[[str], int]:
    """Reads an option that is a whole number between two."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: from {least} to {most}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Reads an option in seconds, up to an hour less what the stream itself takes."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 3590:
        raise argparse.ArgumentTypeError(f"{text!r}: from 0 to 3590 seconds")
    return value
