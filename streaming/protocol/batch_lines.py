"""Owns the lines of a batch's files: cutting them, what one may ask for, how its answer is written. Pure.

A file is JSONL as OpenAI's batches have it: one JSON object a line. Lines are numbered from 1 as an editor does; what
stands on a line of its own without any text is left out, but counted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import strict_json

#: Where the requests of a batch may go.
ENDPOINTS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
FIELDS = frozenset({"custom_id", "method", "url", "body"})
CUSTOM_ID_CHARS = 256
#: More faults than this are not looked for.
ERRORS_MAX = 100
SHOWN_CHARS = 80


class LineRefused(ValueError):
    """A line cannot be asked. ``param`` is the field at fault where there is one."""

    def __init__(self, code: str, message: str, param: str | None = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


@dataclass(frozen=True, slots=True)
class Asked:
    """What a line asks for."""

    custom_id: str
    body: Mapping[str, Any]

    @property
    def keeps_nothing(self) -> bool:
        """Whether its answer is not to be stored."""
        return self.body.get("store") is False


@dataclass(slots=True)
class Checked:
    """A whole file: how many requests it has, whether any is not to be stored, and its first faults."""

    count: int = 0
    keeps_nothing: bool = False
    errors: list[dict[str, Any]] = field(default_factory=list)


def lines(pieces: Iterable[bytes], longest_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Each line with its number. Of one that is longer than ``longest_bytes`` comes one byte more than that."""
    number, open_line = 1, b""
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield from _whole(number, (open_line + end)[: longest_bytes + 1])
            number, open_line = number + 1, b""
        open_line = (open_line + rest)[: longest_bytes + 1]
    yield from _whole(number, open_line)


def _whole(number: int, line: bytes) -> Iterator[tuple[int, bytes]]:
    if line.strip(b" \t\r"):
        yield number, line


def check(numbered: Iterable[tuple[int, bytes]], endpoint: str, longest_bytes: int) -> Checked:
    """Look at every line of a batch for one endpoint, until there are ERRORS_MAX faults."""
    checked, seen = Checked(), dict[str, int]()
    for number, line in numbered:
        try:
            asked = read(line, endpoint, longest_bytes)
            if (first := seen.setdefault(asked.custom_id, number)) != number:
                raise LineRefused("duplicate_custom_id", f"custom_id: the same as on line {first}", "custom_id")
            checked.count += 1
            checked.keeps_nothing = checked.keeps_nothing or asked.keeps_nothing
        except LineRefused as refused:
            fault = {"code": refused.code, "line": number, "message": refused.message, "param": refused.param}
            checked.errors.append(fault)
            if len(checked.errors) == ERRORS_MAX:
                break
    if not checked.count and not checked.errors:
        checked.errors.append({"code": "empty_file", "line": None, "message": "the file has no line", "param": None})
    return checked


def read(line: bytes, endpoint: str, longest_bytes: int) -> Asked:
    """What a line asks for. Raises LineRefused; what is wrong with its body's own fields the endpoint says."""
    if len(line) > longest_bytes:
        raise LineRefused("line_too_long", f"a line of at most {longest_bytes} bytes")
    try:
        value = strict_json.parse(line)
    except strict_json.JsonRefused as refused:
        rest = refused.message.removeprefix("the body")
        message = refused.message if rest == refused.message else f"the line{rest}"
        raise LineRefused("invalid_json_line", message, refused.field) from None
    if not isinstance(value, dict):
        raise LineRefused("invalid_json_line", f"the line must be a JSON object (got {_shown(value)})")
    _check_fields(value, endpoint)
    return Asked(value["custom_id"], value["body"])


def _check_fields(line: Mapping[str, Any], endpoint: str) -> None:
    for name in sorted(line.keys() ^ FIELDS):
        what = "unknown field" if name in line else "this field is required"
        raise _wrong(name[:SHOWN_CHARS], what)
    custom_id, body = line["custom_id"], line["body"]
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= CUSTOM_ID_CHARS:
        raise _wrong("custom_id", f"1 to {CUSTOM_ID_CHARS} characters (got {_shown(custom_id)})")
    if line["method"] != "POST":
        raise _wrong("method", f"POST (got {_shown(line['method'])})")
    if line["url"] != endpoint:
        raise LineRefused("invalid_url", f"url: the batch's endpoint, {endpoint} (got {_shown(line['url'])})", "url")
    if not isinstance(body, dict):
        raise _wrong("body", f"a JSON object (got {_shown(body)})")
    if not isinstance(body.get("model"), str):
        raise _wrong("body.model", f"the name of a model (got {_shown(body.get('model'))})")
    for name in ("stream", "background"):
        if body.get(name):
            raise _wrong(f"body.{name}", f"not in a batch (got {_shown(body[name])})")


def _wrong(name: str, what: str) -> LineRefused:
    return LineRefused("invalid_request", f"{name}: {what}", name)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False)
    return text[:SHOWN_CHARS] + ("…" if len(text) > SHOWN_CHARS else "")


def answered(line_id: str, custom_id: str, status: int, request_id: str, body: Any) -> bytes:
    """The line of a request that the endpoint answered, well or not."""
    return _line(line_id, custom_id, {"status_code": status, "request_id": request_id, "body": body}, None)


def unanswered(line_id: str, custom_id: str, code: str, message: str) -> bytes:
    """The line of a request that the endpoint was not asked, or did not answer."""
    return _line(line_id, custom_id, None, {"code": code, "message": message})


def _line(line_id: str, custom_id: str, response: Any, error: Any) -> bytes:
    line = {"id": line_id, "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
