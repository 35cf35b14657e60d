"""Owns the laws of tool calls: whatever the fragments, each call is whole, in order, and invalid ones are never run."""

import json
import math

import pytest
from hypothesis import given

from streaming.protocol.engine_output import ToolFragment
from streaming.protocol.events import TOOL_CALL, Draft, joined_payload, merge
from streaming.protocol.tool_calls import (
    INVALID_ARGUMENTS,
    CompleteCall,
    ToolCalls,
    complete_call,
    parsed_arguments,
)
from tests.protocol.tape import inputs


def gathered(fragments, prefix="call"):
    """The calls that the fragments make, each as its joined payload, after a natural end."""
    calls = ToolCalls(prefix)
    payloads = [payload for fragment in fragments if (payload := calls.take(fragment))] + calls.complete_all()
    assert len(calls) == len({payload["index"] for payload in payloads})
    by_index = {}
    for payload in payloads:
        assert ("name" in payload) == (payload["index"] not in by_index), "the name comes once, first"
        by_index.setdefault(payload["index"], []).append(Draft(TOOL_CALL, payload))
    assert list(by_index) == sorted(by_index)
    joined = []
    for drafts in by_index.values():
        assert [draft.payload["complete"] for draft in drafts] == [False] * (len(drafts) - 1) + [True]
        assert drafts[-1].payload["arguments"] == ""
        assert [len(run) for run in (drafts[:-1], merge(drafts))] == [len(drafts) - 1, 2]
        joined.append(joined_payload(drafts))
    return joined


def test_a_call_arrives_in_fragments():
    calls = ToolCalls()
    assert calls.take(ToolFragment(0, "c1", "get_weather")) == {
        "index": 0, "call_id": "c1", "name": "get_weather", "arguments": "", "complete": False,
    }  # fmt: skip
    assert calls.take(ToolFragment(0, arguments='{"city"')) == {
        "index": 0, "call_id": "c1", "arguments": '{"city"', "complete": False,
    }  # fmt: skip
    assert calls.take(ToolFragment(0)) is None
    assert calls.take(ToolFragment(0, arguments=': "Paris"}'))
    assert calls.complete_all() == [{"index": 0, "call_id": "c1", "arguments": "", "complete": True}]
    assert calls.complete_all() == calls.complete(0) == []


def test_name_and_arguments_may_come_in_one_fragment_and_the_name_late():
    assert gathered([ToolFragment(0, "c1", "f", '{"a": 1}')])[0]["arguments"] == '{"a": 1}'
    late = ToolCalls()
    assert late.take(ToolFragment(0, "c1", arguments='{"a"')) is None
    assert late.take(ToolFragment(0, name="f", arguments=": 1}"))["arguments"] == '{"a": 1}'


def test_c28_parallel_calls_that_share_an_index_are_told_apart_by_their_ids():
    fragments = [ToolFragment(0, call_id, "w", f'{{"p":{n}}}') for n, call_id in enumerate(["c1", "c2", "c3"], start=1)]
    calls = gathered(fragments)
    assert [(c["index"], c["call_id"], c["name"], c["arguments"]) for c in calls] == [
        (0, "c1", "w", '{"p":1}'), (1, "c2", "w", '{"p":2}'), (2, "c3", "w", '{"p":3}'),
    ]  # fmt: skip
    assert not any("error" in call for call in calls)


def test_interleaved_calls_keep_their_own_arguments():
    order = [(0, "c1"), (1, "c2"), (0, None), (1, None), (1, "c2"), (0, "c1")]
    names = ["f", "g", None, None, None, None]
    calls = gathered([ToolFragment(i, c, name, f"{i}{n}") for n, ((i, c), name) in enumerate(zip(order, names))])  # noqa: B905
    assert [call["arguments"] for call in calls] == ["000205", "111314"]


def test_a_fragment_without_an_index_is_told_by_its_id_or_goes_on_with_the_last_one():
    fragments = [
        ToolFragment(None, "c1", "f", "{"),
        ToolFragment(None, arguments="}"),
        ToolFragment(4, "c1", None, " "),
    ]
    calls = gathered(fragments)
    assert [call["arguments"] for call in calls] == ["{} "]


def test_c29_repeated_ids_and_names_are_not_appended():
    calls = gathered([
        ToolFragment(0, "c1", "w", '{"c":"Se'), ToolFragment(0, "c1", "w", 'attle"}'), ToolFragment(0, "c1", "w"),
    ])  # fmt: skip
    assert [(c["call_id"], c["name"], c["arguments"]) for c in calls] == [("c1", "w", '{"c":"Seattle"}')]


