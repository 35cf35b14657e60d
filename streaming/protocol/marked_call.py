"""Owns one tool call that a model writes into its text, until it is known to be one or not. Finds no markers."""

from .call_envelope import CallEnvelope
from .engine_output import ToolFragment


class MarkedCall:
    """Text of a possible call in, fragments out once it is certain.

    A bare object is a call once it has a name and arguments: an answer in JSON may well have a name.
    """

    def __init__(self, index: int, lead: str, is_bare: bool) -> None:
        self.index = index
        self.announced = False
        #: What the last push did not take.
        self.leftover = ""
        self._raw = [lead]
        self._is_bare = is_bare
        self._spoilt = False
        self._envelope = CallEnvelope(is_strict=is_bare)

    @property
    def raw(self) -> str:
        """What has to come out as text again if this is no call; empty once it is one."""
        return "".join(self._raw)

    @property
    def is_over(self) -> bool:
        """Whether nothing more of its object can come."""
        return self._envelope.closed or self._envelope.broken

    @property
    def is_whole(self) -> bool:
        """Whether its object was closed."""
        return self._envelope.closed

    def push(self, text: str) -> ToolFragment | None:
        """Read on; the next fragment, if there is one."""
        taken = 0 if self.is_over else self._envelope.push(text)
        self.leftover = text[taken:]
        if self.announced:
            arguments = self._envelope.take_arguments()
            return ToolFragment(self.index, arguments=arguments) if arguments else None
        self._raw.append(text[:taken])
        return self._announce() if self._is_certain() else None

    def spoil(self) -> ToolFragment | None:
        """Keep what stands behind the object but before the call's end: its arguments are invalid by that."""
        text, self.leftover = self.leftover, ""
        if not self._spoilt:
            text = text.lstrip()
            self._spoilt = bool(text)
        return ToolFragment(self.index, arguments=text) if text else None

    def _is_certain(self) -> bool:
        envelope = self._envelope
        return bool(envelope.name) and (envelope.has_arguments or (envelope.closed and not self._is_bare))

    def _announce(self) -> ToolFragment:
        self.announced = True
        self._raw.clear()
        return ToolFragment(self.index, name=self._envelope.name, arguments=self._envelope.take_arguments())
