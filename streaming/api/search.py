"""Owns the page's search over its user's conversations. The owner check is in the query of store.search."""

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router

from streaming.store import search as store

from .auth import caller
from .errors import ApiError
from .schemas import HitOut, HitsOut

QUERY_CHARS = 200

router = Router()


@router.get("/search", response=HitsOut)
async def search(request: HttpRequest, q: str) -> HitsOut:
    """Where the user's titles, questions and answers hold a text."""
    text = q.strip()
    if not 1 <= len(text) <= QUERY_CHARS or "\0" in text:
        raise ApiError(400, f"q: 1 to {QUERY_CHARS} characters (got {len(text)})", code="invalid_request", param="q")
    hits = await sync_to_async(store.search, thread_sensitive=True)(caller(request).user.pk, text)
    return HitsOut(data=[_hit(hit) for hit in hits])


def _hit(hit: store.Hit) -> HitOut:
    return HitOut(
        conversation=hit.conversation_id,
        title=hit.title,
        message=hit.message_id,
        before=hit.before,
        match=hit.match,
        after=hit.after,
    )
