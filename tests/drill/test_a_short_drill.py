"""One short run of the drill: two web processes on PostgreSQL, 60 responses, every kind of fault."""

import asyncio
import os
from collections import Counter

import pytest

from tests.drill import report
from tests.drill.__main__ import QUICK
from tests.drill.plan import Size, plan
from tests.drill.run import Drill
from tests.drill.sites import pair_on_postgres

SEED = int(os.environ.get("SEED") or 6)
SHORT = Size(60, 18, 2, longest_pause_s=4, longest_stall_s=4, between_faults_s=(2, 5))


@pytest.mark.slow
@pytest.mark.engine
def test_no_law_breaks_while_processes_die_pause_and_leave_and_readers_are_cut_stall_and_stop(tmp_path, model_dir):
    planned = plan(SEED, SHORT)
    with pair_on_postgres(tmp_path, model_dir, quick=True) as cluster:
        result = asyncio.run(Drill(cluster, planned, QUICK).run())
    print(report.told(report.Run(SEED, "PostgreSQL, 2 processes", result)))
    assert result.broken == []
    assert len(result.readers) >= SHORT.responses
    assert result.faults >= Counter(fault.kind for fault in planned.faults)
    assert result.faults["reset"]
    assert result.faults["stop"]
