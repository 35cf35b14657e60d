"""Owns one group commit: what goes into it and how it is written. Does not decide when; knows no event loop."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction

from streaming.protocol.events import Event
from streaming.store import log, responses
from streaming.store.responses import Delivered, Ending, Started
from streaming.store.threads import drop_broken_connection
from streaming.store.trouble import UNAVAILABLE

from .creation import Creation
from .tail import Tail

logger = logging.getLogger(__name__)


class Fenced(Exception):
    """Another owner has written: this process may append nothing more to the response."""


class Hole(Exception):
    """The database lost more of a log than memory still holds."""


@dataclass(slots=True)
class Entry:
    """What one response adds to the commit."""

    tail: Tail
    events: Sequence[Event]
    ending: Ending | None = None
    fenced: bool = False

    def write_missing(self) -> None:
        """Insert what is not stored, inside the caller's transaction; raises Fenced, Hole or IntegrityError.

        A commit that was reported as failed may have gone through: then the log holds these events, or some.
        One that was reported as stored may be lost (PostgreSQL with ``synchronous_commit`` off was killed):
        then the log lacks events that readers have seen, and gets them from memory.
        """
        if not responses.is_of_epoch(self.tail.response_id, self.tail.epoch):
            raise Fenced(self.tail.response_id)
        stored_seq = log.last_seq(self.tail.response_id)
        missing = [event for event in (*self.tail.events, *self.events) if event.seq > stored_seq]
        if missing:
            if missing[0].seq != stored_seq + 1:
                raise Hole(self.tail.response_id)
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
    """One group commit. ``failed`` says that an earlier try found the database to be the trouble.

    With ``synchronous`` off events need not be on disk when the commit returns: memory has them a while longer.
    """

    entries: list[Entry] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    creations: list[Creation] = field(default_factory=list)
    synchronous: bool = True
    failed: bool = False

    def write_again_later(self, live: Iterable[Tail]) -> None:
        """The database was the trouble: next time also look whether it still has what was published before."""
        self.failed = True
        self.creations = []  # who asked has been told
        known = {entry.tail for entry in self.entries}
        self.entries += [Entry(tail, ()) for tail in live if tail not in known and not tail.given_up]

    def write(self) -> None:
        """Commit everything at once; where that fails for a reason of one row, each response alone.

        Raises one of UNAVAILABLE when the database itself is the trouble: the batch can be written again.
        """
        drop_broken_connection()
        if self.failed:
            self._write_each()
            return
        try:
            self._write_together()
        except UNAVAILABLE:
            raise
        except Exception:
            logger.info("a commit did not go through whole; writing each response alone", exc_info=True)
            self._write_each()

    def _write_each(self) -> None:
        for creation in self.creations:
            creation.write_alone()
        if self.notes.started:
            self._write_note_alone(self.notes.write_started)
        # A savepoint for each response, and for all of them one wait for the disk. Each holds its row, so that
        # nothing is left that only the commit could find wrong.
        with transaction.atomic():
            for entry in self.entries:
                self._write_alone(entry)
        if self.notes.delivered:
            self._write_note_alone(self.notes.write_delivered)

    def _write_together(self) -> None:
        with transaction.atomic():
            if not (self.synchronous or self.creations or any(entry.ending for entry in self.entries)):
                log.commit_without_waiting()
            for creation in self.creations:
                creation.write()
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
        except Hole:
            logger.error("the database lost more of %s than memory holds; giving it up", entry.tail.response_id)
            entry.fenced = entry.tail.storage_lost = True
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
