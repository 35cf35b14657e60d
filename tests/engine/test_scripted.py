"""The scripted engine's laws: same script, same tokens, wherever an attempt starts; faults and gates in place."""

import asyncio
import json
from contextlib import aclosing

import pytest

from streaming.engine.base import EngineError, GenerateRequest, Sampling
from streaming.engine.script import ScriptError
from streaming.engine.scripted import ScriptedEngine
from streaming.engine.tokenizer import TokenizerBundle
from tests.engine.conftest import ask, broken, collect

MIXED = {
    "outputs": [{"text": "Café "}, {"bytes": "e298"}, {"bytes": "95"}, {"ids": [32, 65]}, {"text": "ab", "count": 2}],
    "repeat": 3,
}


def engine(script=None, mode="ids", **options):
    return ScriptedEngine(TokenizerBundle.bytes_only(), {"mode": mode, "script": script, **options})


def tokens(outputs):
    """What came, one entry a token: ids, or the texts of all outputs and their count."""
    return [token_id for output in outputs for token_id in output.token_ids]


def text(outputs):
    return "".join(output.text or "" for output in outputs)


def count(outputs):
    return sum(output.token_count or len(output.token_ids) for output in outputs)


async def test_outputs_come_as_they_are_written():
    outputs = await collect(engine(MIXED), ask())
    assert [output.token_ids for output in outputs[:4]] == [tuple("Café ".encode()), (0xE2, 0x98), (0x95,), (32, 65)]
    assert bytes(tokens(outputs)).decode() == "Café ☕ Aab" * 3
    assert outputs[-1].finish_reason == "stop"
    assert [output.finish_reason for output in outputs[:-1]] == [None] * 15
    assert (outputs[-1].usage.prompt_tokens, outputs[-1].usage.completion_tokens) == (
        3,
        len("Café ☕ Aab".encode()) * 3,
    )


async def test_in_text_mode_only_whole_characters_come_and_every_token_is_counted():
    outputs = await collect(engine(MIXED, "text"), ask())
    assert text(outputs) == "Café ☕ Aab" * 3
    assert [(output.text, output.token_count) for output in outputs[:5]] == [
        ("Café ", 1),
        ("", 1),
        ("☕", 1),
        (" A", 2),
        ("ab", 2),
    ]
    assert outputs[-1].usage.completion_tokens == count(outputs) == 21


@pytest.mark.parametrize("mode", ["ids", "text"])
async def test_an_attempt_that_is_carried_on_at_any_token_gives_what_an_undisturbed_one_gives(mode):
    whole = await collect(engine(MIXED, mode), ask())
    total = count(whole)
    for cut in range(total + 1):
        first = await collect(engine(MIXED, mode), ask(max_tokens=cut))
        second = await collect(engine(MIXED, mode), ask(produced_tokens=cut, max_tokens=total - cut + 1))
        assert (first[-1].finish_reason, second[-1].finish_reason) == ("length", "stop")
        assert count(first) == cut
        assert tokens(first) + tokens(second) == tokens(whole)
        assert text(first) + text(second) == text(whole)


@pytest.mark.parametrize("mode", ["ids", "text"])
async def test_max_tokens_is_exact(mode):
    for limit in (1, 5, 6, 20):
        outputs = await collect(
            engine({"outputs": [{"text": "abc", "count": 3}], "repeat": 0}, mode), ask(max_tokens=limit)
        )
        assert count(outputs) == limit
        assert outputs[-1].finish_reason == "length"


async def test_the_echo_depends_on_the_question_only_and_can_be_carried_on():
    whole = await collect(engine(), ask(text="lighthouses", max_tokens=5000))
    answer = bytes(tokens(whole)).decode()
    assert answer.startswith("You asked: lighthouses")
    words = answer.split()[3:]
    assert len(set(words)) == len(words) > 100
    again = await collect(engine(), ask(text="lighthouses", produced_tokens=50, max_tokens=5000))
    assert tokens(again) == tokens(whole)[50:]
    assert tokens(await collect(engine(), ask(text="other"))) != tokens(whole)


async def test_a_user_message_can_be_the_script():
    script = {"script": {"outputs": [{"text": "from the message"}], "finish_reason": "length"}}
    outputs = await collect(engine({"outputs": [{"text": "from the row"}]}), ask(text=json.dumps(script)))
    assert bytes(tokens(outputs)) == b"from the message"
    assert outputs[-1].finish_reason == "length"
    for other in ('{"script": 3}', '{"script"', "[1]", '"script"'):
        outputs = await collect(engine({"outputs": [{"text": "from the row"}]}), ask(text=other))
        assert bytes(tokens(outputs)) == b"from the row"


