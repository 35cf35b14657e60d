"""Owns an answer of several kinds, in their order: text, reasoning, refusal, tool calls. Does not know tokens."""

from collections.abc import Iterable
from typing import Any

from .allowance import ITEM_BYTES, Allowance, text_bytes
from .clean_text import CleanText
from .engine_output import EngineOutput, ToolFragment
from .events import REASONING, REFUSAL, TEXT, TOOL_CALL
from .marker_parser import MarkerParser, Part
from .text_gate import TextGate
from .tool_calls import ToolCalls

#: A kind of event and its payload.
Piece = tuple[str, dict[str, Any]]


class PartStream:
    """Marked text, or what an engine has told apart itself, in; pieces that may be shown out.

    Stop strings are looked for in text only, and never across text of another kind. The output
    filter sees all that people read, one kind after the other, but no arguments of tool calls.
    With ``one_call`` the answer is over when a call is, or where another would begin. What the ``allowance`` does not
    take ends it too: of what an engine has told apart all that it says, shown or kept; of marked text, which has been
    taken off, only what items cost beside.
    """

    def __init__(
        self,
        gate: TextGate | None,
        parser: MarkerParser | None,
        calls: ToolCalls,
        allowance: Allowance,
        *,
        one_call: bool = False,
    ) -> None:
        self.gate = gate
        self._parser = parser
        self._calls = calls
        self._allowance = allowance
        self._one_call = one_call
        self._has_its_call = False
        self._clean = {REASONING: CleanText(), REFUSAL: CleanText()}
        self._kind = TEXT
        self._looks_for_stops = True
        self._pieces: list[Piece] = []

    @property
    def has_calls(self) -> bool:
        """Whether there was a tool call."""
        return len(self._calls) > 0

    @property
    def finish_reason(self) -> str | None:
        """Set once the answer is over, whatever its engine still sends."""
        if self._has_its_call:
            return "tool_calls"
        if self._allowance.is_used_up:
            return "length"
        return self.gate.finish_reason if self.gate is not None else None

    def push(self, text: str, looks_for_stops: bool) -> list[Piece]:
        """Take decoded, clean text."""
        self._looks_for_stops = looks_for_stops
        self._take_parts(self._parser.push(text) if self._parser is not None else [Part(TEXT, text)])
        return self._taken()

    def take(self, output: EngineOutput, text: str, looks_for_stops: bool) -> list[Piece]:
        """Take what an engine has told apart, and its clean text, in the order in which models write them."""
        self._looks_for_stops = looks_for_stops
        self._take_text(REASONING, self._clean[REASONING].push(self._allowed(output.reasoning)))
        self._take_text(TEXT, self._allowed(text))
        self._take_text(REFUSAL, self._clean[REFUSAL].push(self._allowed(output.refusal)))
        self._take_parts(Part(TOOL_CALL, fragment=fragment) for fragment in output.tool_calls if self._allows(fragment))
        return self._taken()

    def release(self, natural: bool) -> list[Piece]:
        """The end: what was kept back; a natural one ends the open calls too."""
        self._looks_for_stops = True
        if self._parser is not None:
            self._take_parts(self._parser.release())
        for kind, clean in self._clean.items():
            if natural:
                self._take_text(kind, clean.flush())
        self._let_go()
        if natural and self.finish_reason is None:
            self._pieces += [(TOOL_CALL, payload) for payload in self._calls.complete_all()]
        return self._taken()

    def _allowed(self, text: str) -> str:
        return text if self._allowance.takes(text_bytes(text)) else ""

    def _allows(self, fragment: ToolFragment) -> bool:
        """Also where it shows nothing: a call that has no name yet keeps its arguments."""
        return self._allowance.takes(text_bytes(fragment.arguments) + text_bytes(fragment.name or ""))

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _take_parts(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if part.kind == TOOL_CALL:
                self._take_call(part)
            else:
                self._take_text(part.kind, part.text)

    def _take_text(self, kind: str, text: str) -> None:
        if not text or self._has_its_call:
            return
        self._turn_to(kind)
        if self.gate is not None:
            text = self.gate.push(text, kind == TEXT and self._looks_for_stops)
        if text and not self._allowance.is_used_up:
            self._pieces.append((kind, {"text": text}))

    def _take_call(self, part: Part) -> None:
        self._turn_to(TOOL_CALL)
        if self.finish_reason is not None:
            return
        if self._one_call and (part.ends or (self.has_calls and self._calls.is_new(part.fragment))):
            self._has_its_call = True
            payloads = self._calls.complete_all()
        elif part.ends:
            payloads = self._calls.complete(part.fragment.index)
        else:
            is_new = self._calls.is_new(part.fragment)
            payload = self._calls.take(part.fragment)
            payloads = [payload] if self._has_room(payload, is_new) and payload else []
        self._pieces += [(TOOL_CALL, payload) for payload in payloads]

    def _has_room(self, piece: dict[str, Any] | None, is_new: bool) -> bool:
        """For what a call costs beside its text: once, and its id in each event of it."""
        return self._allowance.takes((ITEM_BYTES if is_new else 0) + (text_bytes(piece["call_id"]) if piece else 0))

    def _turn_to(self, kind: str) -> None:
        if kind != self._kind:
            self._let_go()
            self._allowance.takes(ITEM_BYTES)
            self._kind = kind

    def _let_go(self) -> None:
        """What is kept back of one kind comes before anything of the next."""
        text = self.gate.release() if self.gate is not None else ""
        if text:
            self._pieces.append((self._kind, {"text": text}))
