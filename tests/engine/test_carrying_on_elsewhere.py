"""An engine that dies amid an answer: another goes on where it stopped, and nothing shown is lost or repeated."""

import asyncio
import json

import pytest

from streaming.models import Engine
from streaming.ownership.adoption import adopt_or_end
from streaming.ownership.owner import Owner
from streaming.ownership.start import check, start
from streaming.store import threads
from tests.engine.answers import TOKENS, added, ask_of, asked
from tests.stream.conftest import until_stored

CUT = 30
#: So long is waited for an engine that falls silent, and longer where none does: a busy machine makes any silent.
SILENT_S = 2.0


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here."""


def reasons(events):
    return [event.payload["reason"] for event in events if event.kind == "continued"]


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        ({"reset_after": CUT}, "upstream_lost"),
        ({"eof_after": CUT}, "upstream_lost"),
        ({"half_event_after": CUT}, "upstream_lost"),
        ({"stall_after": CUT}, "engine_hung"),
    ],
)
async def test_all_answers_of_an_engine_that_dies_are_carried_on(
    bench, tmp_path, first, second, settings, control, reason
):
    if "stall_after" in control:
        settings.IDLE_TIMEOUT_S = SILENT_S
    first.set_control(control)
    await added(tmp_path, "llamacpp", first.url, second.url)
    answers = await asyncio.gather(*[asked(bench) for _ in range(8)])
    carried = [(row, events) for row, events in answers if reasons(events)]
    assert len(carried) >= 3, "of those that were there"
    for row, events in answers:
        assert (row.end_state, row.finish_reason, row.completion_tokens) == ("completed", "length", TOKENS)
        assert reasons(events) in ([], [reason])
    moved = [body for body in second.bodies if body["n_predict"] == TOKENS - CUT]
    assert len(moved) == len(carried)
    shown = {bytes(body["prompt"][-len(" the") * 2 :]) for body in moved}
    assert shown == {b" the the"}, "it was asked to go on behind what was shown"


async def test_ids_are_carried_on_as_ids(bench, tmp_path, first, second):
    first.set_control({"reset_after": CUT})
    await added(tmp_path, "vllm", first.url, second.url)
    answers = await asyncio.gather(*[asked(bench) for _ in range(4)])
    assert {(row.end_state, row.completion_tokens, row.generated_tokens) for row, _ in answers} == {
        ("completed", TOKENS, TOKENS)
    }
    whole = [ord("a") + nth % 26 for nth in range(1, CUT + 1)]
    moved = [body for body in second.bodies if body["sampling_params"]["max_tokens"] == TOKENS - CUT]
    assert moved
    assert all(body["token_ids"][-CUT:] == whole for body in moved)
    text = bytes(whole).decode()
    assert all(row.output_text.startswith(text) and len(row.output_text) == TOKENS for row, _ in answers)


@pytest.mark.parametrize("mode", ["ids", "text"])
@pytest.mark.parametrize("kind", ["lost", "abort", "stall"])
async def test_a_scripted_answer_is_what_it_would_have_been_undisturbed(bench, tmp_path, settings, mode, kind):
    await added(tmp_path, "scripted", "", "", options={"mode": mode})
    outputs = [{"text": f"w{nth} ", "count": 3} for nth in range(20)] + [{"bytes": "e298"}, {"bytes": "95"}]
    undisturbed, events = await asked(bench, json.dumps({"script": {"outputs": outputs}}), max_tokens=900)
    assert reasons(events) == []
    if kind == "stall":
        settings.IDLE_TIMEOUT_S = SILENT_S
    for after in (1, 7, 21):
        script = {"outputs": outputs, "fault": {"kind": kind, "after": after}}
        row, events = await asked(bench, json.dumps({"script": script}), max_tokens=900)
        reason = {"lost": "upstream_lost", "abort": "engine_aborted", "stall": "engine_hung"}[kind]
        assert (row.end_state, reasons(events)) == ("completed", [reason])
        assert row.output_text == undisturbed.output_text
        assert row.completion_tokens == undisturbed.completion_tokens
        assert row.generated_tokens >= row.completion_tokens


async def test_stop_strings_limits_and_what_is_held_back_go_along(bench, tmp_path):
    await added(tmp_path, "scripted", "", "")
    script = {"outputs": [{"text": "ab "}, {"text": "EN"}, {"text": "D of it"}], "fault": {"kind": "lost", "after": 2}}
    row, events = await asked(bench, json.dumps({"script": script}), stops=("END",))
    assert (row.output_text, row.finish_reason, reasons(events)) == ("ab ", "stop", ["upstream_lost"])


async def test_an_engine_after_the_other_is_tried_but_not_for_ever(bench, tmp_path):
    await added(tmp_path, "scripted", *[""] * 6)
    script = {"outputs": [{"text": "x"}], "repeat": 50, "fault": {"kind": "lost", "after": 2, "times": 99}}
    row, events = await asked(bench, json.dumps({"script": script}))
    assert (row.end_state, row.end_reason) == ("truncated", "upstream_lost")
    assert reasons(events) == ["upstream_lost"] * 3
    assert row.output_text == "x" * 8


async def test_without_another_engine_that_can_an_answer_ends_as_before(bench, tmp_path, first, second, settings):
    first.set_control({"reset_after": CUT})
    await added(tmp_path, "llamacpp", first.url)
    row, events = await asked(bench)
    assert (row.end_state, row.end_reason, reasons(events)) == ("truncated", "upstream_lost", [])
    first.set_control({"stall_after": CUT})
    settings.IDLE_TIMEOUT_S = SILENT_S
    row, events = await asked(bench)
    assert (row.end_state, row.end_reason, reasons(events)) == ("timed_out", "idle", [])
    await threads.write(lambda: Engine.objects.create(name="h", kind="openai", model="m", url=f"{second.url}/v1"))
    await bench.owner.pool.refresh(force=True)
    first.set_control({"reset_after": CUT})
    row, events = await asked(bench)
    assert second.requests_total == 0 or row.end_state == "completed", "a chat endpoint cannot go on"
    assert reasons(events) == []


@pytest.mark.parametrize("control", [{"error_after": CUT}, {"garbage_after": CUT}])
async def test_what_an_engine_says_is_wrong_is_not_tried_elsewhere(bench, tmp_path, first, second, control):
    first.set_control(control)
    second.set_control(control)
    await added(tmp_path, "llamacpp", first.url, second.url)
    row, events = await asked(bench)
    assert (row.end_state, reasons(events)) == ("errored", [])


async def test_a_grammar_cannot_be_carried_on(bench, tmp_path, first, second):
    for engine in (first, second):
        engine.set_control({"reset_after": CUT})
    await added(tmp_path, "llamacpp", first.url, second.url)
    row, events = await asked(bench, json_schema={"type": "object"})
    assert (row.end_state, reasons(events)) == ("truncated", [])


async def test_a_successor_stops_the_attempt_of_an_owner_that_may_only_be_paused(bench, tmp_path, first, settings):
    first.set_control({"stall_after": CUT})
    settings.IDLE_TIMEOUT_S = SILENT_S
    await added(tmp_path, "vllm", first.url)
    ask = ask_of(bench)
    response, tail = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    await until_stored(tail, lambda tail: tail.sent_tokens == CUT)
    first.set_control({})
    successor = Owner()
    await successor.start()
    await adopt_or_end(successor, await bench.row(response))
    assert {"request_ids": [f"generate-tokens-{response.id}-1"]} in first.bodies
    async with asyncio.timeout(60):
        await successor.ended(response.id)
        await bench.owner.ended(response.id)
    row = await bench.row(response)
    assert (row.end_state, row.completion_tokens, row.epoch) == ("completed", TOKENS, 2)
    assert first.bodies[-1]["token_ids"][-CUT:] == [ord("a") + nth % 26 for nth in range(1, CUT + 1)]
    await successor.drain(0)
