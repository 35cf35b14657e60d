"""Owns what is counted of a response while people read it: the first content, and what they take after its end."""

from prometheus_client import Histogram

from .finished import TOKENS
from .registry import REGISTRY, bounded

#: Below so many tokens; the last class has no bound.
PROMPT_CLASSES = ((256, "0-255"), (1024, "256-1k"), (4096, "1k-4k"), (16384, "4k-16k"))
LONGEST_CLASS = "16k and more"

TTFT = Histogram(
    "chat_ttft_seconds", "From a request's arrival to its first content handed to a socket, of streamed answers.",
    ["model", "prompt_class"], buckets=(0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120), registry=REGISTRY,
)  # fmt: skip


def prompt_class(tokens: int) -> str:
    """The class of a prompt by its length in tokens."""
    return next((name for bound, name in PROMPT_CLASSES if tokens < bound), LONGEST_CLASS)


class Delivery:
    """Of one response that runs in this process. One that is not streamed has no first content, only the whole."""

    __slots__ = ("_model", "_prompt_tokens", "_stream")

    def __init__(self, model: str, prompt_tokens: int, stream: bool):
        self._model = bounded("model", model)
        self._prompt_tokens = prompt_tokens
        self._stream = stream

    def began(self, ttft_s: float) -> None:
        """The first content was handed to a socket."""
        if self._stream:
            TTFT.labels(self._model, prompt_class(self._prompt_tokens)).observe(ttft_s)

    def rose(self, tokens: int) -> None:
        """Readers took so many tokens more after the end."""
        TOKENS.labels(self._model, "delivered").inc(tokens)
