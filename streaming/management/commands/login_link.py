"""Owns the command that makes a link that logs a user in once. Prints the link's path and nothing else."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from streaming.store import access

DEFAULT_MINUTES = 60


class Command(BaseCommand):
    """``manage.py login_link USERNAME``"""

    help = "Make a link that logs a user in once, and the user if needed."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--create-superuser", action="store_true", help="give the user all rights")
        parser.add_argument("--minutes", type=int, default=DEFAULT_MINUTES, help="how long the link works")

    def handle(self, *args: Any, username: str, create_superuser: bool, minutes: int, **options: Any) -> str:
        most = access.LINK_LIFETIME_MAX // timedelta(minutes=1)
        if not 1 <= minutes <= most:
            raise CommandError(f"--minutes must be from 1 to {most}, not {minutes}")
        try:
            user = access.ensure_user(username, superuser=create_superuser)
        except ValidationError as error:
            raise CommandError(f"cannot use the username {username!r}: {' '.join(error.messages)}") from None
        return reverse("login_link", args=[access.issue_login_token(user, timedelta(minutes=minutes))])
