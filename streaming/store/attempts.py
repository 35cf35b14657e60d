"""Owns what rows say of the engines that were asked for a response: tokens by engine, late proofs. Asks no engine.

An attempt is an object in ``Response.attempts``. The list is written together with the row's own changes, under the
same fence, so that no attempt is counted by two owners.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from streaming.models import Response

#: How a count was come by: said by the engine, what arrived of more that may have been made, guessed from the text.
EXACT, AT_LEAST, ESTIMATED = "exact", "at_least", "estimated"
RELAY_LOST = "relay_lost"

#: What an attempt says; None where it is not known.
_FIELDS = (
    "engine_id", "engine", "request_id", "started_at", "first_output_ms", "duration_ms", "prompt_tokens",
    "cached_tokens", "generated_tokens", "count", "ended", "abort_proven",
)  # fmt: skip
_EACH = {
    "sqlite": "json_each(r.attempts) AS a",
    "postgresql": "jsonb_array_elements(r.attempts) AS a(value)",
}
_FIELD = {
    "sqlite": "json_extract(a.value, '$.{name}')",
    "postgresql": "(a.value ->> '{name}')",
}


def attempt(**known: Any) -> dict[str, Any]:
    """One as it is stored, of which this is known."""
    return {**dict.fromkeys(_FIELDS), **known}


def epoch_of(request_id: str) -> int:
    """Of the owner that asked: an attempt is named ``<response id>-<epoch>``, later ones of it with ``r2`` behind."""
    return int(request_id.rpartition("-")[2].partition("r")[0])


def generated(attempts: Sequence[Mapping[str, Any]]) -> int:
    """The tokens that all of them made, as far as is known."""
    return sum(one["generated_tokens"] for one in attempts)


def are_exact(attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the tokens of all of them are known exactly, so those of the response too."""
    return all(one["count"] == EXACT for one in attempts)


def prove_late(attempts: Iterable[dict[str, Any]], request_id: str, proven_ms: float) -> None:
    """Have the one of this name say that its abort was proven, so long after it was asked for."""
    for one in attempts:
        if one["request_id"] == request_id:
            one |= {"abort_proven": True, "abort_proven_ms": proven_ms}


def with_lost(response: Response, logged_tokens: int) -> list[dict[str, Any]]:
    """The attempts of a row whose owner is gone: the one that ran is known by the row's engine and by the log."""
    known: list[dict[str, Any]] = list(response.attempts)
    made = max(0, logged_tokens - generated(known))
    if response.engine_id is None and not made:
        return known
    lost = attempt(
        engine_id=response.engine_id,
        engine=response.engine.name if response.engine else "",
        request_id=f"{response.id}-{response.epoch}",
        prompt_tokens=response.prompt_tokens if made and not known else None,
        generated_tokens=made,
        count=AT_LEAST,
        ended=RELAY_LOST,
    )
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
        prove_late(row.attempts, request_id, proven_ms)
        is_last = bool(row.attempts) and row.attempts[-1]["request_id"] == request_id
        Response.objects.filter(id=response_id).update(
            attempts=row.attempts, abort_proven=True if is_last else row.abort_proven
        )
    return True
