"""Owns what rows say of the engines that were asked for a response: tokens by engine, late proofs. Asks no engine.

An attempt is an object in ``Response.attempts``. The list is written together with the row's own changes, under the
same fence, so that no attempt is counted by two owners.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from streaming.models import Response

#: How a count was come by: said by the engine, what arrived of more that may have been made, guessed from the text.
EXACT, AT_LEAST, ESTIMATED = "exact", "at_least", "estimated"
RELAY_LOST = "relay_lost"

_EACH = {
    "sqlite": "json_each(r.attempts) AS a",
    "postgresql": "jsonb_array_elements(r.attempts) AS a(value)",
}
_FIELD = {
    "sqlite": "json_extract(a.value, '$.{name}')",
    "postgresql": "(a.value ->> '{name}')",
}


def generated(attempts: Sequence[Mapping[str, Any]]) -> int:
    """The tokens that all of them made, as far as is known."""
    return sum(attempt["generated_tokens"] for attempt in attempts)


def with_lost(response: Response, logged_tokens: int) -> list[dict[str, Any]]:
    """The attempts of a row whose owner is gone: the one that ran is known by the row's engine and by the log."""
    known: list[dict[str, Any]] = list(response.attempts)
    made = max(0, logged_tokens - generated(known))
    if response.engine_id is None and not made:
        return known
    lost = {
        "engine_id": response.engine_id,
        "engine": response.engine.name if response.engine else "",
        "request_id": f"{response.id}-{response.epoch}",
        "started_at": None,
        "first_output_ms": None,
        "duration_ms": None,
        "prompt_tokens": response.prompt_tokens if made and not known else None,
        "cached_tokens": None,
        "generated_tokens": made,
        "count": AT_LEAST,
        "ended": RELAY_LOST,
        "abort_proven": None,
    }
    return [*known, lost]


def generated_by_engine() -> dict[int | None, int]:
    """Tokens by the key of the engine that made them, over all stored attempts: a lower bound where one is."""
    field = _FIELD[connection.vendor]
    engine, tokens = field.format(name="engine_id"), field.format(name="generated_tokens")
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT CAST({engine} AS bigint), SUM(CAST({tokens} AS bigint))"  # noqa: S608
            f" FROM streaming_response r, {_EACH[connection.vendor]} GROUP BY 1"
        )
        return {engine_id: int(total) for engine_id, total in cursor.fetchall()}


def note_abort_proven(response_id: str, request_id: str, proven_ms: float) -> bool:
    """An abort was proven after all, ``proven_ms`` after it was asked for. False while the response has no end yet."""
    with transaction.atomic():
        rows = Response.objects.select_for_update().filter(id=response_id)
        row = rows.only("attempts", "end_state", "abort_proven").first()
        if row is None:
            return True
        if row.end_state is None:
            return False
        for attempt in row.attempts:
            if attempt["request_id"] == request_id:
                attempt |= {"abort_proven": True, "abort_proven_ms": proven_ms}
        is_last = bool(row.attempts) and row.attempts[-1]["request_id"] == request_id
        Response.objects.filter(id=response_id).update(
            attempts=row.attempts, abort_proven=True if is_last else row.abort_proven
        )
    return True
