"""Owns the routes of OpenAI's responses API: create, retrieve, input items, delete. Following is shared with others."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Query, Router

from streaming import ownership
from streaming.models import Response
from streaming.ownership.stop import stop
from streaming.protocol.dialects import OPENAI_RESPONSES
from streaming.protocol.dialects.openai_responses import NUMBERS_PER_EVENT
from streaming.protocol.policy import ABORT, BACKGROUND
from streaming.store import erasure, inputs, threads

from .answering import follow
from .asking import answer, ask_of
from .auth import caller
from .errors import ApiError
from .input_items import listed, turns_of
from .position import checked_position, refuse_expired
from .response_body import response_body
from .responses import found
from .responses_schema import IGNORED, ResponsesRequest

router = Router()

Number = Annotated[int, Query(ge=0, le=2**40)]


@router.post("/responses", response={200: dict[str, Any]}, summary="Ask, as responses")
async def create(request: HttpRequest, body: ResponsesRequest) -> HttpResponse:
    """A model's answer: streamed, whole, or (``background``) fetched later."""
    turns = turns_of(body.items)
    earlier = await _thread(request, body.previous_response_id) if body.previous_response_id else []
    instructions = [{"role": "system", "content": body.instructions}] if body.instructions else []
    keeps = body.store is not False
    ask = ask_of(
        request,
        body,
        [*instructions, *earlier, *turns],
        OPENAI_RESPONSES,
        default_policy=BACKGROUND if body.background else ABORT,
        kept=_kept(body, turns) if keeps else None,
        no_store=not keeps,
        detached=bool(body.background) and not body.stream,
    )
    return await answer(request, ask, body, IGNORED)


def _kept(body: ResponsesRequest, turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "previous": body.previous_response_id or "",
        "items": [item.model_dump(exclude_none=True) for item in body.items],
        "turns": turns,
        "asked": body.asked(),
    }


async def _thread(request: HttpRequest, response_id: str) -> list[dict[str, Any]]:
    try:
        return await threads.run(inputs.thread, response_id, caller(request).user.pk)
    except inputs.BrokenThread as broken:
        raise ApiError(
            400, f"previous_response_id: {broken}", code="previous_response_not_found", param="previous_response_id"
        ) from None


@router.get("/responses/{response_id}", response=dict[str, Any], summary="Show an answer and its usage")
async def retrieve(
    request: HttpRequest, response_id: str, stream: bool = False, starting_after: Number | None = None
) -> HttpResponse:
    """The response as it stands, or (``stream``) its events after a ``sequence_number``."""
    response = await _stored(request, response_id)
    if not stream:
        return JsonResponse(await response_body(response))
    number = starting_after or 0
    await refuse_expired(response)
    cursor = await checked_position(response, None, number // NUMBERS_PER_EVENT, "starting_after")
    return await follow(request, response, cursor=cursor, stream=True, dialect=OPENAI_RESPONSES, starting_after=number)


@router.get("/responses/{response_id}/input_items", response=dict[str, Any], summary="List what was asked")
async def input_items(
    request: HttpRequest,
    response_id: str,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
) -> dict[str, Any]:
    """What the caller sent for this response, a page at a time."""
    response = await _stored(request, response_id)
    kept = await threads.run(inputs.of, response.id)
    if kept is None:
        raise ApiError(404, "no input of this response is kept", code="not_found")
    items = listed(kept.items, response.id.removeprefix("resp_"))
    items = items[::-1] if order == "desc" else items
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise ApiError(
            400, f"after: no item of this response (got {after[:40]!r})", code="invalid_request", param="after"
        )
    start = ids.index(after) + 1 if after is not None else 0
    page = items[start : start + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + limit < len(items),
    }


@router.delete("/responses/{response_id}", response=dict[str, Any], summary="Erase an answer")
async def delete(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """Stop the response if it runs, and erase its text, its input and its log. What it used stays counted."""
    response = await found(request, response_id)
    if response.conversation_id is not None:
        raise ApiError(409, "it belongs to a conversation of the page: delete that", code="in_conversation")
    await stop(ownership.current(), response, "deleted")
    await threads.write(erasure.erase, Response.objects.filter(id=response.id))
    return {"id": response.id, "object": "response", "deleted": True}


async def _stored(request: HttpRequest, response_id: str) -> Response:
    """The caller's response, unless it was not to be stored and is over."""
    response = await found(request, response_id)
    if response.end_state is not None and response.no_store:
        raise ApiError(404, "there is no such response", code="not_found")
    return response
