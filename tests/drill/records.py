"""Owns what the people of a drill remember: frames, ends, answers to stops, what was done to them. Judges nothing."""

from dataclasses import dataclass, field
from typing import Any

from tests.drill.plan import Question


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame said: everything after the cursor before it, up to this seq."""

    after_seq: int
    seq: int
    epoch: int
    text: str


@dataclass(slots=True)
class Record:
    """One reader, over all its connections."""

    question: Question
    response_id: str | None = None
    frames: list[Frame] = field(default_factory=list)
    #: end_state as the reader was told it: in band, by a status, or "completed" by ``[DONE]`` or a body.
    end_state: str | None = None
    body_text: str | None = None
    has_left: bool = False
    connections: int = 0
    resets: int = 0
    stalls: int = 0
    #: Answers that nobody may get, as lines for the list of broken laws.
    troubles: list[str] = field(default_factory=list)

    @property
    def cursor(self) -> int:
        return self.frames[-1].seq if self.frames else 0

    @property
    def last_event_id(self) -> str | None:
        return f"{self.response_id}:{self.frames[-1].epoch}.{self.frames[-1].seq}" if self.frames else None

    @property
    def text(self) -> str:
        return "".join(frame.text for frame in self.frames)


@dataclass(slots=True)
class StopRecord:
    """A stop and what it was answered; None when its caller gave up."""

    question: Question
    answer: dict[str, Any] | None = None
    trouble: str = ""
