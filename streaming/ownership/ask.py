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
    With ``continues`` the last turn is an answer that was cut, and the engine writes on from it.
    ``sampling`` holds the allow-listed sampling parameters that the caller gave.

    ``tools`` are as chat completions say them; ``tool_choice`` is ``auto``, ``required`` or the name of the one that
    must be called; with ``one_call`` an answer is over with its first call. ``run_tools`` are names of our own tools,
    in place of ``tools``: what the model calls of them is run, and it reads the results. ``json_schema`` is what the
    answer is held to. ``thinking`` asks the template for reasoning or none. ``kept`` is what of the request is stored
    to be read again; None where the caller wants nothing kept. With ``no_store`` the answer's text goes too, soon after
    the end. Who asks ``detached`` does not wait for the answer.
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
    continues: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    one_call: bool = False
    run_tools: tuple[str, ...] = ()
    json_schema: Mapping[str, Any] | None = None
    thinking: bool | None = None
    kept: Mapping[str, Any] | None = None
    detached: bool = False
    no_store: bool = False

    @property
    def must_call(self) -> bool:
        """Whether the answer has to be a call."""
        return bool(self.tools) and self.tool_choice != "auto"

    @property
    def stored_options(self) -> dict[str, Any]:
        """What decides about the stream beside the sampling, as the row keeps it for whoever carries on."""
        said: dict[str, Any] = {
            "tools": bool(self.tools or self.run_tools),
            "must_call": self.must_call,
            "one_call": bool(self.tools) and self.one_call,
            "constrained": self.json_schema is not None or self.must_call,
            "run_tools": list(self.run_tools),
        }
        return {**self.options, **{name: value for name, value in said.items() if value}}


class Refused(Exception):
    """A request that is not answered; ``status`` and ``code`` are the wire's, ``param`` the field at fault.

    ``left`` is what the caller's quotas leave of its limits, where one of them is the reason.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        left: Mapping[str, Mapping[str, Any]] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.left = left or {}
