"""Owns whether an attempt that failed is followed by another, and by which engine. Asks none and stores nothing."""

from streaming.engine.base import EngineError
from streaming.engine.registry import bundle_for, engine_for
from streaming.pool import Lease, Pool, Wish

from .fate import Moved
from .job import Job

#: Before an answer has begun, another engine may be asked, or the same a moment later; after that, only another.
RETRIES = 2
RETRY_S = 0.2
CARRIED_ON_MAX = 3
#: What may have befallen an engine and need not befall the next.
PASSING = ("upstream_lost", "engine_aborted")


class Attempts:
    """Those of one response under one owner. ``number`` is the one that runs, or comes next."""

    def __init__(self, job: Job, pool: Pool):
        self.number = 1
        self.carried_on = 0
        self._job = job
        self._pool = pool
        self._avoid: set[int] = set()

    @property
    def resume(self) -> bool:
        """Whether the next one goes on from what is stored."""
        return self.carried_on > 0 or not self._job.messages

    def wish(self) -> Wish:
        """The engine that the next one needs."""
        return Wish(self._job.cache_salt, self._job.conversation, frozenset(self._avoid), by_ids=self.resume)

    def may_follow(self, error: EngineError | Moved, lease: Lease, has_begun: bool) -> bool:
        """Whether there is another after this failure; ``has_begun``: something of the answer came already."""
        if isinstance(error, Moved):
            return self.may_move(lease, has_begun)
        if not has_begun:
            return self.number <= RETRIES and error.is_worth_another
        return error.reason in PASSING and self.may_move(lease, has_begun)

    def may_move(self, lease: Lease, has_begun: bool) -> bool:
        """Whether a working engine may be left for another."""
        if not (has_begun or self.resume):
            return self.number <= RETRIES and bool(self._pool.others(self._job.model, {lease.row.pk, *self._avoid}))
        return self.number <= RETRIES + CARRIED_ON_MAX and self.can_carry_on(lease)

    def can_carry_on(self, lease: Lease) -> bool:
        """Whether there is another engine that can go on where this one stopped; a grammar would begin anew there."""
        if self.carried_on >= CARRIED_ON_MAX or not lease.engine.can_continue or self._job.sampling.json_schema:
            return False
        own = bundle_for(lease.row).tokenizer_hash
        others = self._pool.others(self._job.model, {lease.row.pk, *self._avoid})
        return any(engine_for(row).can_continue and bundle_for(row).tokenizer_hash == own for row in others)

    def pause_s(self, lease: Lease) -> float:
        """How long to wait before the next: only where nobody but engines that failed are there."""
        others = self._pool.others(self._job.model, {lease.row.pk, *self._avoid})
        return 0.0 if self.carried_on or others else RETRY_S * self.number

    def failed(self, lease: Lease) -> None:
        """This one is over and another follows."""
        self._avoid.add(lease.row.pk)
        self.number += 1
