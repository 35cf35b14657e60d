"""Owns the way from the request of any API dialect to an Ask, and its answer's headers. Refuses nothing by itself."""

from typing import Any, Protocol

from django.http import HttpRequest, HttpResponse

from streaming.models import Response
from streaming.ownership.ask import Ask
from streaming.protocol.policy import ABORT

from .answering import attach_or_start, fingerprint, idempotency_key, policy
from .auth import caller
from .schemas import StrictBody

IGNORED_HEADER = "X-Ignored-Fields"


class AskBody(Protocol):
    """What every dialect's request says in its own words."""

    model: str
    stream: bool | None

    @property
    def all_tools(self) -> list[dict[str, Any]]: ...
    @property
    def choice(self) -> str: ...
    @property
    def one_call(self) -> bool: ...
    @property
    def json_schema(self) -> Any: ...
    @property
    def wants_thinking(self) -> bool | None: ...
    @property
    def stops(self) -> tuple[str, ...]: ...
    @property
    def limit_tokens(self) -> int | None: ...
    def sampling(self) -> dict[str, Any]: ...


def ask_of(
    request: HttpRequest,
    body: AskBody,
    messages: list[dict[str, Any]],
    dialect: str,
    *,
    default_policy: str = ABORT,
    **fields: Any,
) -> Ask:
    """The request as one for a response. Raises ApiError for headers that make no sense."""
    asker = caller(request)
    may_call = body.choice != "none"
    assert isinstance(body, StrictBody)
    return Ask(
        user_id=asker.user.pk,
        api_key_id=asker.api_key_id,
        purpose=asker.purpose or Response.Purpose.API,
        dialect=dialect,
        stream=bool(body.stream),
        model=body.model,
        messages=messages,
        policy=policy(request, default_policy),
        max_tokens=body.limit_tokens,
        stops=body.stops,
        sampling=body.sampling(),
        tools=body.all_tools if may_call else (),
        tool_choice=body.choice if may_call else "auto",
        one_call=body.one_call,
        json_schema=body.json_schema,
        thinking=body.wants_thinking,
        idempotency_key=idempotency_key(request),
        request_sha256=fingerprint({"dialect": dialect, **body.model_dump()}),
        **fields,
    )


async def answer(request: HttpRequest, ask: Ask, body: StrictBody, ignored: tuple[str, ...]) -> HttpResponse:
    """Start or find the response; the answer's header says which of the request's fields had no effect."""
    response = await attach_or_start(request, ask)
    unheard = [name for name in ignored if getattr(body, name) is not None]
    if unheard:
        response.headers[IGNORED_HEADER] = ", ".join(unheard)
    return response
