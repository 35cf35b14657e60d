"""Owns the series of what workers have counted, as every web process shows them alike. Reads no cache."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily

from streaming.metrics import task_counts
from streaming.metrics.task_counts import Labels

Counts = Mapping[Labels, float]
#: Name, meaning, labels.
SERIES: Mapping[str, tuple[str, Labels]] = {
    "chat_task_runs": ("Runs of tasks, by how they ended.", ("task", "ended")),
    "chat_task_seconds": ("Time that tasks took.", ("task",)),
    "chat_webhook_deliveries": ("Webhooks that were sent, by what became of it.", ("ended",)),
}


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """By series."""

    counts: Mapping[str, Counts] = field(default_factory=dict)


def read() -> TaskFigures:
    """As the cache has them now. It may hang: not for the event loop's thread."""
    took = {labels: count / 1000 for labels, count in task_counts.milliseconds().items()}
    deliveries = task_counts.deliveries()
    return TaskFigures(
        {"chat_task_runs": task_counts.runs(), "chat_task_seconds": took, "chat_webhook_deliveries": deliveries}
    )


def families(figures: TaskFigures) -> Iterator[CounterMetricFamily]:
    """For Prometheus."""
    for name, (meaning, labels) in SERIES.items():
        family = CounterMetricFamily(name, meaning, labels=labels)
        for values, count in figures.counts.get(name, {}).items():
            family.add_metric(values, count)
        yield family
