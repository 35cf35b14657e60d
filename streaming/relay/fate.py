"""Owns why an engine is left before it has finished: its response ends, goes on elsewhere, or is another owner's."""

from dataclasses import dataclass

from streaming.protocol.end_state import End


class Moved(Exception):
    """We have left an engine by ourselves to go on elsewhere. ``end`` is the response's where nobody can after all."""

    def __init__(self, reason: str, end: End):
        super().__init__(reason)
        self.reason = reason
        self.end = end


@dataclass(slots=True)
class Fate:
    """What has been decided about the attempt that runs. Whoever sets something cuts the attempt too.

    With ``interrupted``, the response's end, or ``moved`` the engine's proof is waited for; not with ``given_up``.
    """

    interrupted: End | None = None
    moved: Moved | None = None
    given_up: bool = False
