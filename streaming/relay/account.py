"""Owns the account of a response's attempts: which engine, what it read and made, how it ended. Asks no engine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from streaming.engine.base import GenerateRequest
from streaming.pool import Lease
from streaming.protocol.engine_output import EngineUsage
from streaming.store import attempts
from streaming.store.attempts import AT_LEAST, ESTIMATED, EXACT

from .figures import milliseconds


@dataclass(slots=True)
class Attempt:
    """One engine that was asked. Times are the event loop's seconds; ``tokens_before`` were made before it.

    ``is_counted``: the engine itself said at the end of its work how many tokens it made.
    """

    lease: Lease
    request: GenerateRequest
    began_at: float
    started_at: str
    tokens_before: int
    first_output_at: float | None = None
    is_counted: bool = False
    abort_proven: bool | None = None

    def to_dict(self, ended: str, now: float, generated_tokens: int, usage: EngineUsage | None) -> dict[str, Any]:
        """As it is stored; ``generated_tokens`` of the whole response."""
        row, first_at = self.lease.row, self.first_output_at
        return {
            "engine_id": row.pk,
            "engine": row.name,
            "request_id": self.request.request_id,
            "started_at": self.started_at,
            "first_output_ms": None if first_at is None else milliseconds(first_at - self.began_at),
            "duration_ms": milliseconds(now - self.began_at),
            "prompt_tokens": self._prompt_tokens(usage),
            "cached_tokens": usage.cached_tokens if usage else None,
            "generated_tokens": max(0, generated_tokens - self.tokens_before),
            "count": self._how_counted(usage),
            "ended": ended,
            "abort_proven": self.abort_proven,
        }

    def _prompt_tokens(self, usage: EngineUsage | None) -> int | None:
        """What it read: by its own account, else what we sent, once an output shows that it was read."""
        if usage is not None and usage.prompt_tokens is not None:
            return usage.prompt_tokens
        if self.first_output_at is None or self.lease.engine.renders_prompt:
            return None
        return len(self.request.prompt_ids)

    def _how_counted(self, usage: EngineUsage | None) -> str:
        is_reported = usage is not None and usage.completion_tokens is not None
        if is_reported and self.is_counted:
            return EXACT
        return AT_LEAST if is_reported or not self.lease.engine.renders_prompt else ESTIMATED


class Account:
    """The attempts of one response, with those of earlier owners, oldest first."""

    def __init__(self, earlier: Sequence[Mapping[str, Any]]):
        self._over: list[dict[str, Any]] = [dict(attempt) for attempt in earlier]
        self._unproven = set(attempts.unproven(self._over))
        self.current: Attempt | None = None

    @property
    def generated_tokens(self) -> int:
        """What those that are over made."""
        return attempts.generated(self._over)

    def read_in(self, rounds: int) -> list[tuple[int, int | None]]:
        """Prompt and cached tokens of so many rounds that are over."""
        return attempts.read_in_rounds(self._over)[:rounds]

    @property
    def is_exact(self) -> bool:
        """Whether each engine that was asked said itself how many tokens it made; where none was, that is none."""
        return attempts.are_exact(self._over)

    def begin(self, lease: Lease, request: GenerateRequest, now: float, tokens_before: int) -> Attempt:
        """An engine is asked."""
        started_at = timezone.now().isoformat(timespec="milliseconds")
        self.current = Attempt(lease, request, now, started_at, tokens_before)
        return self.current

    def over(self, ended: str, now: float, generated_tokens: int, usage: EngineUsage | None) -> None:
        """The attempt that runs has ended, for this reason."""
        if attempt := self.current:
            self.current = None
            self._over.append(attempt.to_dict(ended, now, generated_tokens, usage))
            if attempt.abort_proven is False and attempt.lease.engine.can_prove_aborts:
                self._unproven.add(attempt.request.request_id)

    def proven_late(self, request_id: str, proven_ms: float) -> None:
        """An abort that could not be proven at first has been, so long after it was asked for."""
        attempts.prove_late(self._over, request_id, proven_ms)
        self._unproven.discard(request_id)

    @property
    def is_unproven(self) -> bool:
        """Whether an engine was left that could show that it stopped, and has not."""
        return bool(self._unproven)

    def of_epoch(self, epoch: int) -> list[dict[str, Any]]:
        """Those that are over and were this owner's."""
        return [attempt for attempt in self._over if attempts.epoch_of(attempt["request_id"]) == epoch]

    def to_json(self) -> str:
        """Those that are over."""
        return json.dumps(self._over)
