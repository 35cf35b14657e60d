"""Owns taking over responses whose owner is gone: one transaction each, fenced by owner, epoch and primary key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone

from streaming.models import Response, WebProcess
from streaming.protocol.end_state import OWNER_LOST, End, decide
from streaming.protocol.events import AT_MS_MAX, CONTINUED, ENDED, TEXT, Event
from streaming.protocol.rounds import rounds_of

from . import attempts, log, presence
from .responses import Ending, end

#: Waiting so often and each time so long, far below PostgreSQL's ``deadlock_timeout``, for a place in the log.
PLACE_TRIES, PLACE_PATIENCE_MS = 20, 200
DEADLOCK, LOCK_NOT_AVAILABLE = "40P01", "55P03"
#: How a response ends that nobody can carry on.
LOST = decide(None, OWNER_LOST, message="The server was lost while it answered.")


def unended(owner_not: str | None = None) -> list[Response]:
    """Responses that have not ended and are not owned by the given process."""
    rows = Response.objects.filter(end_state__isnull=True).order_by("id")
    return list(rows.exclude(owner=owner_not) if owner_not else rows)


def unended_of(owner: str) -> list[Response]:
    """Responses that have not ended and are owned by the given process."""
    return list(Response.objects.filter(end_state__isnull=True, owner=owner).order_by("id"))


def adopt(response: Response, new_owner: str) -> list[Event] | None:
    """Become the owner and store the ``continued`` event; None when somebody else was faster, else the log with it."""
    with transaction.atomic():
        if (events := _take(response, new_owner)) is None:
            return None
        payload = {"attempt": response.epoch + 1, "reason": attempts.RELAY_LOST}
        continued = _next(response, events, CONTINUED, payload)
        _append(response.id, continued)
    response.owner = new_owner
    response.epoch += 1
    return [*events, continued]


@transaction.atomic
def end_orphan(response: Response, how: End) -> bool:
    """End a response that nobody carries on, counting what its log shows. Returns whether this call ended it."""
    if (events := _take(response, None)) is None:
        return False
    figures = counted(response, events)
    usage = {name: count for name, count in figures.items() if name.endswith("_tokens")}
    last = _next(response, events, ENDED, how.to_payload(usage))
    _append(response.id, last)
    is_unproven = bool(attempts.unproven(response.attempts))
    ended = end(response.id, last.epoch, last.seq, Ending(how, figures, is_unproven))
    presence.fold([response.id])
    return ended


def end_owned(response_id: str, epoch: int, how: End) -> bool:
    """End a response whose relay broke, if it still has the epoch of that relay and has not ended."""
    row = Response.objects.filter(id=response_id, epoch=epoch, end_state__isnull=True).first()
    return row is not None and end_orphan(row, how)


def _take(response: Response, new_owner: str | None) -> list[Event] | None:
    """The log, to which nobody adds from here to the transaction's end, for an event asks for its response too.

    None where somebody else has taken it.
    """
    _queue(response.id)
    unended = Response.objects.filter(
        id=response.id, owner=response.owner, epoch=response.epoch, end_state__isnull=True
    )
    if (row := unended.select_for_update(of=("self",)).select_related("engine").first()) is None:
        return None
    events = log.read(row.id)
    response.attempts = attempts.with_lost(row, tokens_of(events), rounds_of(events) if row.run_tools else ())
    is_taken = unended.update(owner=new_owner, epoch=response.epoch + 1, attempts=response.attempts)
    return events if is_taken else None


def _next(response: Response, events: Sequence[Event], kind: str, payload: Mapping[str, Any]) -> Event:
    """The one that who takes over puts behind the log."""
    seq = events[-1].seq + 1 if events else 1
    return Event(seq, response.epoch + 1, kind, payload, at_ms=age_ms(response, events))


def _queue(response_id: str) -> None:
    """Wait for others who take the same over, elsewhere than at the row: there its owner would wait behind them."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [response_id])


def _append(response_id: str, event: Event) -> None:
    """Store an event for the holder of the row.

    An owner that is not dead after all may have the event's place already: on PostgreSQL an event has that before it
    asks for the row, and so each waits for the other. Who waits longest is told so and has lost. It must be that owner:
    one that stores all the time would win for ever. Hence we wait anew, and keep the row.
    """
    if connection.vendor == "postgresql":
        for _ in range(PLACE_TRIES):
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {PLACE_PATIENCE_MS}")
                    log.insert([(response_id, event)])
                    cursor.execute("SET LOCAL lock_timeout = DEFAULT")
                return
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", None) not in (DEADLOCK, LOCK_NOT_AVAILABLE):
                    raise
    log.insert([(response_id, event)])


def age_ms(response: Response, events: Sequence[Event]) -> int:
    """How long ago the request arrived, by wall clocks that may differ: never less than its log says, or too much."""
    age = round((timezone.now() - response.created_at).total_seconds() * 1000)
    last = events[-1].at_ms if events else None
    return min(AT_MS_MAX, max(0, last or 0, age))


def tokens_of(events: Iterable[Event]) -> int:
    """The tokens that stored events carry."""
    return sum(event.token_count for event in events)


def counted(response: Response, events: Sequence[Event]) -> dict[str, object]:
    """Token counts and text as the log has them: a lower bound of what the engines made."""
    tokens = tokens_of(events)
    text = "".join(event.payload["text"] for event in events if event.kind == TEXT)
    read_tokens = sum(prompt_tokens for prompt_tokens, _ in attempts.read_in_rounds(response.attempts))
    return {
        "prompt_tokens": max(response.prompt_tokens or 0, read_tokens),
        "generated_tokens": max(tokens, attempts.generated(response.attempts)),
        "completion_tokens": tokens,
        "sent_tokens": tokens,
        "usage_estimated": True,
        "output_text": text,
    }


def register_process(process_id: str, host: str, pid: int) -> None:
    """Announce a web process."""
    WebProcess.objects.create(id=process_id, host=host, pid=pid)


def beat(process_id: str) -> None:
    """Raise the process's counter: the only sign of life that anybody judges."""
    WebProcess.objects.filter(id=process_id).update(beat=F("beat") + 1)


def release(process_id: str) -> None:
    """Give up everything the process still owns, for adoption, and take its row away."""
    Response.objects.filter(owner=process_id, end_state__isnull=True).update(owner=None)
    presence.leave(process_id)
    WebProcess.objects.filter(id=process_id).delete()
