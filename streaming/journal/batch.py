"""Owns one group commit: what goes into it and how it is written. Does not decide when; knows no event loop."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, InterfaceError, OperationalError, transaction

from streaming.protocol.events import Event
from streaming.store import log, responses
from streaming.store.responses import Delivered, Ending, Started
from streaming.store.threads import drop_broken_connection

from .tail import Tail

logger = logging.getLogger(__name__)

#: Errors of the database, not of a row.
UNAVAILABLE = (OperationalError, InterfaceError)


class Fenced(Exception):
    """Another owner has written: this process may append nothing more to the response."""


@dataclass(slots=True)
class Entry:
    """What one response adds to the commit."""

    tail: Tail
    events: Sequence[Event]
    ending: Ending | None = None
    fenced: bool = False

    def write_missing(self) -> None:
        """Insert what is not stored yet, inside the caller's transaction; raises Fenced or IntegrityError.

        A commit that was reported as failed may have gone through: then the log holds these events, or some.
        """
        if not responses.is_of_epoch(self.tail.response_id, self.tail.epoch):
            raise Fenced(self.tail.response_id)
        stored_seq = log.last_seq(self.tail.response_id)
        missing = [event for event in self.events if event.seq > stored_seq]
        if missing:
            log.insert((self.tail.response_id, event) for event in missing)
            self.write_end()

    def write_end(self) -> None:
        """Set the end state where this commit holds the end; raises Fenced when somebody else has set it."""
        if self.ending is None:
            return
        if not responses.end(self.tail.response_id, self.tail.epoch, self.events[-1].seq, self.ending):
            raise Fenced(self.tail.response_id)


@dataclass(slots=True)
class Notes:
    """Small row updates that ride along in the same transaction; losing one loses a figure, no text."""

    started: list[Started] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.started or self.delivered)

    def write_started(self) -> None:
        """Before the ends of the same commit: a row that has ended takes no more of it."""
        responses.mark_started(self.started)

    def write_delivered(self) -> None:
        """After the ends: what was delivered is at most what they say was sent."""
        responses.raise_delivered(self.delivered)


@dataclass(slots=True)
class Batch:
    """One group commit."""

    entries: list[Entry] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)

    def write(self) -> None:
        """Commit everything at once; where that fails for a reason of one row, each response alone.

        Raises one of UNAVAILABLE when the database itself is the trouble: the batch can be written again.
        """
        drop_broken_connection()
        try:
            self._write_together()
        except UNAVAILABLE:
            raise
        except Exception:
            logger.info("a commit did not go through whole; writing each response alone", exc_info=True)
            self._write_note_alone(self.notes.write_started)
            for entry in self.entries:
                self._write_alone(entry)
            self._write_note_alone(self.notes.write_delivered)

    def _write_together(self) -> None:
        with transaction.atomic():
            self.notes.write_started()
            log.insert((entry.tail.response_id, event) for entry in self.entries for event in entry.events)
            for entry in self.entries:
                entry.write_end()
            self.notes.write_delivered()

    @staticmethod
    def _write_alone(entry: Entry) -> None:
        try:
            with transaction.atomic():
                entry.write_missing()
        except UNAVAILABLE:
            raise
        except (IntegrityError, Fenced):
            entry.fenced = True
        except Exception:
            logger.exception("events of %s cannot be stored; giving it up", entry.tail.response_id)
            entry.fenced = True

    @staticmethod
    def _write_note_alone(write: Callable[[], None]) -> None:
        try:
            with transaction.atomic():
                write()
        except UNAVAILABLE:
            raise
        except Exception:
            logger.exception("row updates beside the log failed and were dropped")
