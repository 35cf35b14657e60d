"""Owns what stands between text and its readers: stop strings, then the output filter. Does not know tokens."""

from collections.abc import Sequence

from .holdback import Holdback
from .output_filter import CONTENT_FILTER, FilterWindow, OutputFilter


class TextGate:
    """Text in, text that may be shown out. ``finish_reason`` is set once either of the two ends the answer."""

    def __init__(self, stops: Sequence[str], include_stop: bool, output_filter: OutputFilter | None) -> None:
        self.finish_reason: str | None = None
        self.has_filter = output_filter is not None
        self._holdback = Holdback(stops, include_stop) if stops else None
        self._window = FilterWindow(output_filter) if output_filter is not None else None

    @property
    def matched_stop(self) -> str | None:
        """The stop string that ended the answer."""
        return self._holdback.matched if self._holdback is not None else None

    def push(self, text: str, looks_for_stops: bool) -> str:
        """Take text, return what may be shown now; nothing more once the answer has ended."""
        if self.finish_reason is not None:
            return ""
        holdback = self._holdback
        if holdback is not None and looks_for_stops:
            text = holdback.push(text)
            if holdback.matched is not None:
                self.finish_reason = "stop"
        return text if self._window is None else self._filtered(self._window.push(text))

    def release(self) -> str:
        """The text is over, or text of another kind follows: what was kept back."""
        text = self._holdback.release() if self._holdback is not None else ""
        if self._window is None:
            return text
        return self._filtered(self._window.push(text) + self._window.release())

    def _filtered(self, text: str) -> str:
        assert self._window is not None
        if self._window.ended:
            self.finish_reason = CONTENT_FILTER
        return text
