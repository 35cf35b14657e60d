"""Owns which pages are measured, and what of each: the server's time, its queries, how its rows were found."""

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from streaming.models import ApiKey, Response

BUDGET_MS = 500
QUERIES_MAX = 30
LIST = "/admin/streaming/response/"
TABLE = "streaming_response"


class Figure(NamedTuple):
    """One page. ``reads`` names how its slowest statement finds responses: indexes, or ``Seq Scan``."""

    page: str
    median_ms: float
    worst_ms: float
    queries: int
    database_ms: float
    reads: list[str]

    @property
    def is_over(self) -> bool:
        """Whether it missed its budget."""
        return self.median_ms > BUDGET_MS or self.queries > QUERIES_MAX


def addresses() -> dict[str, str]:
    """Pages by their names: the list, each of its filters with common and rare values, one answer, the dashboard."""
    newest = Response.objects.order_by("-created_at").values_list("id", flat=True)
    middle = Response.objects.order_by("created_at").values_list("id", flat=True)[1000]
    key = ApiKey.objects.order_by("id").values_list("prefix", flat=True)[0]
    queries = {
        "list": "",
        "list, an older page": f"?before={middle}",
        "end state, most": "?end_state=completed",
        "end state, few": "?end_state=timed_out",
        "not ended": "?end_state=none",
        "reason, hardly any": "?end_state=errored&end_reason=storage",
        "user": "?user=milan",
        "user, unknown": "?user=nobody-of-that-name",
        "key": f"?key={key}",
        "engine and end state": "?engine=2&end_state=cancelled",
        "engine that refused nobody": "?engine=1&end_state=rejected",
        "model": "?model=smollm2-135m",
        "purpose, few": "?purpose=batch",
        "last 24 hours, failed": "?since=-24h&end_state=errored",
        "wasted, some": "?wasted_over=50",
        "wasted, none": "?wasted_over=100000",
        "search by id": f"?q={newest[0]}",
        "search by its beginning": "?q=resp_01",
    }
    return {
        **{name: LIST + query for name, query in queries.items()},
        "timeline of one": f"{LIST}{newest[0]}/change/",
        "dashboard, 30 days": "/admin/usage/?days=30",
        "dashboard, 7 days by user": "/admin/usage/?days=7&group=user",
        "dashboard, one model": "/admin/usage/?days=30&model=qwen3-8b",
        "export by key": "/admin/usage/export.csv?days=30&group=key",
        "live": "/admin/live/",
        "users": "/admin/auth/user/",
        "audit log": "/admin/streaming/auditentry/",
    }


def measure(rounds: int) -> list[Figure]:
    """Every page, once to warm up and then so many times."""
    user, _ = User.objects.get_or_create(username="bench", defaults={"is_staff": True, "is_superuser": True})
    client = Client()
    client.force_login(user)
    return [_measure(client, name, address, rounds) for name, address in addresses().items()]


def _measure(client: Client, name: str, address: str, rounds: int) -> Figure:
    took_ms = []
    for _ in range(rounds + 1):
        began_s = time.perf_counter()
        answer = client.get(address)
        took_ms.append((time.perf_counter() - began_s) * 1000)
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answers {answer.status_code}")
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    spent_ms = 1000 * sum(float(query["time"]) for query in queries)
    reads = sorted({read for query in queries for read in _reads(query["sql"])})
    median_ms, worst_ms = round(statistics.median(took_ms[1:]), 1), round(max(took_ms[1:]), 1)
    return Figure(name, median_ms, worst_ms, len(queries), round(spent_ms, 1), reads)


def _reads(sql: str) -> Iterator[str]:
    """How a statement gets at responses, as the database plans it."""
    if not sql.startswith("SELECT") or f'"{TABLE}"' not in sql:
        return
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql.replace('%', '%%')}", [])
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    yield from _nodes(plan[0]["Plan"])


def _nodes(node: Mapping[str, Any]) -> Iterator[str]:
    if node.get("Relation Name") == TABLE and node["Node Type"] == "Seq Scan":
        yield "Seq Scan"
    if "Index Name" in node and node.get("Relation Name", TABLE) == TABLE:
        yield node["Index Name"]
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def table(figures: list[Figure]) -> str:
    """For a person, and for docs/operations.md."""
    lines = ["| page | median ms | worst ms | queries | of that in the database, ms |", "|---|---|---|---|---|"]
    lines += [
        f"| {figure.page} | {figure.median_ms:.0f}{' **over**' if figure.is_over else ''} | {figure.worst_ms:.0f} "
        f"| {figure.queries} | {figure.database_ms:.0f} |"
        for figure in figures
    ]
    return "\n".join(lines)
