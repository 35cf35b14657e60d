"""Owns what the tests of metrics and logs share: that of the stream tests, and reading the text of /metrics."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming import ownership
from streaming.ownership import process
from tests.child import ROOT
from tests.stream.conftest import _database, bench, engine, row, user  # noqa: F401 fixtures

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: str) -> Samples:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    """A sample's value, the sum of all that have these labels; 0 where there is none."""
    return sum(v for (n, have), v in samples.items() if n == name and set(labels.items()) <= have)


async def seen() -> Samples:
    """What a scrape finds now, a look at engines and rows included."""
    await ownership.current().observer.look()
    return samples_of((await process.metrics()).decode())


@pytest.fixture
async def risen(bench) -> Callable:  # noqa: F811
    """Called, says by how much a series has risen since the test began: counters are the process's."""
    before = await seen()

    async def by(name: str, **labels: str) -> float:
        return value(await seen(), name, **labels) - value(before, name, **labels)

    return by


@pytest.fixture
def site_settings(tmp_path):
    """LOGGING as the site has it with these variables, or why it does not start."""

    def read(**variables: str) -> tuple[dict, str]:
        program = "import json; from chatsite import settings; print(json.dumps(settings.LOGGING, default=str))"
        env = {**os.environ, "DATA_DIR": str(tmp_path), **variables}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout or "{}"), done.stderr

    return read
