"""Owns what goes on at once in a storm: journals that commit, and all others that lock several rows. Judges nothing."""

import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction

from streaming.journal import Tail
from streaming.journal.batch import Batch, Entry, Notes
from streaming.journal.creation import Creation
from streaming.models import Response
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.events import ENDED, TEXT, Draft, Event
from streaming.store import log, responses, threads
from streaming.store.responses import Delivered, Ending, Started

#: One that has so many events ends with the next commit.
EVENTS = 6
DONE = End(COMPLETED, "stop", "stop")


def at_once(*works: Callable[[], object], deadline_s: float = 60) -> None:
    """Each on a thread and a connection of its own, all beginning together; raises what one of them raises."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            connection.ensure_connection()
            start.wait(deadline_s)
            work()
        finally:
            threads.close_connection()

    with ThreadPoolExecutor(len(works)) as pool:
        for running in [pool.submit(run, work) for work in works]:
            running.result(deadline_s)


def running(user: User, count: int, **fields: Any) -> list[Response]:
    """Answers that have not ended."""
    asked = {"purpose": "api", "dialect": "openai_chat", "model": "m", "policy": "abort", "owner": "web_1", **fields}
    return [Response.objects.create(user=user, **asked) for _ in range(count)]


def answered(user: User, count: int, **fields: Any) -> list[Response]:
    """Answers that have ended, with a log of two events."""
    some = running(user, count, **fields)
    for response in some:
        with transaction.atomic():
            events = [Event(1, 1, TEXT, {"text": "secret"}, (), 1), Event(2, 1, ENDED, DONE.to_payload({}))]
            log.insert((response.id, event) for event in events)
            responses.end(response.id, 1, 2, Ending(DONE, {"output_text": "secret"}))
    return some


def shuffled(chance: random.Random, many: Iterable) -> list:
    many = list(many)
    return chance.sample(many, len(many))


class Journal:
    """A web process's commits, one after the other, until each of its answers has ended or is somebody else's.

    As the real one does: a commit that the database refused comes again, response by response. ``refused`` are those.
    """

    def __init__(self, seed: int, responses: Iterable[Response], engine_id: int, asked=list):
        self._chance = random.Random(seed)
        self._asked = asked
        self._tails = [Tail(response.id, response.epoch, 0.0) for response in responses]
        self._engine_id = engine_id
        self._ended: list[Tail] = []
        self._said: dict[str, str] = {}
        self.refused: list[str] = []

    def run(self) -> None:
        started = [Started(self._engine_id, 1.0, "[]", tail.response_id, tail.epoch) for tail in self._tails]
        while self._tails:
            some = self._chance.sample(self._tails, self._chance.randint(1, len(self._tails)))
            notes = Notes(started=shuffled(self._chance, started), delivered=self._delivered())
            started = []
            created = [Creation(new, Future()) for new in self._asked()]
            self._commit(Batch([self._entry(tail) for tail in some], notes, created))

    def _delivered(self) -> list[Delivered]:
        many = shuffled(self._chance, self._ended)
        return [Delivered(self._chance.randint(1, tail.sent_tokens), 1.0, tail.response_id) for tail in many]

    def _entry(self, tail: Tail) -> Entry:
        tail.hold([Draft(TEXT, {"text": f"w{tail.last_seq} "}, (), 1)])
        events = tail.number(1.0)
        if tail.last_seq + 1 < EVENTS:
            return Entry(tail, events)
        text = "".join(f"w{seq} " for seq in range(tail.last_seq + 1))
        count = tail.sent_tokens + 1
        figures = {"generated_tokens": count, "sent_tokens": count, "completion_tokens": count, "output_text": text}
        end = Event(events[-1].seq + 1, tail.epoch, ENDED, DONE.to_payload({}))
        return Entry(tail, [*events, end], Ending(DONE, figures))

    def _commit(self, batch: Batch) -> None:
        while True:
            try:
                batch.write()
                break
            except OperationalError as error:
                self.refused.append(str(error))
                batch.write_again_later(self._tails)
        for entry in batch.entries:
            if not entry.fenced:
                entry.tail.publish(entry.events)
            if entry.fenced or entry.ending:
                self._tails.remove(entry.tail)
            if entry.ending and not entry.fenced:
                self._ended.append(entry.tail)
