"""Owns the task that works at batches, turn by turn, who has waited longest first. How lines are asked: batch_turn."""

import asyncio
import logging
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice

from django.conf import settings

from streaming.models import Batch
from streaming.protocol.batch_lines import check, unanswered
from streaming.store import batch_work, batches, files
from streaming.store.batch_work import Keep, LostLease, Result

from . import batch_kept
from .batch_turn import CANCELLED, EXPIRED, LEASE, LOOK_S, Numbered, Turn, asked_by, left_of, line_id, lines_of
from .ticks import tick

logger = logging.getLogger(__name__)

#: A turn's length, well below every limit of a task's time; then who has waited longest has one.
TURN_S = 60.0
#: After a fault of ours: when the batch has its next turn.
REST_S = 30.0
LINES_AT_ONCE = 200
#: Between two looks whether what was stopped has ended: until then it may yet be answered.
SETTLING_S = 1.0
STATUS_OF = {CANCELLED: Batch.Status.CANCELLED, EXPIRED: Batch.Status.EXPIRED}


@tick("streaming.work_batches", every_s=2)
def work_batches() -> int:
    """Turns at batches, one after the other, while there are any and not as many are worked at as may be.

    Returns at how many.
    """
    until_s, count = time.monotonic() + min(TURN_S, settings.TASK_TIME_LIMIT_S / 2), 0
    while (left_s := until_s - time.monotonic()) > 0:
        batch = batch_work.take(uuid.uuid4().hex, settings.BATCHES_AT_ONCE, LEASE)
        if batch is None:
            break
        _work_at(batch, left_s)
        count += 1
    return count


def _work_at(batch: Batch, lasts_s: float) -> None:
    rest_s = REST_S
    try:
        rest_s = _turn(batch, lasts_s)
    except* LostLease:
        logger.info("%s is worked at by another, or gone", batch.id)
    finally:
        batch_work.release(batch, timedelta(seconds=rest_s))


def _turn(batch: Batch, lasts_s: float) -> float:
    """Returns how long the batch may rest."""
    if batch.status == Batch.Status.CANCELLING and not batch.output_file_id:
        batch_work.finish(batch, Batch.Status.CANCELLED, _keep(batch))
        return 0.0
    if not batch.output_file_id and not _begin(batch):
        return 0.0
    turn = Turn(batch, lasts_s)
    if not turn.ending:
        asyncio.run(turn.work())
    batch = batch_work.renew(batch, LEASE)
    if turn.ending and not _is_through(batch):
        batches.stop_lines(batch.id, "api")
        if batches.has_running_lines(batch.id):
            return SETTLING_S
        batch = _kept(batch)
    if _is_through(batch):
        is_completed = batch_work.finalize(batch)
        batch_work.finish(batch, Batch.Status.COMPLETED if is_completed else Batch.Status.CANCELLED, _keep(batch))
    elif turn.ending:
        _end_early(batch, turn.ending)
    return turn.pause_s or 0.0


def _is_through(batch: Batch) -> bool:
    return batch.completed + batch.failed == batch.total


def _kept(batch: Batch) -> Batch:
    """The batch when every answer that there is has been written."""
    for result in batch_kept.results(batch, _holding(batch, left_of(batch))):
        batch_work.write(batch, [result])
    return batch_work.renew(batch, LEASE)


def _begin(batch: Batch) -> bool:
    """Whether its lines are sound."""
    longest_bytes = settings.MAX_BODY_BYTES
    checked = check(_holding(batch, lines_of(batch, longest_bytes)), batch.endpoint, longest_bytes)
    if checked.errors:
        batch_work.finish(batch, Batch.Status.FAILED, _keep(batch), checked.errors)
        return False
    batch_work.begin(batch, checked.count, checked.keeps_nothing)
    batch.refresh_from_db()
    return True


def _end_early(batch: Batch, ending: tuple[str, str]) -> None:
    """Say of every line that has no answer why it has none."""
    code, message = ending
    left = _holding(batch, left_of(batch))
    while some := list(islice(left, LINES_AT_ONCE)):
        batch_work.write(batch, list(_unanswered(batch, some, code, message)))
    status = STATUS_OF.get(ending, Batch.Status.FAILED)
    error = {"code": code, "line": None, "message": message, "param": None}
    batch_work.finish(batch, status, _keep(batch), [error] if status == Batch.Status.FAILED else [])


def _holding(batch: Batch, numbered: Iterable[Numbered]) -> Iterator[Numbered]:
    """The same lines; whoever goes through them keeps the batch meanwhile. Raises LostLease."""
    held_at = time.monotonic()
    for one in numbered:
        if time.monotonic() - held_at > LOOK_S:
            batch_work.renew(batch, LEASE)
            held_at = time.monotonic()
        yield one


def _unanswered(batch: Batch, some: Iterable[Numbered], code: str, message: str) -> Iterable[Result]:
    for number, line in some:
        said = unanswered(line_id(batch, number), asked_by(batch, line).custom_id, code, message)
        yield Result(number, said, is_error=True)


def _keep(batch: Batch) -> Keep:
    asked = None if batch.output_ttl_s is None else timedelta(seconds=batch.output_ttl_s)
    if batch.no_store:
        kept, unread = timedelta(seconds=settings.NO_STORE_FILE_S), timedelta(seconds=settings.NO_STORE_KEEP_S)
        return Keep(files.shortest(kept, asked), unread)
    days = settings.FILE_TTL_DAYS
    return Keep(files.shortest(timedelta(days=days) if days else None, asked), None)
