"""Owns the command that adds a made-up past to a database, to look at and to measure. Changes nothing that is there."""

import random
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone

from streaming.management.demo import Answers, log_of, make_people
from streaming.management.demo.logs import QUESTIONS
from streaming.management.demo.people import strangers
from streaming.models import Conversation, Message, Response
from streaming.models.ids import conversation_id, message_id
from streaming.store import bulk, log, usage

SEED = 20


class Command(BaseCommand):
    """``manage.py seed_demo --responses N``"""

    help = "Add made-up users, engines (switched off) and ended responses: to look at the admin, and to measure it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--responses", type=int, default=10_000, help="how many (default 10000)")
        parser.add_argument("--days", type=int, default=30, help="over how many days up to now (default 30)")
        parser.add_argument("--logs", type=int, default=200, help="how many of the newest have a log and text")
        parser.add_argument("--yes", action="store_true", help="also where there are users that are not made up")

    def handle(self, *args: Any, responses: int, days: int, logs: int, yes: bool, **options: Any) -> None:
        if responses < 1 or days < 1 or logs < 0:
            raise CommandError("--responses and --days must be at least 1, --logs at least 0")
        if (names := strangers()) and not yes:
            raise CommandError(
                f"this database has users that are not made up ({', '.join(names)} …); its figures would be mixed "
                "with invented ones for good. Say --yes if that is what you want."
            )
        draw = random.Random(SEED)
        answers = Answers(make_people(), timezone.now() - timedelta(minutes=1), days, draw)
        newest: deque[Mapping[str, Any]] = deque(maxlen=logs)
        count = bulk.insert(Response, self._kept(answers.rows(responses), newest))
        self._talk(newest, draw)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        today = timezone.now().date()
        for days_ago in range(days + 1):
            usage.roll_up(today - timedelta(days=days_ago))
        print(f"{count} responses of {days} days, {len(newest)} of them with their logs")

    @staticmethod
    def _kept(rows: Iterator[dict[str, Any]], newest: deque[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            newest.append(row)
            yield _as_stored(row)

    @staticmethod
    def _talk(rows: Iterator[Mapping[str, Any]] | deque[Mapping[str, Any]], draw: random.Random) -> None:
        """Logs, texts and, for those of the page, conversations."""
        for row in rows:
            events = log_of(row, draw)
            log.insert((row["id"], event) for event in events)
            text = "".join(event.payload.get("text", "") for event in events)
            Response.objects.filter(id=row["id"]).update(output_text=text, last_seq=len(events), **_thread(row, draw))


def _thread(row: Mapping[str, Any], draw: random.Random) -> dict[str, str]:
    """A conversation of one question, for an answer of the page."""
    if row["purpose"] != "chat" or row["end_state"] == "rejected":
        return {}
    question = draw.choice(QUESTIONS)
    thread = Conversation.objects.create(
        id=conversation_id(), user_id=row["user_id"], title=question, model=row["model"]
    )
    asked = Message.objects.create(id=message_id(), conversation=thread, role=Message.Role.USER, text=question)
    answer = Message.objects.create(id=message_id(), conversation=thread, parent=asked, role=Message.Role.ASSISTANT)
    return {"conversation_id": thread.id, "message_id": answer.id}


def _as_stored(row: dict[str, Any]) -> dict[str, Any]:
    adapt = connection.ops.adapt_datetimefield_value
    return {name: adapt(value) if name.endswith("_at") else value for name, value in row.items()}
