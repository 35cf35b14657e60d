"""Owns reading ``{"name": …, "arguments": {…}}`` while a model writes it. Does not judge the arguments themselves."""

import json
from collections.abc import Callable
from typing import Optional

#: What a step makes of one character: the next step, or None where the object is broken.
_Step = Callable[[str], Optional["_Step"]]

_SPACE = " \t\n\r"
_ARGUMENTS = ("arguments", "parameters")
_MEMBERS = frozenset({*_ARGUMENTS, "name", "type", "id"})


class CallEnvelope:
    """Text in; the function's name, and its arguments as they are written, out.

    Only the object around them is looked at: its members come in any order, others are passed over,
    or break it with ``is_strict`` while it is not certain that this is a call. Of the arguments no more is
    understood than where they end. ``broken`` means that this is no such object, or its name is no string.
    """

    def __init__(self, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self.name: str | None = None
        self.has_arguments = False
        self.closed = False
        self.broken = False
        self._fresh: list[str] = []
        self._step: _Step = self._open
        self._key: str | None = None
        self._value: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def push(self, text: str) -> int:
        """Read on; how many characters were taken: all, or those up to the closing brace or before what broke it."""
        for position, character in enumerate(text):
            step = self._step(character)
            if step is None:
                self.broken = True
                return position
            self._step = step
            if self.closed:
                return position + 1
        return len(text)

    def take_arguments(self) -> str:
        """What was read of the arguments since the last time."""
        fresh = "".join(self._fresh)
        self._fresh.clear()
        return fresh

    def _open(self, character: str) -> _Step | None:
        if character in _SPACE:
            return self._open
        return self._first_key if character == "{" else None

    def _first_key(self, character: str) -> _Step | None:
        return self._close(character) if character == "}" else self._before_key(character)

    def _before_key(self, character: str) -> _Step | None:
        if character in _SPACE:
            return self._step
        if character != '"':
            return None
        self._key = None
        return self._begin_value(character)

    def _before_colon(self, character: str) -> _Step | None:
        if character in _SPACE:
            return self._before_colon
        return self._before_value if character == ":" else None

    def _before_value(self, character: str) -> _Step | None:
        if character in _SPACE:
            return self._before_value
        return None if character in ",:}]" else self._begin_value(character)

    def _begin_value(self, character: str) -> _Step | None:
        self._value = []
        self._depth, self._in_string, self._escaped = 0, False, False
        return self._in_value(character)

    def _in_value(self, character: str) -> _Step | None:
        """One character of a string, a number, a word, or of anything nested; strings hide brackets."""
        if self._in_string:
            return self._in_text(character)
        if not self._depth and self._value and (character in ",}" or character in _SPACE):
            return self._scalar_ended(character)
        self._write(character)
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth <= 0:
                return self._value_ended()
        return self._in_value

    def _in_text(self, character: str) -> _Step | None:
        self._write(character)
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False
            if not self._depth:
                return self._value_ended()
        return self._in_value

    def _write(self, character: str) -> None:
        self._value.append(character)
        if self._key in _ARGUMENTS and self._value[0] != '"':
            self.has_arguments = True
            self._fresh.append(character)

    def _scalar_ended(self, character: str) -> _Step | None:
        step = self._value_ended()
        return step and step(character)

    def _value_ended(self) -> _Step | None:
        if self._key is None:
            self._key = self._text_of_value()
            return self._before_colon if self._is_known(self._key) else None
        if self._key == "name":
            self.name = self._text_of_value()
            if not self.name:
                return None
        elif self._key in _ARGUMENTS and self._value[0] == '"':
            self.has_arguments = True
            self._fresh.append(self._text_of_value() or "")
        return self._after_value

    def _is_known(self, key: str | None) -> bool:
        if self._is_strict and not (self.name and self.has_arguments):
            return key in _MEMBERS
        return key is not None

    def _text_of_value(self) -> str | None:
        """The value as text, None when it is no string."""
        try:
            value = json.loads("".join(self._value), strict=False)
        except ValueError:
            return None
        return value if isinstance(value, str) else None

    def _after_value(self, character: str) -> _Step | None:
        if character in _SPACE:
            return self._after_value
        if character == ",":
            return self._before_key
        return self._close(character) if character == "}" else None

    def _close(self, character: str) -> _Step:
        self.closed = True
        return self._after_value
