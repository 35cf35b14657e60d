"""Owns the command that makes a user's API key. Prints the key and nothing else, so that a script can read it."""

import re
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.dateparse import parse_date

from streaming.models.access import EVERY_SCOPE
from streaming.store import access

DAYS = re.compile(r"([1-9]\d{0,3})d", re.ASCII)


class Command(BaseCommand):
    """``manage.py create_api_key USERNAME``"""

    help = "Make an API key, and its user if needed. The key is printed once and cannot be read again."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="", help="what the key is for")
        parser.add_argument("--scopes", default=EVERY_SCOPE, help=f"separated by commas; all: {EVERY_SCOPE}")
        parser.add_argument(
            "--expires", help="after so many days (90d), or at the beginning of a day (2027-01-31, UTC)"
        )

    def handle(self, *args: Any, username: str, name: str, scopes: str, expires: str | None, **options: Any) -> str:
        lifetime = None if expires is None else _lifetime(expires)
        try:
            user = access.ensure_user(username)
            return access.new_key(user, name, lifetime, scopes.replace(",", " ").split())[1]
        except ValidationError as error:
            raise CommandError(f"cannot use the username {username!r}: {' '.join(error.messages)}") from None
        except access.TooManyKeys as error:
            raise CommandError(str(error)) from None
        except ValueError as error:
            raise CommandError(f"--{error}") from None


def _lifetime(expires: str) -> timedelta:
    if days := DAYS.fullmatch(expires):
        return timedelta(days=int(days[1]))
    try:
        day = parse_date(expires)
    except ValueError:
        day = None
    lifetime = access.until(day)
    if lifetime is None or lifetime <= timedelta():
        raise CommandError(f"--expires must be as 90d, or a day to come as 2027-01-31, not {expires!r}")
    return lifetime
