"""Owns the right to ask one engine, once, and what the engine's health learns of it. Gives none out."""

from dataclasses import dataclass

from streaming import models
from streaming.engine.base import Engine

from .seat import Seat


@dataclass(slots=True)
class Lease:
    """The right to ask one engine, once. Tell it of every output: by that an engine's health is known."""

    seat: Seat
    has_output: bool = False

    @property
    def row(self) -> models.Engine:
        return self.seat.row

    @property
    def engine(self) -> Engine:
        return self.seat.engine

    def progress(self, now: float) -> None:
        """The engine gave something."""
        self.seat.progress_at = self.seat.output_at = now
        if not self.has_output:
            self.has_output = True
            self.seat.health.succeeded()
