"""Owns the command that finds out what an engine can do and writes it into its row."""

import asyncio
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from streaming.engine.base import Engine as Wire
from streaming.engine.base import EngineError
from streaming.engine.probing import QUESTION, Probe
from streaming.engine.prompt import PromptError, render_prompt
from streaming.engine.registry import bundle_for
from streaming.engine.tokenizer import TokenizerError
from streaming.engine.trial import Trial
from streaming.models import Engine
from streaming.models.ids import response_id
from streaming.ownership.trials import recorded

WORDS = {True: "yes", False: "no", None: "unknown"}


class Command(BaseCommand):
    """``manage.py probe_engine NAME``"""

    help = "Ask an engine a few small questions, print what it can do, and store that in its row."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="as add_engine printed it")

    def handle(self, *args: Any, **options: Any) -> None:
        row = Engine.objects.filter(name=options["name"]).first()
        if row is None:
            raise CommandError(f"there is no engine {options['name']!r}")
        try:
            found = asyncio.run(probed(row))
        except EngineError as error:
            raise CommandError(f"{row.name}: {error.message}") from None
        except (TokenizerError, PromptError) as error:
            raise CommandError(f"{row.name}: {error}") from None
        for name, value in found.items():
            self.stdout.write(f"{name}: {WORDS[value] if value is None or isinstance(value, bool) else value}")
        self._store(row, found)

    def _store(self, row: Engine, found: dict[str, Any]) -> None:
        fields = {"capabilities": found, "probed_at": timezone.now()}
        for name in ("context_tokens", "slots"):
            promised, has = getattr(row, name), found[name]
            if has is not None and has < promised:
                self.stdout.write(f"the row promised {name} {promised}; now {has}")
                fields[name] = has
        Engine.objects.filter(pk=row.pk).update(**fields)


async def probed(row: Engine) -> dict[str, Any]:
    """What the engine can do; each generation has its row."""
    prompt_ids = render_prompt(bundle_for(row), QUESTION)

    async def run(trial: Trial, wire: Wire) -> None:
        await recorded(row, trial, wire)

    return await Probe(row, prompt_ids, run, lambda: f"{response_id()}-1").capabilities()
