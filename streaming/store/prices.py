"""Owns what tokens cost: which price counts for a response, and what it comes to. Stores nothing."""

from decimal import Decimal
from typing import NamedTuple

MILLION = Decimal(1_000_000)

#: In a statement on streaming_response: the price that counted when the response began, as price_from reads it.
PRICE_OF_RESPONSE = (
    "(SELECT currency || ' ' || input_price || ' ' || cached_price || ' ' || output_price FROM streaming_modelprice p"
    " WHERE p.model = streaming_response.model AND p.valid_from <= streaming_response.created_at"
    " ORDER BY p.valid_from DESC LIMIT 1)"
)


class Price(NamedTuple):
    """Per million tokens."""

    currency: str
    input: Decimal
    cached: Decimal
    output: Decimal


def price_from(text: str) -> Price:
    """From PRICE_OF_RESPONSE."""
    currency, *amounts = text.split(" ")
    return Price(currency, *(Decimal(amount) for amount in amounts))


def cost(price: Price, prompt_tokens: int, cached_tokens: int, generated_tokens: int) -> Decimal:
    """Exact. What the engine had in its cache is part of the prompt and has its own price."""
    cached = min(cached_tokens, prompt_tokens)
    total = (prompt_tokens - cached) * price.input + cached * price.cached + generated_tokens * price.output
    return total / MILLION
