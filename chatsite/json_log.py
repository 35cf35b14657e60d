"""Owns a log line as JSON, which holds no text of users or models whatever went wrong. Decides not what is logged.

What people write comes into logs by way of errors: of databases, which quote the row, of parsers, which quote what they
read. So an error is its type and where it happened; its words only where its kind never quotes.
"""

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from typing import Any

from django.db import InterfaceError, OperationalError

from streaming.engine.base import EngineError

RESPONSE_ID = re.compile(r"resp_[0-9A-HJKMNP-TV-Z]{26}")
#: Their words are about connections, locks, disks; an EngineError's are our own.
SPEAKABLE = (OperationalError, InterfaceError, OSError, EngineError)
MESSAGE_MAX = 500
FRAMES_MAX = 30


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message; ``response_id`` where it names one; ``error`` with its trace.

    A record's ``fields`` are members of the object too.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = _message(record)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if found := RESPONSE_ID.search(message):
            line["response_id"] = found[0]
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1]:
            line["error"] = described(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


def _message(record: logging.LogRecord) -> str:
    """Its first line: what comes below is of libraries that print what they hold."""
    arguments: Any = record.args
    if isinstance(arguments, dict) and "%(" not in str(record.msg):
        arguments = (arguments,)  # the one argument, which logging takes for the names' values
    if isinstance(arguments, dict):
        arguments = {name: _shown(value) for name, value in arguments.items()}
    elif arguments:
        arguments = tuple(_shown(value) for value in arguments)
    try:
        message = str(record.msg) % arguments if arguments else _words(record.msg)
    except (TypeError, ValueError):
        message = str(record.msg)
    return message.split("\n", 1)[0][:MESSAGE_MAX]


def _shown(value: Any) -> Any:
    """Numbers and strings, which our own lines choose; of errors the words only of those that never quote."""
    if value is None or isinstance(value, int | float | str):
        return value
    return _words(value) if isinstance(value, BaseException) else f"<{type(value).__name__}>"


def _words(value: Any) -> str:
    if isinstance(value, BaseException) and not isinstance(value, SPEAKABLE):
        return type(value).__name__
    return str(value)


def described(error: BaseException) -> dict[str, Any]:
    """Its type, where it happened, innermost last, and what it came from."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
    told: dict[str, Any] = {
        "type": type(error).__name__,
        "trace": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(error, SPEAKABLE):
        told["message"] = str(error).split("\n", 1)[0][:MESSAGE_MAX]
    if error.__cause__ is not None:
        told["cause"] = described(error.__cause__)
    return told
