"""Owns what the database holds after a drill, read straight from it. Judges nothing."""

import json
from dataclasses import dataclass
from typing import Any

from tests.e2e.site import Site

COLUMNS = (
    "id", "owner", "epoch", "state", "end_state", "end_reason", "last_seq", "idempotency_key", "model", "policy",
    "output_text", "generated_tokens", "completion_tokens", "sent_tokens", "delivered_tokens", "stop_reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One stored event; ``text`` is empty where its kind has none."""

    seq: int
    epoch: int
    kind: str
    payload: dict[str, Any]
    token_count: int

    @property
    def text(self) -> str:
        return self.payload["text"] if self.kind == "text" else ""


@dataclass(frozen=True, slots=True)
class Books:
    """All responses and their logs, by response id."""

    rows: dict[str, dict[str, Any]]
    logs: dict[str, list[LogEvent]]

    def by_key(self, key: str) -> list[dict[str, Any]]:
        return [row for row in self.rows.values() if row["idempotency_key"] == key]


def read(site: Site) -> Books:
    found = site.rows(f"SELECT {', '.join(COLUMNS)} FROM streaming_response")  # noqa: S608 our own names
    rows = {values[0]: dict(zip(COLUMNS, values, strict=True)) for values in found}
    logs: dict[str, list[LogEvent]] = {response_id: [] for response_id in rows}
    for response_id, seq, epoch, kind, payload, count in site.rows(
        "SELECT response_id, seq, epoch, kind, payload, token_count FROM streaming_responseevent"
        " ORDER BY response_id, seq"
    ):
        read_payload = json.loads(payload) if isinstance(payload, str) else payload
        logs[response_id].append(LogEvent(seq, epoch, kind, read_payload, count))
    return Books(rows, logs)


def unended(site: Site) -> list[tuple[str, int | None]]:
    """Responses without an end, with the pid of their owner; None where its process has no row (any more)."""
    return site.rows(
        "SELECT r.id, p.pid FROM streaming_response r LEFT JOIN streaming_webprocess p ON p.id = r.owner"
        " WHERE r.end_state IS NULL"
    )
