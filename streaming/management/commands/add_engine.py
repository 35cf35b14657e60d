"""Owns the command that registers an engine, or changes one. Checks what it is told; asks no engine."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.engine.api_key import check_variable
from streaming.engine.registry import WITHOUT_TOKENIZER
from streaming.engine.tokenizer import TokenizerBundle, TokenizerError
from streaming.models import Engine
from streaming.protocol.markers import markers_named

CHECKED_OPTIONS: dict[str, Callable[[Any], object]] = {"api_key_env": check_variable, "markers": markers_named}


class Command(BaseCommand):
    """``manage.py add_engine --kind llamacpp --url U --model NAME --tokenizer PATH``"""

    help = "Register an engine under a name, or change the one of that name. Prints its id and name."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--kind", required=True, help=", ".join(Engine.Kind.values))
        parser.add_argument("--url", default="", help="where it listens; scripted engines have none")
        parser.add_argument("--model", required=True, help="the name that users of the site see")
        parser.add_argument(
            "--tokenizer", default="", help="tokenizer.json, or the folder it is in; hosted models may do without"
        )
        parser.add_argument("--name", help="default: MODEL@URL")
        parser.add_argument("--context", type=int, help="tokens that prompt and answer may have together")
        parser.add_argument("--slots", type=int, help="answers that it works on at a time")
        parser.add_argument("--options", help="JSON object with what only this kind knows, see docs/engines.md")

    def handle(self, *args: Any, **options: Any) -> str:
        fields: dict[str, Any] = {name: options[name] for name in ("kind", "url", "model", "tokenizer")}
        name = options["name"] or f"{fields['model']}@{fields['url'] or fields['kind']}"
        fields |= {"context_tokens": options["context"], "slots": options["slots"], "options": options_of(options)}
        check_endpoint(fields)
        engine = Engine.objects.filter(name=name).first() or Engine(name=name)
        if fields["options"] is None and host_of(engine.url) != host_of(fields["url"]):
            # A key that was meant for one host goes to no other by a mere change of the address.
            engine.options.pop("api_key_env", None)
        if engine.url != fields["url"] or engine.kind != fields["kind"]:
            engine.capabilities, engine.probed_at = {}, None
        for field, value in fields.items():
            if value is not None:
                setattr(engine, field, value)
        try:
            engine.full_clean()
        except ValidationError as error:
            raise CommandError(one_line(engine, error)) from None
        engine.save()
        return f"{engine.pk} {engine.name}"


def options_of(options: dict[str, Any]) -> dict[str, Any] | None:
    given = options["options"]
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise CommandError(f"--options {given!r}: not JSON: {error}") from error
    if given is None:
        return None
    if not isinstance(given, dict):
        raise CommandError(f"--options {given!r}: not a JSON object")
    for name, check in CHECKED_OPTIONS.items():
        try:
            if name in given:
                check(given[name])
        except ValueError as error:
            raise CommandError(f"--options {name}: {error}") from error
    return given


def check_endpoint(fields: dict[str, Any]) -> None:
    """What an engine of this kind cannot work without."""
    kind, url, tokenizer = fields["kind"], fields["url"], fields["tokenizer"]
    if kind not in Engine.Kind.values:
        raise CommandError(f"--kind {kind!r}: unknown; there are {', '.join(Engine.Kind.values)}")
    if kind != Engine.Kind.SCRIPTED:
        check_url(url)
    if kind in WITHOUT_TOKENIZER and not tokenizer:
        return
    try:
        TokenizerBundle.load(tokenizer)
    except TokenizerError as error:
        raise CommandError(f"--tokenizer {tokenizer!r}: {error}") from None


def host_of(url: str) -> tuple[str, str | None, int | None]:
    """Who is talked to, and whether in secret."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise CommandError(f"--url {url!r}: must be http:// or https:// with a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise CommandError(f"--url {parts.hostname!r}: must not hold a user, a password, a query or a fragment")


def one_line(engine: Engine, error: ValidationError) -> str:
    return "; ".join(
        f"{field} {getattr(engine, field, None)!r}: {' '.join(messages)}"
        for field, messages in error.message_dict.items()
    )
