"""Owns the command that makes a user's API key. Prints the key and nothing else, so that a script can read it."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.store import access


class Command(BaseCommand):
    """``manage.py create_api_key USERNAME``"""

    help = "Make an API key, and its user if needed. The key is printed once and cannot be read again."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="", help="what the key is for")

    def handle(self, *args: Any, username: str, name: str, **options: Any) -> str:
        try:
            user = access.ensure_user(username)
        except ValidationError as error:
            raise CommandError(f"cannot use the username {username!r}: {' '.join(error.messages)}") from None
        return access.issue_key(user, name)
