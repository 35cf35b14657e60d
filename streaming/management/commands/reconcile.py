"""Owns the command that looks at the books by hand. The comparing is ownership's and the store's."""

import json
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.models import LedgerCheck
from streaming.ownership.ledger import SKEW, reconcile


class Command(BaseCommand):
    """``manage.py reconcile [--since TIME] [--skew S] [--json]``"""

    help = "Compare what responses say with engines' counters, rollups and quotas. Exits with 1 when anything drifts."

    def add_arguments(self, parser: CommandParser) -> None:
        about = "compare engines since their first reading from this time on (ISO 8601, UTC without an offset)"
        parser.add_argument("--since", type=_time, help=f"{about}; without it since the last reading")
        parser.add_argument("--skew", type=float, default=SKEW.total_seconds(), help="s that clocks may differ")
        parser.add_argument("--json", action="store_true", help="one object a line")

    def handle(self, *args: Any, since: datetime | None, skew: float, **options: Any) -> None:
        checks = reconcile(since, timedelta(seconds=skew))
        for check in checks:
            self.stdout.write(json.dumps(_fields(check)) if options["json"] else _line(check))
        if drifting := sum(bool(check.drift) for check in checks):
            raise CommandError(f"{drifting} of {len(checks)} comparisons drift")


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"a time as 2026-01-31T08:00 (got {text!r})") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _fields(check: LedgerCheck) -> dict[str, Any]:
    period = {name: at.isoformat() if (at := getattr(check, name)) else None for name in ("since", "until")}
    names = ("kind", "subject", "low", "high", "seen", "drift", "message")
    return {**{name: getattr(check, name) for name in names}, **period}


def _line(check: LedgerCheck) -> str:
    verdict = f"drifts by {check.drift:+d}: {check.message}" if check.drift else "agrees"
    return f"{check.kind:<8} {check.subject:<20} {check.seen:>12} in {check.low}..{check.high}  {verdict}"
