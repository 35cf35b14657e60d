"""Owns the places of a process's responses from before they are stored until they have ended. Refuses nothing."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from streaming.admission import Admission
from streaming.relay import Relay


class Places:
    """Which responses are being stored, and which wait for an engine. ``admission`` counts all of them by user."""

    def __init__(self, admission: Admission):
        self._admission = admission
        self._expected: dict[str, asyncio.Future[None]] = {}
        self._storing: Counter[str] = Counter()
        #: Relays that had no slot when somebody looked last; the others need not be looked at again.
        self._queued: dict[str, Relay] = {}

    @contextmanager
    def expecting(self, response_id: str, user_id: int | None, model: str) -> Iterator[None]:
        """Around storing and launching a response: it has its place, and who wants to stop it waits for its relay."""
        expected = self._expected[response_id] = asyncio.get_running_loop().create_future()
        self._admission.enter(user_id)
        self._storing[model] += 1
        try:
            yield
        finally:
            self._storing[model] -= 1
            self._admission.leave(user_id)
            del self._expected[response_id]
            expected.set_result(None)

    def expects(self, response_id: str) -> bool:
        """Whether the response is being stored."""
        return response_id in self._expected

    async def launched(self, response_id: str) -> None:
        """Wait until a response that is being stored has its relay, or has failed to get one."""
        if expected := self._expected.get(response_id):
            await asyncio.shield(expected)

    @property
    def storing_models(self) -> set[str]:
        """The models of responses that are being stored."""
        return {model for model, count in self._storing.items() if count}

    def take(self, relay: Relay, user_id: int | None) -> None:
        """A relay starts."""
        self._queued[relay.job.response_id] = relay
        self._admission.enter(user_id)

    def leave(self, relay: Relay, user_id: int | None) -> None:
        """A relay has ended."""
        self._queued.pop(relay.job.response_id, None)
        self._admission.leave(user_id)

    def without_slot(self, model: str) -> int:
        """How many responses of the model are being stored here, or wait for an engine."""
        self._queued = {i: relay for i, relay in self._queued.items() if relay.figures.admitted_at is None}
        return self._storing[model] + sum(relay.job.model == model for relay in self._queued.values())
