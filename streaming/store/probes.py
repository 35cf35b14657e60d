"""Owns the rows of generations that no relay runs: those by which an engine is probed. Asks no engine."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from streaming.models import Engine, Response
from streaming.protocol.end_state import End
from streaming.protocol.events import ENDED, Event

from . import creation, log, responses
from .creation import NewResponse
from .responses import Ending

POLICY = "abort"


def record(
    row: Engine, dialect: str, max_tokens: int, end: End, figures: Mapping[str, Any], attempt: Mapping[str, Any]
) -> Response:
    """One generation that is over, which was one attempt.

    Its row comes late: while it ran, one without a live owner would be an orphan.
    """
    asked = {"max_tokens": max_tokens, "stop": [], "sampling": {}, "options": {}}
    purpose = Response.Purpose.PROBE
    with transaction.atomic():
        age_s = (attempt["duration_ms"] or 0.0) / 1000
        new = NewResponse(None, purpose, dialect, row.model, POLICY, True, asked, [], owner="", age_s=age_s)
        response = creation.create(new)
        Response.objects.filter(id=response.id).update(engine=row)
        attempts = json.dumps([{**attempt, "engine_id": row.pk, "engine": row.name}])
        responses.end(response.id, response.epoch, 1, Ending(end, {**figures, "attempts": attempts}))
        log.insert([(response.id, Event(1, response.epoch, ENDED, end.to_payload(figures)))])
    return response