@pytest.mark.parametrize(
    ("kind", "reason"), [("error", "upstream_error"), ("lost", "upstream_lost"), ("protocol", "upstream_protocol")]
)
async def test_a_fault_comes_after_as_many_outputs_as_it_says_and_hits_the_first_attempt_only(kind, reason):
    script = {"outputs": [{"text": "x"}], "repeat": 9, "fault": {"kind": kind, "after": 4}}
    playing = engine(script)
    seen, error = await broken(playing, ask(response_id=f"resp_{kind}"))
    assert (len(seen), error.reason) == (4, reason)
    again = await collect(playing, ask(response_id=f"resp_{kind}", produced_tokens=4))
    assert count(again) == 5
    assert (playing.closed, playing.finished, playing.running.total()) == (2, 1, 0)


async def test_a_fault_can_hit_more_attempts():
    playing = engine({"outputs": [{"text": "x"}], "repeat": 9, "fault": {"kind": "lost", "after": 0, "times": 2}})
    for _ in range(2):
        with pytest.raises(EngineError):
            await collect(playing, ask(response_id="resp_twice"))
    assert count(await collect(playing, ask(response_id="resp_twice"))) == 9


async def test_a_scripted_bug_is_not_an_engine_error_and_an_abort_is_told_in_the_stream():
    with pytest.raises(RuntimeError):
        await collect(engine({"outputs": [], "fault": {"kind": "raise"}}), ask())
    outputs = await collect(engine({"outputs": [{"text": "x"}] * 5, "fault": {"kind": "abort", "after": 2}}), ask())
    assert (count(outputs), outputs[-1].finish_reason) == (2, "abort")
    assert outputs[-1].usage.completion_tokens == 2


async def test_a_stall_waits_until_it_is_closed():
    playing = engine({"outputs": [{"text": "x"}] * 5, "fault": {"kind": "stall", "after": 2}})
    request = ask()
    task = asyncio.create_task(collect(playing, request))
    await playing.until(lambda state: state.outputs_given == 2)
    proof = asyncio.create_task(playing.abort_proven(request))
    assert (await playing.load()).running == 1
    task.cancel()
    assert await proof is True
    assert (playing.running.total(), playing.closed, playing.finished) == (0, 1, 0)


async def test_a_gate_holds_every_request_until_it_is_opened():
    playing = engine({"outputs": [{"text": "a"}, {"gate": "middle"}, {"text": "b"}]})
    tasks = [asyncio.create_task(collect(playing, ask())) for _ in range(2)]
    await playing.until(lambda state: state.outputs_given == 2)
    assert playing.running.total() == 2
    playing.open_gate("middle")
    assert [bytes(tokens(await task)) for task in tasks] == [b"ab", b"ab"]
    assert bytes(tokens(await collect(playing, ask()))) == b"ab"


async def test_a_continuation_does_not_wait_at_gates_it_has_passed():
    playing = engine({"outputs": [{"text": "a"}, {"gate": "never"}, {"text": "b"}, {"text": "c"}]})
    assert bytes(tokens(await collect(playing, ask(produced_tokens=2)))) == b"c"


async def test_leaving_the_iterator_is_seen():
    playing = engine({"outputs": [{"text": "x"}], "repeat": 0})
    request = ask(max_tokens=10**9)
    async with aclosing(playing.generate(request)) as outputs:
        await anext(outputs)
        assert playing.running[request.request_id] == 1
    assert await playing.abort_proven(request) is True
    assert (playing.closed, playing.finished) == (1, 0)


async def test_an_engine_can_be_made_to_prove_nothing():
    playing = engine(abort_proof=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(playing.abort_proven(ask()), 0.05)


async def test_two_attempts_of_one_request_count_as_two():
    playing = engine({"outputs": [{"gate": "g"}]})
    request = GenerateRequest("resp_x-1", (1,), [], Sampling(max_tokens=5))
    tasks = [asyncio.create_task(collect(playing, request)) for _ in range(2)]
    await playing.until(lambda state: state.running.total() == 2)
    tasks[0].cancel()
    await playing.until(lambda state: state.closed == 1)
    assert playing.running.total() == 1
    playing.open_gate("g")
    await tasks[1]


@pytest.mark.parametrize(
    "script",
    [
        {"outputs": [{}]},
        {"outputs": [{"text": 3}]},
        {"outputs": [], "wrong": 1},
        {"outputs": [], "fault": {"kind": "x"}},
    ],
)
async def test_a_wrong_script_is_the_engines_error(script):
    with pytest.raises(EngineError, match="script"):
        await collect(engine(), ask(text=json.dumps({"script": script})))


def test_a_wrong_script_in_a_row_is_refused():
    with pytest.raises(ScriptError):
        engine({"outputs": [], "fault": {"kind": "explode"}})
