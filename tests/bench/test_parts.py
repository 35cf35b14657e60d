"""Parts are bounded and take no other with them; a ramp says what was carried; who comes back loses nothing."""

import asyncio
from dataclasses import replace

import pytest

import bench.__main__ as command
from bench.measure import Measure
from bench.parts import PARTS, Part, saturation, storm
from bench.processes import StartError
from bench.sides import MODEL
from bench.window import Window
from bench.wires import OpenAIWire

MEASURED = Measure("some", "case", "ours", {"threads": 1})


async def breaks(_):
    yield MEASURED
    raise StartError("no port")


async def hangs(_):
    yield MEASURED
    await asyncio.Event().wait()


@pytest.mark.parametrize(("measure", "why"), [(breaks, "no port"), (hangs, "took longer")])
async def test_a_part_that_breaks_or_hangs_keeps_what_it_measured_and_counts_as_failed(measure, why):
    measures = []
    await command.measure(Part("some", "", measure, timeout_s=0.05), None, measures)
    kept, broken = measures
    assert kept == MEASURED
    assert why in broken.failures[0]


def test_parts_are_chosen_by_name_and_unknown_ones_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench", "--only", "idle", "storm"])
    assert command.arguments().only == ["idle", "storm"]
    monkeypatch.setattr("sys.argv", ["bench"])
    assert command.arguments().only == [part.name for part in PARTS]
    monkeypatch.setattr("sys.argv", ["bench", "--only", "weather"])
    with pytest.raises(SystemExit):
        command.arguments()
    assert "weather" in capsys.readouterr().err


def step(streams, latency_s=0.002, kept=1.0, busiest=50):
    return Window(streams, 25 * streams * kept, (latency_s,), 60, 60, busiest, 70, 0)


def test_what_a_side_carries_is_the_last_step_that_held_and_full_may_come_before():
    values = saturation.summary([step(80), step(120, busiest=96), step(160, busiest=99), step(200, latency_s=0.3)])
    assert values["sustained_streams"] == 160
    assert values["sustained_chunks_per_s"] == 4_000
    assert values["full_chunks_per_s"] == 3_000
    assert values["ran_away"] == 1


@pytest.mark.parametrize("lost", [{"kept": 0.8}, {"latency_s": 0.2}])
def test_a_step_that_is_late_or_loses_chunks_has_not_held(lost):
    assert not saturation.held(step(80, **lost))
    assert "sustained_streams" not in saturation.summary([step(80, **lost)])


def test_a_ramp_that_ends_in_time_did_not_run_away():
    assert saturation.summary([step(80), step(120)])["ran_away"] == 0


async def test_who_comes_back_from_a_reset_loses_nothing_and_who_is_not_waited_for_is_counted(set_up):
    """Under ``grace`` all get the rest; ``abort`` ends what nobody reads, and the storm must see that."""
    async with set_up.ours() as side, set_up.rate(20):
        patient = OpenAIWire(MODEL, {**set_up.site.headers, "X-Disconnect-Policy": "grace=30"})
        waited_for = await storm.storm(set_up, replace(side, wire=patient), streams=20, tokens=60)
        abandoned = await storm.storm(set_up, side, streams=5, tokens=60)
    assert waited_for.failures == ()
    assert (waited_for.values["again"], waited_for.values["refused"]) == (20, 0)
    assert len(abandoned.failures) == 5
