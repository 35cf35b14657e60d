"""Owns a new row that rides along with a commit, and telling who asked for it. Does not decide when it is written."""

import asyncio
from dataclasses import dataclass

from django.db import OperationalError

from streaming.models import Response
from streaming.store import creation
from streaming.store.creation import NewResponse
from streaming.store.trouble import UNAVAILABLE


def no_storage() -> OperationalError:
    return OperationalError("the database takes no writes")


@dataclass(slots=True, eq=False)
class Creation:
    """``stored`` gets what became of it: the row, or why it cannot be stored."""

    new: NewResponse
    stored: asyncio.Future[Response]
    response: Response | None = None
    error: Exception | None = None

    def write(self) -> None:
        """Inside the caller's transaction, which any error breaks."""
        self.response = creation.insert(self.new)

    def write_alone(self) -> None:
        """In a transaction of its own. Raises one of UNAVAILABLE; another error is the answer."""
        self.response = None  # what a transaction that broke had made
        try:
            self.response = creation.create(self.new)
        except UNAVAILABLE:
            raise
        except Exception as error:  # noqa: BLE001  who asked for the row is told
            self.error = error

    def answer(self, error: Exception | None = None) -> None:
        """Tell who asked, unless that has been done; on the event loop."""
        if self.stored.done():
            return
        if self.response and not error:
            self.stored.set_result(self.response)
        else:
            self.stored.set_exception(error or self.error or no_storage())
