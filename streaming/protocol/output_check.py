"""Owns judging a whole answer against the JSON schema that it was asked to follow. Does not hold an engine to it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry

MESSAGE_CHARS = 300
#: Alternatives that lead to one another take exponential time, so the work is counted: about a second.
STEPS_MAX = 20_000
#: Characters of a value that are compared in about the time of a step.
STEP_CHARS = 256

#: A keyword's check: validator, the keyword's value, the instance, the schema around.
_Check = Callable[[Any, Any, Any, Any], Any]


class TooHard(Exception):
    """The schema takes more steps than judging an answer is worth."""


def output_error(text: str, schema: Mapping[str, Any]) -> dict[str, str] | None:
    """What is wrong with an answer that ended by itself: ``code``, ``message`` and ``path``; None where nothing is.

    ``schema`` is the caller's, a JSON Schema of draft 3 to 2020-12 whose references stay in it. One that no
    validator understands, or that takes more than STEPS_MAX steps, judges nothing; nothing is ever fetched.
    ``code`` is invalid_json or schema_mismatch, ``path`` a JSON pointer (RFC 6901) to the value at fault.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return _error("invalid_json", str(error))
    try:
        fault = next(_counting(schema).iter_errors(value), None)
    except Exception:  # noqa: BLE001 - a caller's schema fails in any way: types that there are not, too many steps
        return None
    if fault is None:
        return None
    return _error("schema_mismatch", fault.message, "".join(f"/{step}" for step in fault.absolute_path))


def _counting(schema: Mapping[str, Any]) -> Validator:
    """A validator of the schema that gives up after STEPS_MAX steps."""
    draft = validator_for(dict(schema), default=Draft202012Validator)
    budget = _Budget()
    checks = {keyword: budget.counted(keyword, check) for keyword, check in draft.VALIDATORS.items()}
    counting: Any = extend(draft, checks)  # type: ignore[no-untyped-call]
    # The library's own takes another class where a part names another draft, and that one counts nothing.
    counting.evolve = lambda validator, **changes: budget.evolved(validator, changes)
    validator: Validator = counting(dict(schema), registry=Registry())
    return validator


class _Budget:
    """The steps that are left to one judgement."""

    def __init__(self) -> None:
        self._left = STEPS_MAX
        self._sizes: dict[int, int] = {}

    def counted(self, keyword: str, check: _Check) -> _Check:
        def counting(validator: Any, wanted: Any, instance: Any, part: Any) -> Any:
            self._spend(self._steps(keyword, wanted, instance))
            return check(validator, wanted, instance, part)

        return counting

    def evolved(self, validator: Any, changes: Mapping[str, Any]) -> Any:
        """The validator of a part. Counted too: what is "evaluated" is looked for along references, by no keyword."""
        self._spend(1)
        return attrs.evolve(validator, **changes)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooHard

    def _steps(self, keyword: str, wanted: Any, instance: Any) -> int:
        """One for most keywords; those that compare with many values, or all values with all, count these."""
        if keyword == "uniqueItems" and isinstance(instance, list):
            return 1 + len(instance) ** 2 // 32
        if keyword in ("const", "enum"):
            return 1 + self._size(wanted) // STEP_CHARS
        return 1 + (len(wanted) // 8 if isinstance(wanted, list) else 0)

    def _size(self, wanted: Any) -> int:
        """Of a value of the schema, which stays where it is as long as it is judged by."""
        if id(wanted) not in self._sizes:
            self._sizes[id(wanted)] = len(json.dumps(wanted))
        return self._sizes[id(wanted)]


def _error(code: str, message: str, path: str = "") -> dict[str, str]:
    return {"code": code, "message": message[:MESSAGE_CHARS], "path": path[:MESSAGE_CHARS]}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
