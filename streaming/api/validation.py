"""Owns reading request bodies strictly, and turning a failed validation into one message with field, limit, value."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.datastructures import MultiValueDict
from ninja import NinjaAPI
from ninja.errors import ValidationErrorContext
from ninja.parser import Parser
from pydantic_core import ErrorDetails

from streaming.protocol import strict_json

from .errors import ApiError, body_too_large, install, noted

VALUE_CHARS = 80
Problem = tuple[str, tuple[int | str, ...], ErrorDetails]
MISSING = {"missing", "missing_argument"}
AN_OBJECT = "must be a JSON object"
#: What pydantic says in the words of Python, or with names of our classes.
NICER = {
    "missing": "this field is required",
    "extra_forbidden": "unknown field",
    "model_type": AN_OBJECT,
    "model_attributes_type": AN_OBJECT,
    "dict_type": AN_OBJECT,
}


class StrictParser(Parser):
    """Reads JSON bodies and query strings of an API; keeps the body on the request for error messages."""

    def parse_body(self, request: HttpRequest) -> Any:
        content_type = request.content_type or ""
        if content_type != "application/json":
            raise ApiError(
                415,
                f"send JSON with Content-Type: application/json, not {content_type[:VALUE_CHARS] or 'nothing'}",
                code="unsupported_media_type",
            )
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            message = f"Content-Encoding: send the body as it is (got {encoding[:VALUE_CHARS]!r})"
            raise ApiError(415, message, code="unsupported_media_type", param="Content-Encoding")
        # Content-Length was checked on the way to request.body; a chunked body has none.
        if len(request.body) > settings.MAX_BODY_BYTES:
            raise body_too_large(request)
        try:
            request.json_body = strict_json.parse(request.body)  # type: ignore[attr-defined]
        except strict_json.JsonRefused as refused:
            raise ApiError(400, refused.message, code="invalid_json", param=refused.field) from None
        return request.json_body  # type: ignore[attr-defined]

    def parse_querydict(self, data: MultiValueDict, list_fields: list[str], request: HttpRequest) -> dict[str, Any]:  # type: ignore[type-arg]
        for name, values in data.lists():
            if any("\0" in value for value in values):
                shown = name[:VALUE_CHARS]
                raise ApiError(400, f"{shown}: NUL is not allowed in text", code="invalid_request", param=shown)
        return super().parse_querydict(data, list_fields, request)


class Invalid(Exception):
    """The request does not fit its schema. Holds what pydantic said, for the handler that knows the request."""

    def __init__(self, contexts: Iterable[ValidationErrorContext[Any]]):
        super().__init__("invalid request")
        self.problems: list[Problem] = [
            (context.model.__ninja_param_source__, _location(context.model, problem), problem)
            for context in contexts
            for problem in context.pydantic_validation_error.errors(include_url=False, include_context=False)
        ]


class StrictAPI(NinjaAPI):
    """A NinjaAPI that reads strictly and whose errors are ours."""

    def __init__(self, **options: Any):
        super().__init__(parser=StrictParser(), **options)
        install(self)
        self.add_exception_handler(Invalid, answer_invalid)

    def validation_error_from_error_contexts(self, error_contexts: list[ValidationErrorContext[Any]]) -> Any:
        return Invalid(error_contexts)


def answer_invalid(request: HttpRequest, invalid: Any) -> HttpResponse:
    """The exception handler for Invalid."""
    return noted(request, refusal_of(request, invalid))


def refusal_of(request: HttpRequest, invalid: Invalid) -> ApiError:
    """One 400 that names the first field, what it must be and what was seen."""
    source, location, problem = _telling(invalid.problems)
    known = getattr(request, "json_body", None) if source == "body" else None
    path = ".".join(str(step)[:VALUE_CHARS] for step in _real_steps(location, known, problem["type"]))
    said = NICER.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    plain = f"{path or source}: {said[:1].lower()}{said[1:]}"
    seen = "" if problem["type"] in MISSING else f" (got {describe(problem['input'])})"
    return ApiError(400, plain + seen, code="invalid_request", param=path or None, logged_message=plain)


def _telling(problems: Sequence[Problem]) -> Problem:
    """Of what is wrong with the first field: of a union's members, the one whose type the caller meant."""
    first = [problem for problem in problems if problem[1][:1] == problems[0][1][:1]]
    return max(first, key=lambda problem: (not problem[2]["type"].endswith("_type"), len(problem[1])))


def describe(value: Any) -> str:
    """A value as JSON, cut to 80 characters; containers by their size."""
    if isinstance(value, list | tuple):
        return f"an array of {len(value)} items"
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    if isinstance(value, str):
        return json.dumps(value[:VALUE_CHARS], ensure_ascii=False) + ("…" if len(value) > VALUE_CHARS else "")
    text = json.dumps(value, default=str)
    return text[:VALUE_CHARS] + ("…" if len(text) > VALUE_CHARS else "")


def _location(model: Any, problem: ErrorDetails) -> tuple[int | str, ...]:
    location = model.__ninja_flatten_map_reverse__.get(problem["loc"], problem["loc"])
    # A body that is one argument stands under the argument's name, which the caller never saw.
    return tuple(location[1:] if getattr(model, "__read_from_single_attr__", None) else location)


def _real_steps(location: Sequence[int | str], body: Any, kind: str) -> list[int | str]:
    """Without the steps that pydantic adds for the members of a union: only what the caller wrote or missed."""
    if body is None:
        return list(location)
    steps: list[int | str] = []
    for index, step in enumerate(location):
        if _holds(body, step):
            body = body[step]
            steps.append(step)
        elif kind in MISSING and index == len(location) - 1:
            steps.append(step)
    return steps


def _holds(body: Any, step: int | str) -> bool:
    if isinstance(body, dict):
        return step in body
    return isinstance(body, list) and isinstance(step, int) and step < len(body)
