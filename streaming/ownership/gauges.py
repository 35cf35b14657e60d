"""Owns what operators see of a process as it is now: read when Prometheus asks, so that it costs nothing otherwise."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streaming.metrics.registry import bounded
from streaming.pool.seat import Seat
from streaming.store.soundness import Soundness

from .observing import Found
from .owner import Owner
from .task_series import families

#: Name, meaning, label. What the last look did not find out has no sample.
OF_PROCESS = {
    "chat_running_responses": ("Responses that have an engine's slot, in this process.", "model"),
    "chat_queued_responses": ("Responses that are being stored or wait for an engine's slot.", "model"),
    "chat_readers": ("Connections that read an answer, and hidden pages that do by their socket.", None),
    "chat_journal_lag_seconds": ("Age of the commit that is under way.", None),
    "chat_journal_pending_bytes": ("Payload that waits for the next commit.", None),
    "chat_unproven_aborts": ("Engines that were left and are still asked whether they stopped.", None),
    "chat_draining": ("1 while this process leaves and takes nothing new.", None),
}
OF_ENGINE = {
    "chat_pool_slots": "This process's part of the engine's slots.",
    "chat_pool_used_slots": "Slots that are in use by this process.",
    "chat_pool_healthy": "0 while the engine gets nothing because of what became of others there.",
    "chat_pool_draining": "1 while the engine is being taken out of service.",
    "chat_engine_silent_seconds": "For how long it has worked for this process without giving anything.",
}
LOOKED_AT = {
    "chat_engine_up": ("1 where the engine told what it does.", "engine"),
    "chat_engine_running_requests": ("Requests that the engine works on, by its own account.", "engine"),
    "chat_engine_waiting_requests": ("Requests that wait in the engine, by its own account.", "engine"),
    "chat_engine_kv_use_ratio": ("Part of the engine's KV blocks that is in use, where it says so.", "engine"),
    "chat_database_up": ("1 where the database answered the last look.", None),
    "chat_overdue_responses": ("Responses without an end event that are older than any can be, in all.", None),
    "chat_relay_lost_responses": ("Responses of the last hour that nobody carried on, whoever ended them.", None),
    "chat_ledger_drift": ("What the last reconcile found, without its sign.", "kind"),
    "chat_ledger_checked_timestamp_seconds": ("When the books were compared last.", None),
}
Values = Mapping[str, float]


class Gauges(Collector):
    """Those of one owner. Called on the event loop's thread, where all it looks at lives."""

    def __init__(self, owner: Owner):
        self._owner = owner

    def collect(self) -> Iterable[Metric]:
        yield from families(self._owner.observer.found.tasks)
        yield from self._of_process()
        yield from self._of_engines()
        yield from self._looked_at(self._owner.observer.found)

    def _of_process(self) -> Iterator[GaugeMetricFamily]:
        owner = self._owner
        running, queued = owner.running_by_model()
        values: dict[str, Values | float] = {
            "chat_running_responses": running,
            "chat_queued_responses": queued,
            "chat_readers": owner.readers.open,
            "chat_journal_lag_seconds": owner.journal.lag_s,
            "chat_journal_pending_bytes": owner.journal.pending_bytes,
            "chat_unproven_aborts": len(owner.aborts),
            "chat_draining": owner.draining,
        }
        for name, (meaning, label) in OF_PROCESS.items():
            yield _family(name, meaning, label, values[name])

    def _of_engines(self) -> Iterator[GaugeMetricFamily]:
        now = self._owner.now()
        seen = {bounded("engine", seat.row.name): _of_seat(seat, now) for seat in self._owner.pool.seats}
        for name, meaning in OF_ENGINE.items():
            yield _family(name, meaning, "engine", {engine: values[name] for engine, values in seen.items()})

    @staticmethod
    def _looked_at(found: Found) -> Iterator[GaugeMetricFamily]:
        loads = {bounded("engine", name): load for name, load in found.loads.items()}
        told = {name: load for name, load in loads.items() if load}
        kv_use = {name: load.kv_use for name, load in told.items() if load.kv_use is not None}
        values: dict[str, Values | float | None] = {
            "chat_engine_up": {name: load is not None for name, load in loads.items()},
            "chat_engine_running_requests": {name: load.running for name, load in told.items()},
            "chat_engine_waiting_requests": {name: load.waiting for name, load in told.items()},
            "chat_engine_kv_use_ratio": kv_use,
            "chat_database_up": found.database_up,
            **_of_rows(found.rows),
        }
        for name, (meaning, label) in LOOKED_AT.items():
            yield _family(name, meaning, label, values.get(name))


def _of_rows(rows: Soundness | None) -> dict[str, Values | float | None]:
    if rows is None:
        return {}
    return {
        "chat_overdue_responses": rows.overdue,
        "chat_relay_lost_responses": rows.relay_lost,
        "chat_ledger_drift": rows.drift,
        "chat_ledger_checked_timestamp_seconds": rows.checked_at.timestamp() if rows.checked_at else None,
    }


def _of_seat(seat: Seat, now: float) -> Values:
    return {
        "chat_pool_slots": seat.slots,
        "chat_pool_used_slots": seat.leased,
        "chat_pool_healthy": not seat.health.is_ejected(now),
        "chat_pool_draining": not seat.takes_new,
        "chat_engine_silent_seconds": seat.silent_s(now),
    }


def _family(name: str, meaning: str, label: str | None, value: Values | float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=[label] if label else [])
    if isinstance(value, Mapping):
        for labelled, one in value.items():
            family.add_metric([labelled], float(one))
    elif value is not None:
        family.add_metric([], float(value))
    return family
