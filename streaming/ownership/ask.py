"""Owns what a validated request asks for, and the refusals it can meet. Does nothing itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.protocol.policy import Policy


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for one response, checked for form but not yet against a model.

    ``messages`` are all turns, oldest first; ``question`` is the newest as it goes into a conversation. There
    the oldest turns may be dropped until the prompt fits; an API caller's messages are never touched.
    ``sampling`` holds the allow-listed sampling parameters that the caller gave.
    """

    user_id: int | None
    purpose: str
    dialect: str
    stream: bool
    model: str
    messages: Sequence[Mapping[str, Any]]
    policy: Policy
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    api_key_id: int | None = None
    idempotency_key: str | None = None
    request_sha256: str = ""
    conversation_id: str | None = None
    question: str | None = None
    parent_id: str | None = None


class Refused(Exception):
    """A request that is not answered; ``status`` and ``code`` are the wire's, ``param`` the field at fault."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
