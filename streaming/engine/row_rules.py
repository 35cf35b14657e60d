"""Owns what may stand in an engine's row: its address, its tokenizer, the options that its kind knows. Asks nobody."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from streaming.engine.api_key import check_variable
from streaming.engine.registry import MAKE, WITHOUT_TOKENIZER
from streaming.engine.script import Script
from streaming.engine.tokenizer import TokenizerBundle, TokenizerError
from streaming.protocol.markers import markers_named

#: Nothing that two readers of an address could take for two things.
URL = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")
KEY_OPTION = "api_key_env"
SHOWN_CHARACTERS = 80


class RowError(ValueError):
    """A field that cannot stand as it is. The text says what was seen and what would be right."""

    def __init__(self, field: str, message: str):
        super().__init__(message)
        self.field = field
        self.message = message


def _is_bool(value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {shown(value)}")


def _is_name(value: Any) -> None:
    if not (isinstance(value, str) and 0 < len(value) <= 200):
        raise ValueError(f"must be a text of 1 to 200 characters, not {shown(value)}")


def _is_mode(value: Any) -> None:
    if value not in ("ids", "text"):
        raise ValueError(f'must be "ids" or "text", not {shown(value)}')


def _is_script(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be an object, not {shown(value)}")
    Script.from_json(value)


def _are_markers(value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"must be a text, not {shown(value)}")
    markers_named(value)


KEY = {KEY_OPTION: check_variable}
#: For each kind the options that it knows, each with what raises ValueError for a value that it does not.
OPTIONS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "anthropic": {**KEY, "upstream_model": _is_name},
    "llamacpp": {**KEY, "markers": _are_markers},
    "openai": {**KEY, "upstream_model": _is_name, "cache_salt": _is_bool},
    "scripted": {"mode": _is_mode, "abort_proof": _is_bool, "script": _is_script, "markers": _are_markers},
    "vllm": {**KEY, "markers": _are_markers},
}


def check_row(kind: str, url: str, tokenizer: str, options: Any) -> None:
    """Raises RowError for the first field that is wrong."""
    if kind not in MAKE:
        raise RowError("kind", f"{shown(kind)}: unknown; there are {', '.join(sorted(MAKE))}")
    if kind != "scripted":
        check_url(url)
    check_options(kind, options)
    check_tokenizer(kind, tokenizer)


def check_url(url: str) -> None:
    """Raises RowError for what is not plainly the address of one HTTP server."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if good and (parts.username is not None or parts.password is not None or parts.query or parts.fragment):
        # Not shown whole: it may hold a password.
        message = f"{shown(parts.hostname)}: must not hold a user, a password, a query or a fragment"
        raise RowError("url", message)
    if not good or not URL.fullmatch(url):
        raise RowError("url", f"{shown(url)}: must be http:// or https:// with a host, in plain ASCII")


def check_options(kind: str, options: Any) -> None:
    """Raises RowError for an option that the kind does not know, or a value that the option does not."""
    if not isinstance(options, Mapping):
        raise RowError("options", f"{shown(options)}: not a JSON object")
    known = OPTIONS[kind]
    for name, value in options.items():
        if name not in known:
            there_are = ", ".join(known) or "none"
            raise RowError("options", f"{shown(name)}: no option of kind {kind}; there are {there_are}")
        try:
            known[name](value)
        except ValueError as error:
            raise RowError("options", f"{name}: {error}") from error


def check_tokenizer(kind: str, tokenizer: str) -> None:
    """Raises RowError where none loads and the kind needs one."""
    if kind in WITHOUT_TOKENIZER and not tokenizer:
        return
    try:
        TokenizerBundle.load(tokenizer)
    except TokenizerError as error:
        raise RowError("tokenizer", f"{shown(tokenizer)}: {error}") from None


def host_of(url: str) -> tuple[str, str | None, int | None]:
    """Who is talked to, and whether in secret; nobody where it is no address."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None


def without_key_of_another_host(options: Mapping[str, Any], old_url: str, url: str) -> dict[str, Any]:
    """The options that an engine keeps when its address changes: a key that was meant for one host goes to no other."""
    if host_of(old_url) == host_of(url):
        return dict(options)
    return {name: value for name, value in options.items() if name != KEY_OPTION}


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
