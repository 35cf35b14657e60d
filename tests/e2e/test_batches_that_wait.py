"""Batches whose keys have quotas, on a real site with a real worker, by a clock that the test sets. Costs 21 s.

A minute of a quota is one of the clock's, and the test goes from one to the next by setting it.
"""

import json
import math
import tempfile
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cluster.clocks import Clock
from tests.e2e.batches import content, line, start, texts
from tests.e2e.night import prepared, working
from tests.e2e.reading import eventually

# On PostgreSQL quotas go by the database's clock, which stays what it is.
pytestmark = pytest.mark.sqlite
QUOTAS = {
    "requests": {"requests_per_minute": 4},
    # A line reserves its prompt and 100 tokens, and gives back what it did not need.
    "tokens": {"tokens_per_minute": 400},
}
LINES = 10


class Time:
    """The time of day of the site, its worker and its beat, which only goes forward."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._ahead_s = 0

    @property
    def now_s(self) -> float:
        return time.time() + self._ahead_s

    def go_on(self, seconds: float) -> None:
        self._ahead_s += math.ceil(seconds)
        self._clock.set(self._ahead_s)

    def come_to_second(self, second: int) -> None:
        """Of a minute: this one or the next."""
        self.go_on((second - self.now_s) % 60)


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        yield Clock(Path(folder) / "time")


@pytest.fixture(scope="module")
def keys(tmp_path_factory, clock):
    """The site before it starts, and keys with quotas."""
    with prepared(tmp_path_factory.mktemp("waiting"), BATCHES_AT_ONCE="2") as site:
        found = {name: site.manage("create_api_key", name) for name in QUOTAS}
        for name, limits in QUOTAS.items():
            made = f"api_key=ApiKey.objects.get(user__username={name!r}), **{limits!r}"
            code = f"from streaming.models import ApiKey, Quota; Quota.objects.create({made})"
            site.manage("shell", "-v", "0", "-c", code)
        site.env.update(clock.environment)
        yield site, found


@pytest.fixture(scope="module")
def night(keys):
    with working(keys[0]) as night:
        yield night


@pytest.fixture(scope="module")
def time_of_day(clock):
    return Time(clock)


def test_lines_that_quotas_make_wait_are_answered_once_each_and_no_minute_has_more_than_it_may(
    night, keys, time_of_day
):
    asked = [line(n, max_tokens=100) for n in range(LINES)]
    time_of_day.come_to_second(56)
    with night.client(keys[1]["requests"]) as one, night.client(keys[1]["tokens"]) as two:
        batches = [(client, start(client, asked)) for client in (one, two)]
        # What is left of a minute is sat out; a longer wait is without a worker.
        while (pause_s := eventually(lambda: rest_s(night, batches, time_of_day), 60)) < math.inf:
            time_of_day.go_on(pause_s)
        for client, batch in batches:
            done = client.batches.retrieve(batch.id)
            assert (done.status, done.request_counts.failed, done.error_file_id) == ("completed", 0, None)
            assert texts(content(client, done.output_file_id)) == {f"line {n}": f"answer {n}" for n in range(LINES)}
    for _, batch in batches:
        once = {(f"{batch.id}.{n}", "completed", "stop"): 1 for n in range(1, LINES + 1)}
        assert Counter(night.rows(batch.id)) == once
    by_requests, by_tokens = (by_minute(night, batch) for _, batch in batches)
    assert max(len(tokens) for tokens in by_requests.values()) <= QUOTAS["requests"]["requests_per_minute"]
    assert max(sum(tokens) for tokens in by_tokens.values()) <= QUOTAS["tokens"]["tokens_per_minute"]
    assert len(by_requests) >= 3
    assert len(by_tokens) >= 2


def rest_s(night, batches, time_of_day):
    """For how long nobody works at any that has not ended: without end where all have. None while somebody does."""
    sql = "SELECT due_at, slot FROM streaming_batch WHERE id = ? AND status != 'completed'"
    left = [row for _, batch in batches for row in night.site.rows(sql, batch.id)]
    rests_s = [at(due_at).timestamp() - time_of_day.now_s if slot is None else 0 for due_at, slot in left]
    shortest_s = min(rests_s, default=math.inf)
    return shortest_s if shortest_s > 1 else None


def at(time_of_row):
    """SQLite keeps times of UTC as text."""
    read = datetime.fromisoformat(str(time_of_row))
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def by_minute(night, batch):
    """The tokens of each answer, by the minute that its quota counted it in: it may have come in the one before."""
    sql = "SELECT reserved, prompt_tokens + generated_tokens FROM streaming_response WHERE idempotency_key LIKE ?"
    asked = defaultdict(list)
    for reserved, tokens in night.site.rows(sql, f"{batch.id}.%"):
        asked[json.loads(reserved)["at_s"] // 60].append(tokens)
    return asked
