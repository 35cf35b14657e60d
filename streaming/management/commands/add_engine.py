"""Owns the command that registers an engine, or changes one. Checks what it is told; tries no generation."""

import asyncio
import json
import shlex
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.engine.registry import MAKE
from streaming.engine.row_rules import RowError, check_row, without_key_of_another_host
from streaming.models import Engine


class Command(BaseCommand):
    """``manage.py add_engine --kind llamacpp --url U --model NAME --tokenizer PATH``"""

    help = (
        "Register an engine under a name, or change the one of that name. Prints its id and name, what the row says, "
        "and whether the engine answers; with --verbosity 0 id and name only, and nobody is asked."
    )
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
        engine = Engine.objects.filter(name=name).first() or Engine(name=name)
        if fields["options"] is None:
            fields["options"] = without_key_of_another_host(engine.options, engine.url, fields["url"])
        try:
            check_row(fields["kind"], fields["url"], fields["tokenizer"], fields["options"])
        except RowError as error:
            raise CommandError(f"--{error.field} {error.message}") from None
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
        named = f"{engine.pk} {engine.name}"
        return "\n".join([named, said_of(engine), next_step(engine)] if options["verbosity"] else [named])


def said_of(engine: Engine) -> str:
    """What the row says now, also where the command was told only a part of it."""
    where = f" at {engine.url}" if engine.url else ""
    has = f"{engine.slots} slots of {engine.context_tokens} tokens"
    return f"{engine.kind}{where}, model {engine.model}, {has}{'' if engine.enabled else '; disabled'}"


def next_step(engine: Engine) -> str:
    """Whether the engine answers, and what to do then."""
    probing = f"manage.py probe_engine {shlex.quote(engine.name)}"
    if asyncio.run(answers(engine)):
        return f"It answers. What it can do: {probing}"
    if engine.url.startswith("https:"):
        remedy = "correct --url, or the key that --options names"
    else:
        remedy = "start it, or correct --url"
    return f"It does not answer: {remedy}; the site asks it as soon as it does. Then: {probing}"


async def answers(engine: Engine) -> bool:
    """Asked from here, for some seconds at most; nothing is generated."""
    wire = MAKE[engine.kind](engine)
    try:
        return await wire.healthy()
    finally:
        await wire.aclose()


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
    return given


def one_line(engine: Engine, error: ValidationError) -> str:
    return "; ".join(
        f"{field} {getattr(engine, field, None)!r}: {' '.join(messages)}"
        for field, messages in error.message_dict.items()
    )
