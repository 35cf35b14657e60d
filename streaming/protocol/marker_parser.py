"""Owns telling text, reasoning and tool calls of a marked stream apart. Does not know tokens or stop strings."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .engine_output import ToolFragment
from .events import REASONING, TEXT, TOOL_CALL
from .holdback import Holdback
from .marked_call import MarkedCall
from .markers import PYTHON_TAG, Markers

_Opener = Callable[[str, str], str]

#: What separates bare calls beside white space.
_SEPARATOR = ";"


class Part(NamedTuple):
    """What a piece of a stream turned out to be. A tool call's last part says that it ``ends``."""

    kind: str
    text: str = ""
    fragment: ToolFragment = ToolFragment()
    ends: bool = False


class MarkerParser:
    """Text cut anywhere in, parts out; joined by kind they do not depend on how the text was cut.

    White space right behind a marker belongs to the marker. Reasoning can only open the answer, and
    calls without markers can only stand at its start, so that an answer may speak of either. A marker
    around something that turns out to be no call was text all along, and comes out in order.
    """

    def __init__(self, markers: Markers, in_reasoning: bool = False) -> None:
        self._markers = markers
        self._parts: list[Part] = []
        self._calls = 0
        self._call: MarkedCall | None = None
        self._scan: Holdback | None = None
        #: Reads text up to where another state begins; returns what is left for that one.
        self._state: Callable[[str], str] = self._text
        self._openers: Mapping[str, _Opener] = {}
        self._lead = ""
        self._word = ""
        self._skipped: str | None = None
        self._shows_lead = True
        if in_reasoning:
            self._open_reasoning("", "")
        else:
            self._begin(self._first_openers(), shows_lead=True)

    def push(self, text: str) -> list[Part]:
        """Take text, return the parts that are certain now."""
        while text:
            text = self._state(text)
        return self._taken()

    def release(self) -> list[Part]:
        """The text is over: what was kept back, as what it looked like up to here. No open call ends by this."""
        kept = self._scan.release() if self._scan is not None else ""
        if self._call is not None:
            self._read_call(kept)
            kept = self._call.raw + self._call.leftover
            self._call = None
        self._emit(REASONING if self._state == self._reasoning else TEXT, self._lead + self._word + kept)
        self._lead = self._word = ""
        return self._taken()

    def _taken(self) -> list[Part]:
        parts, self._parts = self._parts, []
        return parts

    def _emit(self, kind: str, text: str) -> None:
        if text:
            self._parts.append(Part(kind, text))

    # The start of the answer, and what follows a marker: white space, then a marker or not.

    def _first_openers(self) -> dict[str, _Opener]:
        openers = self._bare_openers()
        if self._markers.reasoning is not None:
            openers[self._markers.reasoning[0]] = self._open_reasoning
        return openers

    def _bare_openers(self) -> dict[str, _Opener]:
        return {"{": self._open_bare_call, PYTHON_TAG: self._pass_tag} if self._markers.bare_calls else {}

    def _begin(self, openers: Mapping[str, _Opener], shows_lead: bool, skipped: str | None = None) -> None:
        self._openers, self._shows_lead, self._skipped = openers, shows_lead, skipped
        self._lead = self._word = ""
        if openers or not shows_lead:
            self._state, self._scan = self._opening, None
        else:
            self._enter_text()

    def _opening(self, text: str) -> str:
        word = self._word + text if self._word else self._without_lead(text)
        for opener, opened in self._openers.items():
            if word.startswith(opener):
                lead, self._lead, self._word = self._lead, "", ""
                return opened(lead, opener) + word[len(opener) :]
        if not word or any(opener.startswith(word) for opener in self._openers):
            self._word = word
            return ""
        word, self._lead, self._word = self._lead + word, "", ""
        self._enter_text()
        return word

    def _without_lead(self, text: str) -> str:
        word = text.lstrip(self._skipped)
        if self._shows_lead:
            self._lead += text[: len(text) - len(word)]
        return word

    def _pass_tag(self, lead: str, opener: str) -> str:
        self._begin({"{": self._open_bare_call}, shows_lead=True)
        self._lead = lead + opener
        return ""

    # Text and reasoning: everything up to one marker.

    def _enter_text(self) -> None:
        self._state = self._text
        self._scan = Holdback([self._markers.calls[0]]) if self._markers.calls else None

    def _text(self, text: str) -> str:
        if self._scan is None:
            self._emit(TEXT, text)
            return ""
        self._emit(TEXT, self._scan.push(text))
        if self._scan.matched is None:
            return ""
        return self._open_call(self._scan.matched, self._tagged_call) + self._scan_on(self._markers.calls)

    def _scan_on(self, marker: tuple[str, str] | None) -> str:
        """Look for the closing marker from here on, in what came behind the opening one."""
        assert self._scan is not None
        assert marker is not None
        rest, self._scan = self._scan.rest, Holdback([marker[1]])
        return rest

    def _open_reasoning(self, lead: str, opener: str) -> str:
        assert self._markers.reasoning is not None
        self._state, self._scan = self._reasoning_space, Holdback([self._markers.reasoning[1]])
        return ""

    def _reasoning_space(self, text: str) -> str:
        text = text.lstrip()
        if text:
            self._state = self._reasoning
        return text

    def _reasoning(self, text: str) -> str:
        assert self._scan is not None
        self._emit(REASONING, self._scan.push(text))
        if self._scan.matched is None:
            return ""
        rest = self._scan.rest
        self._begin(self._bare_openers(), shows_lead=False)
        return rest

    # Calls.

    def _open_bare_call(self, lead: str, opener: str) -> str:
        self._open_call(lead, self._bare_call)
        return opener

    def _open_call(self, lead: str, state: Callable[[str], str]) -> str:
        self._call = MarkedCall(self._calls, lead, is_bare=self._markers.bare_calls)
        self._calls += 1
        self._state = state
        return ""

    def _read_call(self, text: str) -> None:
        assert self._call is not None
        self._fragment(self._call.push(text))
        if self._call.announced and self._call.leftover and not self._markers.bare_calls:
            self._fragment(self._call.spoil())

    def _fragment(self, fragment: ToolFragment | None) -> None:
        if fragment is not None:
            self._parts.append(Part(TOOL_CALL, fragment=fragment))

    def _tagged_call(self, text: str) -> str:
        call, scan = self._call, self._scan
        assert call is not None
        assert scan is not None
        self._read_call(scan.push(text))
        if call.is_over and not call.announced:
            return self._no_call(call, "") + (scan.matched + scan.rest if scan.matched else scan.release())
        if scan.matched is None:
            return ""
        if not call.announced:
            return self._no_call(call, scan.matched) + scan.rest
        self._end_call(call)
        self._begin({}, shows_lead=False)
        return scan.rest

    def _bare_call(self, text: str) -> str:
        call = self._call
        assert call is not None
        self._read_call(text)
        if not call.is_over:
            return ""
        if not call.announced:
            return self._no_call(call, "")
        self._end_call(call)
        if call.is_whole:
            self._begin({"{": self._open_bare_call}, shows_lead=False, skipped=" \t\r\n" + _SEPARATOR)
        else:
            self._enter_text()
        return call.leftover

    def _no_call(self, call: MarkedCall, marker: str) -> str:
        """It was text all along; what was not read of it is read as text."""
        self._emit(TEXT, call.raw + marker)
        self._call = None
        self._calls -= 1
        self._enter_text()
        return call.leftover

    def _end_call(self, call: MarkedCall) -> None:
        self._parts.append(Part(TOOL_CALL, fragment=ToolFragment(call.index), ends=True))
        self._call = None