def test_c29_arguments_that_come_twice_are_kept_as_sent_and_flagged():
    [call] = gathered([
        ToolFragment(0, "c1", "w", '{"c":"Se'), ToolFragment(0, None, None, 'attle"}'),
        ToolFragment(0, None, None, '{"c":"Seattle"}'),
    ])  # fmt: skip
    assert call["arguments"] == '{"c":"Seattle"}{"c":"Seattle"}'
    assert call["error"] == INVALID_ARGUMENTS
    assert complete_call(call) is None


@pytest.mark.parametrize(
    "arguments",
    [
        *['{"c":"Sea', "[1]", '"text"', "null", "5", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', "{} {}", "x"],
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_json_object_are_flagged_and_never_run(arguments):
    [call] = gathered([ToolFragment(0, "c1", "f", arguments)])
    assert (call["complete"], call["error"], call["arguments"]) == (True, INVALID_ARGUMENTS, arguments)
    assert complete_call(call) is None
    assert complete_call({key: value for key, value in call.items() if key != "error"}) is None


@pytest.mark.parametrize("arguments", ["", " ", "\n"])
def test_a_call_without_arguments_has_an_empty_object(arguments):
    [call] = gathered([ToolFragment(0, "c1", "now", arguments)])
    assert json.loads(call["arguments"]) == {}
    assert complete_call(call) == CompleteCall("c1", "now", {})


def test_a_call_that_never_gets_a_name_is_flagged_and_one_that_is_cut_stays_open():
    assert gathered([ToolFragment(0, "c1", None, "{}")]) == [
        {"index": 0, "call_id": "c1", "name": "", "arguments": "{}", "complete": True, "error": INVALID_ARGUMENTS}
    ]
    calls = ToolCalls()
    payload = calls.take(ToolFragment(0, "c1", "f", '{"a": 1}'))
    assert not payload["complete"]
    assert complete_call(payload) is None, "nothing is complete before its end, though it could be read"


def test_what_comes_after_a_calls_end_is_no_part_of_it():
    calls = ToolCalls()
    calls.take(ToolFragment(0, "c1", "f", "{}"))
    assert [payload["complete"] for payload in calls.complete(0)] == [True]
    assert calls.take(ToolFragment(0, "c1", None, "x")) is None


def test_calls_without_ids_get_the_same_ones_whenever_the_log_is_read_again():
    fragments = [ToolFragment(0, None, "f", "{}"), ToolFragment(1, "", "g", "{}")]
    assert [call["call_id"] for call in gathered(fragments, "call_X")] == ["call_X_0", "call_X_1"]
    assert gathered(fragments, "call_X") == gathered(fragments, "call_X")


def test_an_escape_cut_inside_and_a_surrogate_pair_cut_over_fragments_are_whole():
    pieces = ['{"a": "\\u00', 'e9", "b": "\ud83d', '\ude00\0"}']
    [call] = gathered([ToolFragment(0, "c1", "f", piece) for piece in pieces])
    assert call["arguments"] == '{"a": "\\u00e9", "b": "😀\ufffd"}'
    assert complete_call(call).arguments == {"a": "é", "b": "😀\ufffd"}
    [torn] = gathered([ToolFragment(0, "c\ud800", "f\0", '{"a": "\ud83d')])
    assert torn == {
        "index": 0, "call_id": "c\ufffd", "name": "f\ufffd", "arguments": '{"a": "\ufffd', "complete": True,
        "error": INVALID_ARGUMENTS,
    }  # fmt: skip


def scalar(tape):
    return tape.of([None, True, 0, -1, 10**20, 1.5]) if tape.flag() else tape.any_text(4)


def object_of(tape, value):
    return {tape.any_text(3): value() for _ in range(tape.size(3))}


def calls_in_pieces(tape):
    sizes = tape.many(lambda: 1 + tape.below(5), 4, 1)
    return sizes, tape.flag(), tape.many(lambda: object_of(tape, lambda: scalar(tape)), 4, 1)


@given(inputs(96, calls_in_pieces))
def test_any_arguments_cut_anywhere_come_out_as_they_were(case):
    sizes, same_index, values = case
    fragments = []
    for number, value in enumerate(values):
        raw = json.dumps(value)
        index = 0 if same_index else number
        fragments.append(ToolFragment(index, f"c{number}", "f"))
        start = 0
        while start < len(raw):
            size = sizes[len(fragments) % len(sizes)]
            fragments.append(ToolFragment(index, arguments=raw[start : start + size]))
            start += size
    assert [complete_call(call).arguments for call in gathered(fragments)] == values


def test_arguments_are_parsed_strictly():
    assert parsed_arguments('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert parsed_arguments('{"a": NaN}') is None
    assert math.isinf(parsed_arguments('{"a": 1e999}')["a"]), "a number that is too large is still one"
