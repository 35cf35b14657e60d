"""Owns what rows say of the engines that were asked for a response: tokens by engine, late proofs. Asks no engine.

An attempt is an object in ``Response.attempts``. The list is written together with the row's own changes, under the
same fence, so that no attempt is counted by two owners.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from streaming.models import Response
from streaming.protocol.rounds import Round

#: How a count was come by: said by the engine, what arrived of more that may have been made, guessed from the text.
EXACT, AT_LEAST, ESTIMATED = "exact", "at_least", "estimated"
RELAY_LOST = "relay_lost"
#: How an attempt ended that ended a round with calls.
CALLED = "tool_calls"

#: What an attempt says; None where it is not known.
_FIELDS = (
    "engine_id", "engine", "request_id", "started_at", "first_output_ms", "duration_ms", "prompt_tokens",
    "cached_tokens", "generated_tokens", "count", "ended", "abort_proven",
)  # fmt: skip
_USAGE = ("count", "prompt_tokens", "cached_tokens")
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


def name_of(response_id: str, epoch: int, nth: int) -> str:
    """The name by which an engine is asked: ``<response id>-<epoch>``, an owner's later ones with ``r2`` behind."""
    return f"{response_id}-{epoch}" + (f"r{nth}" if nth > 1 else "")


def epoch_of(request_id: str) -> int:
    """Of the owner that asked."""
    return int(request_id.rpartition("-")[2].partition("r")[0])


def generated(attempts: Sequence[Mapping[str, Any]]) -> int:
    """The tokens that all of them made, as far as is known."""
    return sum(one["generated_tokens"] for one in attempts)


def read_in_rounds(attempts: Sequence[Mapping[str, Any]]) -> list[tuple[int, int | None]]:
    """Prompt and cached tokens of each round that ended with calls.

    By the first of its attempts of which they are known: who goes on where another stopped reads also what that wrote.
    """
    read, first = [], None
    for one in attempts:
        first = first or (one if one["prompt_tokens"] is not None else None)
        if one["ended"] == CALLED:
            read.append((first["prompt_tokens"], first["cached_tokens"]) if first else (0, None))
            first = None
    return read


def has_called(attempts: Sequence[Mapping[str, Any]], rounds: Sequence[Round]) -> bool:
    """Whether it is known that an engine has ended the last of these rounds with calls, of which none has a result."""
    if not rounds or rounds[-1].is_over or not rounds[-1].calls:
        return False
    return len([one for one in attempts if one["ended"] == CALLED]) == len(rounds)


def called_last(attempts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The newest that ended a round with calls."""
    return next(one for one in reversed(attempts) if one["ended"] == CALLED)


def are_exact(attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the tokens of all of them are known exactly, so those of the response too."""
    return all(one["count"] == EXACT for one in attempts)


def unproven(attempts: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of those that were left without a proof that they stopped."""
    return [one["request_id"] for one in attempts if one["abort_proven"] is False]


def prove_late(attempts: Iterable[dict[str, Any]], request_id: str, proven_ms: float) -> None:
    """Have the one of this name say that its abort was proven, so long after it was asked for."""
    for one in attempts:
        if one["request_id"] == request_id:
            one |= {"abort_proven": True, "abort_proven_ms": proven_ms}


def with_lost(response: Response, logged_tokens: int, rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """The attempts of a row whose owner is gone: the one that ran is known by the row's engine and by the log.

    None ran while calls of the last of the ``rounds`` waited for their results, and it is known that an engine had
    ended it.
    """
    known: list[dict[str, Any]] = list(response.attempts)
    nth = 1 + sum(epoch_of(one["request_id"]) == response.epoch for one in known)
    made = max(0, logged_tokens - generated(known))
    is_between = bool(rounds) and bool(rounds[-1].waiting) and (rounds[-1].is_over or has_called(known, rounds))
    if not made and (response.engine_id is None or is_between):
        return known
    lost = attempt(
        engine_id=response.engine_id,
        engine=response.engine.name if response.engine else "",
        request_id=name_of(response.id, response.epoch, nth),
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
        row = _locked(response_id)
        if row is None or row.end_state is None:
            return row is None
        prove_late(row.attempts, request_id, proven_ms)
        if row.attempts and row.attempts[-1]["request_id"] == request_id:
            row.abort_proven = True
        if not unproven(row.attempts):
            row.unproven_since = None
        row.save(update_fields=["attempts", "abort_proven", "unproven_since"])
    return True


def note_made(response_id: str, made: Iterable[Mapping[str, Any]]) -> bool:
    """What an owner that was taken for dead knows of its own attempts, better than its successor could.

    It writes down tokens only, and only of attempts that the row has as lost, or does not have: text and end are the
    successor's. False while the response has no end yet.
    """
    with transaction.atomic():
        row = _locked(response_id)
        if row is None or row.end_state is None:
            return row is None
        before = generated(row.attempts)
        for one in made:
            _note_made(row.attempts, one)
        row.generated_tokens += generated(row.attempts) - before
        row.usage_estimated = not are_exact(row.attempts)
        row.save(update_fields=["attempts", "generated_tokens", "usage_estimated"])
    return True


def _note_made(attempts: list[dict[str, Any]], made: Mapping[str, Any]) -> None:
    lost = next((one for one in attempts if one["request_id"] == made["request_id"]), None)
    if lost is None:
        attempts.append({**made, "ended": RELAY_LOST})
    elif lost["ended"] == RELAY_LOST and lost["count"] != EXACT:
        known = {name: made[name] for name in _USAGE if made[name] is not None}
        lost |= {**known, "generated_tokens": max(lost["generated_tokens"], made["generated_tokens"])}


def _locked(response_id: str) -> Response | None:
    return Response.objects.select_for_update(of=("self",), no_key=True).filter(id=response_id).first()


def left_unproven(since: datetime, after: tuple[datetime, str] | None, limit: int) -> list[Response]:
    """A page of the ended responses of which engines were left unproven since then, in the order of that time."""
    rows = Response.objects.filter(unproven_since__gte=since).order_by("unproven_since", "id")
    if after is not None:
        at, response_id = after
        rows = rows.filter(Q(unproven_since__gt=at) | Q(unproven_since=at, id__gt=response_id))
    return list(rows.only("id", "owner", "request", "attempts", "unproven_since")[:limit])
