"""Owns the oldest versions of the stack that the server is safe with; does not pin (requirements.txt does)."""

import re
from collections.abc import Callable
from importlib.metadata import version

# asgiref joined threads on the event loop before 3.13; the others carry fixes that the subclasses here build on.
OLDEST = {"asgiref": (3, 13), "daphne": (4, 2, 3), "Twisted": (26, 4), "Django": (5, 2, 16)}


class OldVersionError(RuntimeError):
    """The installed stack is older than this server was written for."""


def parse_release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: '26.10.0rc1' is (26, 10, 0)."""
    numbers = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()


def check_versions(installed: Callable[[str], str] = version) -> None:
    """Refuse to start on a stack that is known to freeze, leak or hang."""
    for name, oldest in OLDEST.items():
        found = installed(name)
        if parse_release(found) < oldest:
            wanted = ".".join(map(str, oldest))
            raise OldVersionError(f"{name} {found} is too old: this server needs {name} >= {wanted}")
