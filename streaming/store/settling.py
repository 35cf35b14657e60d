"""Owns what hangs on a response's end, settled once by who set it: quotas, cost, webhooks. Does not end anything.

The end's own statement says whether there is anything to do, so a response without any of the three costs no other.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection, transaction

from streaming.metrics import finished
from streaming.metrics.finished import Finished

from . import outbox, quotas
from .prices import PRICE_OF_RESPONSE, cost, price_from

MS = timedelta(milliseconds=1)


class Ended(NamedTuple):
    """A row that has just ended; ``price`` and ``is_listened_to`` come from other tables."""

    end_state: str
    engine_id: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    generated_tokens: int
    reserved: Any
    end_reason: str
    model: str
    purpose: str
    dialect: str
    stream: bool
    user_id: int | None
    error_code: str
    completion_tokens: int
    sent_tokens: int
    delivered_tokens: int
    queue_ms: float | None
    ttft_ms: float | None
    itl_p50_ms: float | None
    itl_p95_ms: float | None
    itl_max_ms: float | None
    stop_ms: float | None
    abort_proven: bool | None
    attempts: Any
    created_at: Any
    ended_at: Any
    price: str | None
    is_listened_to: bool

    @property
    def paid_tokens(self) -> int:
        """Tokens that count against quotas."""
        was_taken = self.engine_id is not None
        return quotas.charged(self.end_state, was_taken, self.prompt_tokens or 0, self.generated_tokens)


#: What the statement that sets an end returns, in the order of Ended.
RETURNING = ", ".join([*Ended._fields[:-2], PRICE_OF_RESPONSE, outbox.ANYBODY_LISTENS])


def settle(response_id: str, ended: Ended) -> None:
    """Inside the transaction of the end."""
    if ended.reserved is not None:
        quotas.settle(_loaded(ended.reserved), ended.paid_tokens)
    if ended.price is not None:
        _note_cost(response_id, ended)
    if ended.is_listened_to:
        outbox.note_ended(response_id)
    tell(lambda: _finished(response_id, ended))


def tell(done: Callable[[], Finished]) -> None:
    """Once the transaction of an end is through: counters and the log. A fault there is none of the end's."""
    transaction.on_commit(lambda: finished.note(done()), robust=True)


def _finished(response_id: str, ended: Ended) -> Finished:
    figures = {name: getattr(ended, name) for name in _FIGURES}
    took = _moment(ended.ended_at) - _moment(ended.created_at)
    return Finished(response_id, **figures, total_ms=round(took / MS, 2), attempts=_loaded(ended.attempts))


_FIGURES = Finished.__dataclass_fields__.keys() & set(Ended._fields) - {"attempts"}


def _loaded(value: Any) -> Any:
    """A column of JSON as a statement of our own returns it."""
    return json.loads(value) if isinstance(value, str) else value


def _moment(value: Any) -> datetime:
    """A column of a time: SQLite does not say that it is in UTC."""
    moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _note_cost(response_id: str, ended: Ended) -> None:
    price = price_from(ended.price or "")
    is_paid = ended.paid_tokens > 0
    prompt, cached = ended.prompt_tokens or 0, ended.cached_tokens or 0
    amount = cost(price, prompt, cached, ended.generated_tokens) if is_paid else Decimal(0)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE streaming_response SET cost = %s, currency = %s WHERE id = %s",
            [connection.ops.adapt_decimalfield_value(amount, 20, 12), price.currency, response_id],
        )
