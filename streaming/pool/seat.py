"""Owns one engine as the pool sees it: its slots, those in use, its health and its progress. Chooses nothing."""

from dataclasses import dataclass, field

from streaming import models
from streaming.engine.base import Engine
from streaming.engine.registry import engine_for

from .health import Health

#: An engine that works on something and has given nothing for so long is taken last.
STALLED_S = 10.0


@dataclass(slots=True)
class Seat:
    """``share`` of the row's slots are this process's."""

    row: models.Engine
    processes: int = 1
    leased: int = 0
    progress_at: float = 0.0
    #: When it last gave something: an engine that never has is as good as any other, but proves nothing.
    output_at: float = float("-inf")
    #: Since when this process knows that the engine is being drained.
    drained_at: float | None = None
    health: Health = field(default_factory=Health)

    @property
    def slots(self) -> int:
        """This process's part of the engine's slots."""
        return max(1, self.row.slots // self.processes)

    def learn(self, row: models.Engine, now: float) -> None:
        """The row was read again."""
        self.row = row
        if row.drain_started_at is None:
            self.drained_at = None
        elif self.drained_at is None:
            self.drained_at = now

    @property
    def takes_new(self) -> bool:
        """Whether requests may come that are not here yet."""
        return self.drained_at is None

    @property
    def engine(self) -> Engine:
        return engine_for(self.row)

    @property
    def load(self) -> float:
        """The part of its slots that is in use."""
        return self.leased / self.slots

    def is_drained_for(self, seconds: float, now: float) -> bool:
        """Whether it has been drained for so long."""
        return self.drained_at is not None and now - self.drained_at >= seconds

    def free(self, now: float) -> int:
        """How many more it may take."""
        return self.health.room(self.slots, now) - self.leased

    def silent_s(self, now: float) -> float:
        """For how long it has worked on something without giving anything."""
        return now - self.progress_at if self.leased > 0 else 0.0

    def is_stalled(self, now: float) -> bool:
        return self.silent_s(now) > STALLED_S
