"""Owns whether an attempt that failed is followed by another, and by which engine. Asks none and stores nothing."""

from streaming.engine.base import EngineError
from streaming.engine.registry import bundle_for, engine_for
from streaming.pool import Lease, Pool, Wish

from .fate import Moved
from .job import Job

#: Before a round has begun, another engine may be asked, or the same a moment later; after that, only another.
RETRIES = 2
RETRY_S = 0.2
CARRIED_ON_MAX = 3
#: What may have befallen an engine and need not befall the next.
PASSING = ("upstream_lost", "engine_aborted")


class Attempts:
    """Those of one response under one owner. ``number`` is the one that runs, or comes next.

    Each round of an answer has as many as an answer of one round; ``is_begun``: an engine has made something of the
    first already.
    """

    def __init__(self, job: Job, pool: Pool, is_begun: bool):
        self.number = 1
        self.carried_on = 0
        #: Whether the next one goes on from what is stored.
        self.resume = not job.messages
        self._by_ids = is_begun
        self._job = job
        self._pool = pool
        self._is_held = job.sampling.json_schema is not None
        self._avoid: set[int] = set()
        self._tried = 0
        self._moved = 0

    def next_round(self) -> None:
        """A round is over: the next begins from what is stored, at any engine."""
        self.number += 1
        self.resume, self._by_ids, self._is_held = True, False, False
        self._avoid.clear()
        self._tried = self._moved = 0

    def wish(self) -> Wish:
        """The engine that the next one needs."""
        return Wish(self._job.cache_salt, self._job.conversation, frozenset(self._avoid), by_ids=self._by_ids)

    def may_follow(self, error: EngineError | Moved, lease: Lease, has_begun: bool) -> bool:
        """Whether there is another after this failure; ``has_begun``: something of the round came already."""
        if isinstance(error, Moved):
            return self.may_move(lease, has_begun)
        if not has_begun:
            return self._tried < RETRIES and error.is_worth_another
        return error.reason in PASSING and self.may_move(lease, has_begun)

    def may_move(self, lease: Lease, has_begun: bool) -> bool:
        """Whether a working engine may be left for another."""
        if not (has_begun or self._by_ids):
            return self._tried < RETRIES and bool(self._pool.others(self._job.model, {lease.row.pk, *self._avoid}))
        return self._tried < RETRIES + CARRIED_ON_MAX and self.can_carry_on(lease)

    def can_carry_on(self, lease: Lease) -> bool:
        """Whether there is another engine that can go on where this one stopped; a grammar would begin anew there."""
        if self._moved >= CARRIED_ON_MAX or not lease.engine.can_continue or self._is_held:
            return False
        own = bundle_for(lease.row).tokenizer_hash
        others = self._pool.others(self._job.model, {lease.row.pk, *self._avoid})
        return any(engine_for(row).can_continue and bundle_for(row).tokenizer_hash == own for row in others)

    def pause_s(self, lease: Lease) -> float:
        """How long to wait before the next: only where nobody but engines that failed are there."""
        others = self._pool.others(self._job.model, {lease.row.pk, *self._avoid})
        return 0.0 if self._moved or others else RETRY_S * (self._tried + 1)

    def carry_on(self) -> None:
        """The next one goes on where this one stopped."""
        self.carried_on += 1
        self._moved += 1
        self.resume = self._by_ids = True

    def failed(self, lease: Lease) -> None:
        """This one is over and another follows."""
        self._avoid.add(lease.row.pk)
        self.number += 1
        self._tried += 1
