"""Owns what the OpenAPI document says beyond the schemas: headers, streams, errors, with examples."""

from collections.abc import Iterable
from typing import Any

from streaming.protocol.dialects.anthropic_errors import failure

from .anthropic_messages import PREFIX
from .errors import error_body
from .openapi_batch_examples import DOWNLOADS, STATUSES
from .openapi_examples import BODIES, STREAMS, VERSION
from .refusals import ASKING
from .validation import StrictAPI

#: What each status is about, and a message and a code as an example.
ERRORS = {
    400: ("A field is unknown, missing or out of its limits",
          "max_tokens: at most 2048, the model's context (got 99999)", "invalid_request"),
    401: ("No key, or one that is not valid", "this API key is not valid", "invalid_api_key"),
    403: ("The key lacks the scope, or may not use the model",
          "this API key lacks the scope responses:write; it has models:read", "scope"),
    404: ("Unknown, or somebody else's", "there is no such response", "not_found"),
    405: ("Another method is meant", "PUT is not allowed here, only POST", "method_not_allowed"),
    409: ("It does not fit the state that there is", "starting_after: the log ends at 7 (got 9)", "future_event"),
    413: ("The body is too large", "the body is too large: limit 2097152 bytes, got 3000104", "body_too_large"),
    415: ("The body is no JSON", "send JSON with Content-Type: application/json, not text/plain",
          "unsupported_media_type"),
    422: ("The Idempotency-Key was used with another request",
          "Idempotency-Key: the key was used with another request", "idempotency_key_reused"),
    429: ("Too many running answers of this user", "16 streams of one user are open", "rate_limited"),
    500: ("A fault of ours", "internal error", "internal"),
    502: ("The engine failed before the first byte", "the engine reported an error", "upstream_error"),
    503: ("Full, stopping, or nothing can be stored", "the model's queue is full", "overloaded"),
    504: ("A timer fired before the first byte", "Timed out: ttft limit of 120 s.", "ttft"),
}  # fmt: skip
#: What every operation can answer; then what those that start, name, or follow a response can.
ALWAYS = (400, 401, 403, 405, 500, 503)
STARTS = (404, 409, 413, 415, 422, 429, 502, 504)
NAMES = (404, 409)
FOLLOWS = (429, 502, 504)
MORE = {("post", "/v1/messages/count_tokens"): (404, 413, 415, 429), **STATUSES}
RETRY_AFTER = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
EVENTS = "text/event-stream"

ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
            },
        }
    },
}
THEIR_ERROR_SCHEMA = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
    },
}


class DocumentedAPI(StrictAPI):
    """A StrictAPI whose document is whole."""

    def get_openapi_schema(self, **options: Any) -> Any:
        """The document that django-ninja makes, completed."""
        document = super().get_openapi_schema(**options)
        document["info"]["description"] = (
            "OpenAI chat completions, responses, files and batches, Anthropic messages. See docs/api.md."
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas |= {"Error": ERROR_SCHEMA, "AnthropicError": THEIR_ERROR_SCHEMA}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(path, method, operation)
        return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    request, whole = BODIES[method, path]
    starts = method == "post" and path in ASKING
    if request is not None:
        [body] = operation["requestBody"]["content"].values()
        body["example"] = request
    content: dict[str, Any] = {}
    if whole is not None:
        content["application/json"] = {"schema": {"type": "object"}, "example": whole}
    if (method, path) in STREAMS:
        # To some validators the content is the whole stream, to others each event of it.
        content[EVENTS] = {"schema": {}, "example": STREAMS[method, path]}
    if (method, path) in DOWNLOADS:
        content["application/octet-stream"] = {"schema": {"type": "string"}, "example": DOWNLOADS[method, path]}
    operation["responses"][200] = {"description": "OK", "content": content}
    follows = (method, path) in STREAMS
    statuses = {*ALWAYS, *(STARTS if starts else ()), *(NAMES if "{" in path else ()), *(FOLLOWS if follows else ())}
    statuses.update(MORE.get((method, path), ()))
    for status in sorted(statuses):
        _add_error(operation, status, path.startswith(PREFIX))
    operation["parameters"] += _headers(path, starts, follows)


def _add_error(operation: dict[str, Any], status: int, theirs: bool) -> None:
    description, message, code = ERRORS[status]
    body, name = error_body(status, message, code=code), "Error"
    if theirs:
        (status, body), name = failure(status, body["error"]), "AnthropicError"
    answer = {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": body}
    described: dict[str, Any] = {"description": description, "content": {"application/json": answer}}
    if status in (429, 503, 529):
        described["headers"] = RETRY_AFTER
    operation["responses"][status] = described


def _headers(path: str, starts: bool, follows: bool) -> Iterable[dict[str, Any]]:
    if path.startswith(PREFIX):
        yield _header("anthropic-version", {"type": "string", "pattern": r"^20\d\d-\d\d-\d\d$"}, VERSION, required=True)
    if starts or path.endswith("/responses/cancel"):
        key = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        yield _header("Idempotency-Key", key, "order-4711", required=not starts)
    if starts:
        policy = {"type": "string", "pattern": r"^(abort|background|grace=[1-9]\d{0,2})$"}
        yield _header("X-Disconnect-Policy", policy, "grace=30")
    if follows and not starts:
        yield _header("Last-Event-ID", {"type": "string"}, "resp_01JX0000000000000000000000:1.17")


def _header(name: str, schema: dict[str, Any], example: str, required: bool = False) -> dict[str, Any]:
    return {"in": "header", "name": name, "schema": schema, "required": required, "example": example}
