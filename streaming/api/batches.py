"""Owns the routes of batches: create, list, retrieve, cancel. Owner checks are in store.batches; tasks do the work."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router

from streaming.models import Batch, StoredFile
from streaming.store import batches, threads

from .auth import caller
from .chat_schema import Metadata
from .errors import ApiError
from .file_lifetime import ExpiresAfter
from .lists import checked_after, listed
from .schemas import StrictBody

RETRY_S = 60
LIST_MAX = 100

router = Router()


class BatchRequest(StrictBody):
    """``POST /v1/batches``."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/responses", "/v1/messages"]
    completion_window: Literal["24h"]
    metadata: Metadata | None = None
    output_expires_after: ExpiresAfter | None = None


@router.post("/batches", response=dict[str, Any], summary="Have a file of requests answered")
async def create(request: HttpRequest, body: BatchRequest) -> dict[str, Any]:
    """Have the requests of a file answered, within a day, by the rights of the key that asks."""
    asker = caller(request)
    ttl_s = body.output_expires_after.seconds if body.output_expires_after else None
    new = batches.NewBatch(asker.user.pk, asker.api_key_id, body.endpoint, body.input_file_id, body.metadata, ttl_s)
    try:
        return shown(await threads.write(batches.create, new, settings.BATCHES_PER_USER))
    except StoredFile.DoesNotExist:
        message = f"input_file_id: you have no file for batches of this id (got {body.input_file_id[:40]!r})"
        raise ApiError(404, message, code="not_found", param="input_file_id") from None
    except batches.TooManyBatches:
        message = f"{settings.BATCHES_PER_USER} of your batches have not ended; wait for one of them"
        raise ApiError(429, message, code="rate_limited", headers={"Retry-After": str(RETRY_S)}) from None


@router.get("/batches", response=dict[str, Any], summary="List batches")
async def list_batches(
    request: HttpRequest, after: str | None = None, limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = 20
) -> dict[str, Any]:
    """The caller's batches, latest first, a page at a time."""
    after, user_id = checked_after(after, "batch_"), caller(request).user.pk
    found, has_more = await threads.run(batches.page, user_id, after, limit)
    return listed(found, has_more, shown)


@router.get("/batches/{batch_id}", response=dict[str, Any], summary="Show a batch")
async def retrieve(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    """The batch as it stands."""
    return shown(await _found(request, batch_id))


@router.post("/batches/{batch_id}/cancel", response=dict[str, Any], summary="Stop a batch")
async def cancel(request: HttpRequest, batch_id: str) -> dict[str, Any]:
    """Stop what runs of it and begin no more; one that has ended stays as it is. What is answered is kept."""
    batch = await _found(request, batch_id)
    await threads.write(batches.cancel, batch.id, "api")
    return shown(await _found(request, batch_id))


async def _found(request: HttpRequest, batch_id: str) -> Batch:
    batch = await threads.run(batches.get, batch_id, caller(request).user.pk)
    if batch is None:
        raise ApiError(404, "there is no such batch", code="not_found")
    return batch


TIMES = (
    "created_at", "in_progress_at", "expires_at", "finalizing_at", "completed_at", "failed_at", "expired_at",
    "cancelling_at", "cancelled_at",
)  # fmt: skip


def shown(batch: Batch) -> dict[str, Any]:
    """A batch as OpenAI shows one. Its files are named once they can be read."""
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": batch.status,
        "output_file_id": None if batch.is_unfinished else batch.output_file_id or None,
        "error_file_id": None if batch.is_unfinished else batch.error_file_id or None,
        **{name: _seconds(getattr(batch, name)) for name in TIMES},
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "metadata": batch.metadata,
    }


def _seconds(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None
