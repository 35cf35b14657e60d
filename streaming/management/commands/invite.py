"""Owns the command that makes an invitation. Prints the path of its link and nothing else."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from streaming.store import invitations

DEFAULT_DAYS = 7


class Command(BaseCommand):
    """``manage.py invite``"""

    help = "Make a link by which one person makes an account, once."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, default=DEFAULT_DAYS, help="how long the link works")
        parser.add_argument("--note", default="", help="for whom it is")

    def handle(self, *args: Any, days: int, note: str, **options: Any) -> str:
        if settings.SIGNUP == "off":
            raise CommandError("SIGNUP is off: nobody can use an invitation; set it to invite or open")
        if not 1 <= days <= invitations.DAYS_MAX:
            raise CommandError(f"--days must be from 1 to {invitations.DAYS_MAX}, not {days}")
        return reverse("invitation", args=[invitations.issue(None, timedelta(days=days), note[:200])[1]])
