"""Owns what hangs on a response's end, settled once by who set it: quotas, cost, webhooks. Does not end anything.

The end's own statement says whether there is anything to do, so a response without any of the three costs no other.
"""

import json
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection

from . import outbox, quotas
from .prices import PRICE_OF_RESPONSE, cost, price_from

#: What the statement that sets an end returns, in the order of Ended.
RETURNING = (
    "end_state, engine_id, prompt_tokens, cached_tokens, generated_tokens, reserved,"
    f" {PRICE_OF_RESPONSE}, {outbox.ANYBODY_LISTENS}"
)


class Ended(NamedTuple):
    """A row that has just ended; ``price`` and ``is_listened_to`` come from other tables."""

    end_state: str
    engine_id: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    generated_tokens: int
    reserved: Any
    price: str | None
    is_listened_to: bool

    @property
    def paid_tokens(self) -> int:
        """Tokens that count against quotas."""
        was_taken = self.engine_id is not None
        return quotas.charged(self.end_state, was_taken, self.prompt_tokens or 0, self.generated_tokens)


def settle(response_id: str, ended: Ended) -> None:
    """Inside the transaction of the end."""
    if ended.reserved is not None:
        reserved = json.loads(ended.reserved) if isinstance(ended.reserved, str) else ended.reserved
        quotas.settle(reserved, ended.paid_tokens)
    if ended.price is not None:
        _note_cost(response_id, ended)
    if ended.is_listened_to:
        outbox.note_ended(response_id)


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
