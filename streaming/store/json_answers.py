"""Owns which answers were held to JSON, and what was found wrong with them. The judging itself is the relay's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streaming.models import Response, ResponseEvent
from streaming.protocol.events import ENDED


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of an answer of JSON. Not ``judged``: it has not ended, or its log has expired. ``error`` as in the dialects."""

    judged: bool = False
    error: dict[str, Any] | None = None


def verdicts(responses: Iterable[Response]) -> dict[str, Verdict]:
    """Of those that were held to JSON, by response id; no query where there are none."""
    found = {response.id: Verdict() for response in responses if _is_json(response)}
    if not found:
        return {}
    rows = ResponseEvent.objects.filter(response_id__in=found, kind=ENDED).values_list("response_id", "payload")
    return found | {id_: Verdict(judged=True, error=payload.get("output_error")) for id_, payload in rows}


def _is_json(response: Response) -> bool:
    return bool(response.options.get("constrained") and not response.options.get("must_call"))
