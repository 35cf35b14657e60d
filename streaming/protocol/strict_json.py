"""Owns parsing of JSON that callers send, stricter than json.loads. Knows no schema. Pure."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 64
#: Of a caller's key as much as an error repeats, and of the path of several.
KEY_CHARS = 80
PATH_CHARS = 300
BOM = b"\xef\xbb\xbf"
# Raw NUL and encoded surrogates are refused by the parser and the decoder; escapes are the only way in.
SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


class JsonRefused(ValueError):
    """The body is not the JSON we take. ``field`` is the dotted path where that is known."""

    def __init__(self, message: str, field: str | None = None):
        super().__init__(message)
        self.message = message
        self.field = field


def parse(body: bytes) -> Any:
    """The value of a body in UTF-8 without BOM, NaN, duplicate keys, NUL, lone surrogates or deep nesting."""
    if body.startswith(BOM):
        raise JsonRefused("the body starts with a byte order mark; send plain UTF-8")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"the body is not UTF-8 at byte {error.start}") from None
    value, has_odd_number = _load(text)
    # An opening bracket is needed for each level, so few brackets cannot nest deeply.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if has_odd_number:
        _refuse_odd_number(value)
    if SUSPECT_ESCAPE.search(body):
        _check_text(value)
    return value


#: Where a value stands: the way to what holds it, and one step more. Made into text for an error only: texts of long
#: keys, one for each of many values, would keep everybody waiting.
Way = tuple["Way", str] | None


class _NotFinite(float):
    """Stands where JSON text holds NaN, Infinity or a number too large, until its path is known."""

    def __new__(cls, problem: str) -> "_NotFinite":
        made = super().__new__(cls, "nan")
        made.problem = problem
        return made

    problem: str


class _Numbers:
    """Reads what json.loads calls floats; remembers whether one was not finite."""

    has_odd = False

    def constant(self, name: str) -> float:
        self.has_odd = True
        return _NotFinite(f"{name} is not a JSON number")

    def float(self, text: str) -> float:
        value = float(text)
        if math.isfinite(value):
            return value
        self.has_odd = True
        return _NotFinite(f"the number {text[:40]} is out of range")


def _load(text: str) -> tuple[Any, bool]:
    numbers = _Numbers()
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=numbers.constant, parse_float=numbers.float)
    except JsonRefused:
        raise
    except json.JSONDecodeError as error:
        raise JsonRefused(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        # Python refuses integers over 4,300 digits while it parses.
        raise JsonRefused("the body holds a number with too many digits") from None
    return value, numbers.has_odd


def _refuse_odd_number(value: Any, way: Way = None) -> None:
    if isinstance(value, _NotFinite):
        path = _path(way)
        raise JsonRefused(f"{path or 'the body'}: {value.problem}", path or None)
    for step, part in _parts(value):
        _refuse_odd_number(part, (way, step))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), part) for index, part in enumerate(value))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counted = Counter(key for key, _ in pairs)
        name = _shown(next(key for key, count in counted.items() if count > 1))
        raise JsonRefused(f"the key {name!r} stands twice in one object", name)
    return made


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _containers(parent)]
        if not level:
            return
    raise _too_deep()


def _containers(parent: Any) -> Iterator[Any]:
    children = parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()
    return (child for child in children if isinstance(child, dict | list))


def _check_text(value: Any, way: Way = None) -> None:
    if isinstance(value, str) and (found := FORBIDDEN.search(value)):
        what = "NUL" if found[0] == "\0" else "half a surrogate pair"
        path = _path(way)
        raise JsonRefused(f"{path or 'the body'}: {what} (\\u{ord(found[0]):04x}) is not allowed in text", path or None)
    for step, part in _parts(value):
        if FORBIDDEN.search(step):
            _check_text(step, (way, step))
        _check_text(part, (way, step))


def _path(way: Way) -> str:
    steps: list[str] = []
    while way:
        way, step = way
        steps.append(_shown(step))
    return ".".join(reversed(steps))[:PATH_CHARS]


def _shown(key: str) -> str:
    """A key of the caller's as an error may repeat it."""
    return FORBIDDEN.sub("\ufffd", key[:KEY_CHARS])


def _too_deep() -> JsonRefused:
    return JsonRefused(f"the body is nested over {MAX_DEPTH} levels deep")
