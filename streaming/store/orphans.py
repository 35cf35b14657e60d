"""Owns taking over responses whose owner is gone: one transaction each, fenced by owner, epoch and primary key."""

from collections.abc import Callable

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F, Sum
from django.utils import timezone

from streaming.models import Response, ResponseEvent, WebProcess
from streaming.protocol.end_state import OWNER_LOST, End, decide
from streaming.protocol.events import CONTINUED, ENDED, TEXT, Event
from streaming.protocol.rounds import rounds_of

from . import attempts, log, presence
from .responses import Ending, end

#: How often a writer that was taken for dead may be faster before that is an error.
LATE_WRITES = 20
DEADLOCK = "40P01"
#: How a response ends that nobody can carry on.
LOST = decide(None, OWNER_LOST, message="The server was lost while it answered.")


def unended(owner_not: str | None = None) -> list[Response]:
    """Responses that have not ended and are not owned by the given process."""
    rows = Response.objects.filter(end_state__isnull=True).order_by("id")
    return list(rows.exclude(owner=owner_not) if owner_not else rows)


def unended_of(owner: str) -> list[Response]:
    """Responses that have not ended and are owned by the given process."""
    return list(Response.objects.filter(end_state__isnull=True, owner=owner).order_by("id"))


def adopt(response: Response, new_owner: str) -> bool:
    """Become the owner and store the ``continued`` event; False when somebody else was faster."""
    if not _against_a_late_writer(lambda: _adopt(response, new_owner)):
        return False
    response.owner = new_owner
    response.epoch += 1
    return True


def _adopt(response: Response, new_owner: str) -> bool:
    if not _take(response, new_owner):
        return False
    payload = {"attempt": response.epoch + 1, "reason": attempts.RELAY_LOST}
    seq = log.last_seq(response.id) + 1
    event = Event(seq, response.epoch + 1, CONTINUED, payload, at_ms=age_ms(response))
    log.insert([(response.id, event)])
    return True


def end_orphan(response: Response, how: End) -> bool:
    """End a response that nobody carries on, counting what its log shows. Returns whether this call ended it."""
    return _against_a_late_writer(lambda: _end_orphan(response, how))


def _end_orphan(response: Response, how: End) -> bool:
    if not _take(response, None):
        return False
    seq = log.last_seq(response.id) + 1
    figures = counted(response)
    usage = {name: count for name, count in figures.items() if name.endswith("_tokens")}
    event = Event(seq, response.epoch + 1, ENDED, how.to_payload(usage), at_ms=age_ms(response))
    log.insert([(response.id, event)])
    ended = end(response.id, response.epoch + 1, seq, Ending(how, figures, bool(attempts.unproven(response.attempts))))
    presence.fold([response.id])
    return ended


def _against_a_late_writer(work: Callable[[], bool]) -> bool:
    """Run in a transaction; again where an owner that is not dead after all stored an event in between.

    Events do not lock the row, so only the primary key tells. The loser of that race looks again. On PostgreSQL it may
    be told of a deadlock instead: we hold the row and wait for its event, it wrote that and waits for the row.
    """
    for _ in range(LATE_WRITES):
        try:
            with transaction.atomic():
                return work()
        except IntegrityError:
            continue
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != DEADLOCK:
                raise
    with transaction.atomic():
        return work()


def end_owned(response_id: str, epoch: int, how: End) -> bool:
    """End a response whose relay broke, if it still has the epoch of that relay and has not ended."""
    row = Response.objects.filter(id=response_id, epoch=epoch, end_state__isnull=True).first()
    return row is not None and end_orphan(row, how)


def _take(response: Response, new_owner: str | None) -> bool:
    unended = Response.objects.filter(
        id=response.id, owner=response.owner, epoch=response.epoch, end_state__isnull=True
    )
    if (row := unended.select_for_update(of=("self",)).select_related("engine").first()) is None:
        return False
    rounds = rounds_of(log.read(row.id)) if row.run_tools else ()
    response.attempts = attempts.with_lost(row, logged_tokens(row.id), rounds)
    return bool(unended.update(owner=new_owner, epoch=response.epoch + 1, attempts=response.attempts))


def age_ms(response: Response) -> int:
    """How long ago the request arrived, by clocks that may differ a little from process to process."""
    return max(0, round((timezone.now() - response.created_at).total_seconds() * 1000))


def logged_tokens(response_id: str) -> int:
    """The tokens that the stored events carry."""
    return ResponseEvent.objects.filter(response_id=response_id).aggregate(n=Sum("token_count"))["n"] or 0


def counted(response: Response) -> dict[str, object]:
    """Token counts and text as the log has them: a lower bound of what the engines made."""
    tokens = logged_tokens(response.id)
    texts = ResponseEvent.objects.filter(response_id=response.id, kind=TEXT).order_by("seq")
    text = "".join(payload["text"] for payload in texts.values_list("payload", flat=True))
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
