"""Owns the laws of marked text: every cut gives the whole text's parts, and what only looked like a marker is text."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given

from streaming.protocol.events import REASONING, STARTED, TEXT, TOOL_CALL, Draft
from streaming.protocol.marker_parser import MarkerParser
from streaming.protocol.markers import FORMATS, Markers, begins_in_reasoning, markers_named, spelled, without_calls
from streaming.protocol.tool_calls import ToolCalls
from tests.protocol.tape import inputs

MARKED = [name for name, markers in FORMATS.items() if markers is not None]


def parse(markers, pieces, in_reasoning=False):
    """The parts of a text that comes in pieces, joined: [kind, text] or [index, name, arguments, has ended]."""
    parser = MarkerParser(FORMATS[markers], in_reasoning)
    parts = [part for piece in pieces for part in parser.push(piece)] + parser.release()
    joined = []
    for part in parts:
        call = part.fragment
        if part.kind != TOOL_CALL:
            assert part.text, "no part is empty"
            if joined and joined[-1][0] == part.kind:
                joined[-1][1] += part.text
            else:
                joined.append([part.kind, part.text])
        elif call.name is not None:
            joined.append([call.index, call.name, call.arguments, False])
        else:
            assert joined[-1][0] == call.index, "nothing comes between the pieces of a call"
            joined[-1][2] += call.arguments
            joined[-1][3] = part.ends
    return joined


def every_cut(markers, text, in_reasoning=False):
    """The parts of the whole text, after all its cuts were seen to give the same."""
    whole = parse(markers, [text], in_reasoning)
    assert parse(markers, list(text), in_reasoning) == whole
    for cut in range(len(text) + 1):
        assert parse(markers, [text[:cut], text[cut:]], in_reasoning) == whole, f"cut at {cut}"
    return whole


F = '{"name": "f", "arguments": {"a": 1}}'
G = '{"name": "g", "parameters": {"b": "}"}}'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>\nhm\n</think>\n\nok", [[REASONING, "hm\n"], [TEXT, "ok"]]),
        (" \n<think>a</think>b", [[REASONING, "a"], [TEXT, "b"]]),
        ("<think>a</thin</think> b", [[REASONING, "a</thin"], [TEXT, "b"]]),
        ("<think>never closed </thi", [[REASONING, "never closed </thi"]]),
        ("<think></think>b", [[TEXT, "b"]]),
        ("<think> </think> ", []),
        ("\n ok", [[TEXT, "\n ok"]]),
        ("  ", [[TEXT, "  "]]),
        ("<thi", [[TEXT, "<thi"]]),
        ("<thx", [[TEXT, "<thx"]]),
        ("Write <think>x</think> around it.", [[TEXT, "Write <think>x</think> around it."]]),
        ("<think>a</think>b<think>c</think>", [[REASONING, "a"], [TEXT, "b<think>c</think>"]]),
        ("<think>STOP <tool_call> </think>c", [[REASONING, "STOP <tool_call> "], [TEXT, "c"]]),
        ("", []),
    ],
)
@pytest.mark.parametrize("markers", ["think", "think+hermes"])
def test_reasoning_opens_the_answer_and_nothing_else_does(markers, text, parts):
    assert every_cut(markers, text) == parts


def test_a_prompt_that_has_opened_the_reasoning_begins_in_it():
    assert every_cut("think", "\nhm</think>\nok", in_reasoning=True) == [[REASONING, "hm"], [TEXT, "ok"]]
    assert every_cut("think", "  ", in_reasoning=True) == []
    assert begins_in_reasoning(FORMATS["think"], "<|im_start|>assistant\n<think>\n")
    assert not begins_in_reasoning(FORMATS["think"], "<|im_start|>assistant\n")
    assert not begins_in_reasoning(FORMATS["hermes"], "<think>")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"<tool_call>\n{F}\n</tool_call>", [[0, "f", '{"a": 1}', True]]),
        (f"Let me see.\n<tool_call>{F}</tool_call>", [[TEXT, "Let me see.\n"], [0, "f", '{"a": 1}', True]]),
        (
            f"<tool_call>{F}</tool_call>\n<tool_call>\n{G}</tool_call>\nDone",
            [[0, "f", '{"a": 1}', True], [1, "g", '{"b": "}"}', True], [TEXT, "Done"]],
        ),
        (f"<tool_call>{F}", [[0, "f", '{"a": 1}', False]]),
        (f"<tool_call>{F}</tool_c", [[0, "f", '{"a": 1}</tool_c', False]]),
        (f"<tool_call>{F} and more</tool_call>", [[0, "f", '{"a": 1}and more', True]]),
        (f"<tool_call>{F} x  y</tool_call>", [[0, "f", '{"a": 1}x  y', True]]),
        ('<tool_call>{"name": "f", "arguments": {"a": "x</tool_call>b', [[0, "f", '{"a": "x', True], [TEXT, "b"]]),
        ('<tool_call>{"name": "now"}</tool_call>', [[0, "now", "", True]]),
        ('<tool_call>{"arguments": {"a": [1, "]"]}, "name": "f"}</tool_call>', [[0, "f", '{"a": [1, "]"]}', True]]),
        (
            '<tool_call>{"id": [{}], "name": "f", "arguments": "{\\"a\\": 1}", "x": 5.5}</tool_call>',
            [[0, "f", '{"a": 1}', True]],
        ),
        ('<tool_call>{"name": "f", "arguments": null }</tool_call>', [[0, "f", "null", True]]),
        ('<tool_call>{"name": "f", "arguments": 5}</tool_call>', [[0, "f", "5", True]]),
        ('<tool_call>{"name": "f", "arguments": "\\x"}</tool_call>', [[0, "f", "", True]]),
        ('<tool_call>{"name": "f\\u00e9\\"", "arguments": {}}</tool_call>', [[0, 'fé"', "{}", True]]),
        ('<tool_call>{"name": "f", "arguments": {"a": 1}, 7}</tool_call>', [[0, "f", '{"a": 1}7}', True]]),
    ],
)
def test_tagged_calls_come_out_with_their_arguments_as_written(text, parts):
    assert every_cut("hermes", text) == parts
    assert every_cut("think+hermes", f"<think>hm</think>\n{text}") == [[REASONING, "hm"], *parts]


@pytest.mark.parametrize(
    "text",
    [
        "a < b <tool <tool_cal> x",
        "<tool_call></tool_call>",
        "<tool_call>no object</tool_call> x",
        '<tool_call>{"name"</tool_call>',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
        '<tool_call>{"name": ]',
        '<tool_call>{"\\x": 1}',
        "<tool_call>{5: 1}",
        '<tool_call>{"a" 1}',
        '<tool_call>{"a": 5]}',
        '<tool_call>{"a": "b" "c"}',
        "<tool_call>{}</tool_call>",
        "<tool_call> { } more",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": "f", "arg',
        "</tool_call>",
        "<tool_call",
    ],
)
def test_what_only_looked_like_a_call_is_text_in_order(text):
    assert every_cut("hermes", text) == [[TEXT, text]]


def test_a_call_behind_something_that_only_looked_like_one_is_still_found():
    text = f"<tool_call><tool_call>{F}</tool_call>"
    assert every_cut("hermes", text) == [[TEXT, "<tool_call>"], [0, "f", '{"a": 1}', True]]
    text = f'<tool_call>{{"name" <tool_call>{F}</tool_call>'
    assert every_cut("hermes", text) == [[TEXT, '<tool_call>{"name" '], [0, "f", '{"a": 1}', True]]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (G, [[0, "g", '{"b": "}"}', True]]),
        (f" <|python_tag|>{F}", [[0, "f", '{"a": 1}', True]]),
        (f"{F}; {G} ;\n{F}", [[0, "f", '{"a": 1}', True], [1, "g", '{"b": "}"}', True], [2, "f", '{"a": 1}', True]]),
        ('{"type": "function", "name": "f", "parameters": {}}', [[0, "f", "{}", True]]),
        (f"{F} done", [[0, "f", '{"a": 1}', True], [TEXT, "done"]]),
        (f'{F}; {{"x": 1}}', [[0, "f", '{"a": 1}', True], [TEXT, '{"x": 1}']]),
        ('{"name": "f", "parameters": {} oops', [[0, "f", "{}", True], [TEXT, "oops"]]),
        ('{"name": "f", "parameters": {}, "x": 1}', [[0, "f", "{}", True]]),
        ('{"name": "f", "parameters": {"a', [[0, "f", '{"a', False]]),
    ],
)
def test_bare_calls_open_the_answer_one_after_the_other(text, parts):
    assert every_cut("llama3", text) == parts


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Bob", "age": 5}',
        '{"name": "Bob"}',
        '{"title": "x", "name": "f", "parameters": {}}',
        '{"name": "Bob", "param',
        "<|python_tag|>print(1)",
        "<|python",
        "<|python_tag|>",
        f"Call {F} with it",
        " {",
        "[1]",
    ],
)
def test_an_answer_in_json_that_is_no_call_is_text(text):
    assert every_cut("llama3", text) == [[TEXT, text]]


def test_an_answer_in_json_is_shown_as_soon_as_it_can_be_no_call():
    parser = MarkerParser(FORMATS["llama3"])
    shown = ["".join(part.text for part in parser.push(piece)) for piece in ['{"ti', 'tle"', ': "a long', " story"]]
    assert shown == ["", '{"title"', ': "a long', " story"]


def test_a_call_is_announced_with_its_name_before_its_arguments_are_there():
    parser = MarkerParser(FORMATS["hermes"])
    assert parser.push('<tool_call>{"name": "get_weather", "arguments":') == []
    [name] = parser.push(' {"ci')
    assert (name.fragment.name, name.fragment.arguments) == ("get_weather", '{"ci')
    assert [part.fragment.arguments for part in parser.push('ty": "P')] == ['ty": "P']
    assert not name.ends


def test_text_is_kept_back_only_while_a_marker_is_possible():
    parser = MarkerParser(FORMATS["think+hermes"])
    pieces = ["a", " <", "tool", "x <tool_call", " y"]
    assert ["".join(part.text for part in parser.push(piece)) for piece in pieces] == [
        "a", " ", "", "<toolx ", "<tool_call y",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["nonsense", "", None, 5, ["think"]])
def test_an_unknown_format_is_refused_with_the_names_there_are(name):
    with pytest.raises(ValueError, match=r"think\+hermes"):
        markers_named(name)


def test_the_format_without_markers_is_none():
    assert markers_named("none") is None
    assert markers_named("think") is FORMATS["think"]


def test_without_tools_reasoning_is_still_told_apart_and_what_looks_like_a_call_is_text():
    assert without_calls(FORMATS["think+hermes"]) == FORMATS["think"]
    assert without_calls(FORMATS["think"]) == FORMATS["think"]
    assert [without_calls(FORMATS[name]) for name in ("none", "hermes", "llama3")] == [None] * 3
    both = Markers(reasoning=("<think>", "</think>"), bare_calls=True)
    assert without_calls(both) == FORMATS["think"]
    text = f"<tool_call>{F}</tool_call>"
    assert every_cut("think", f"<think>hm</think>{text}") == [[REASONING, "hm"], [TEXT, text]]
    assert every_cut("think", F) == [[TEXT, F]]


INGREDIENTS = [
    *["<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", F, G, "a", "é😀", "{}", "null", "5"],
    *["{", "}", "[", "]", '"', "\\", ":", ",", ";", "<", "</", " ", "\n"],
    *['{"name"', ': "f"', ', "arguments": ', '"parameters": '],
]


def soup(tape):
    cuts, in_reasoning = tape.many(lambda: tape.below(200), 6), tape.flag()
    return in_reasoning, cuts, "".join(tape.many(lambda: tape.of(INGREDIENTS), 14))


@pytest.mark.parametrize("markers", MARKED)
@given(case=inputs(32, soup))
@example(case=(False, [], f"<tool_call>{F}</tool_call>{{"))
def test_any_text_cut_anywhere_has_the_parts_of_the_whole(markers, case):
    in_reasoning, cuts, text = case
    in_reasoning = in_reasoning and FORMATS[markers].reasoning is not None
    whole = parse(markers, [text], in_reasoning)
    assert parse(markers, list(text), in_reasoning) == whole
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert parse(markers, [text[start:end] for start, end in pairwise(edges)], in_reasoning) == whole


def plain(text):
    """A text that no format takes for anything else."""
    return bool(text.strip()) and "<" not in text and text.lstrip()[0] != "{" and not text[0].isspace()


def plain_text(tape):
    text = tape.text('ab é😀{}\n"\\;:', 8, 1)
    return text if plain(text) else "a" + text


def maybe_text(tape):
    return plain_text(tape) if tape.flag() else None


def call(tape):
    values = [1, "}", '"', "</think>", [{}], None]
    return tape.text('fgé"', 4, 1), {tape.text("ab<>/", 3): tape.of(values) for _ in range(tape.size(2))}


def answer(tape):
    return maybe_text(tape), plain_text(tape), tape.flag(), tape.many(lambda: call(tape), 3)


@given(inputs(48, answer))
def test_what_a_well_behaved_model_writes_is_read_as_it_was_meant(case):
    """The oracle is the writer: it knows what it meant."""
    reasoning, text, is_prompted, called = case
    written, meant = "", []
    if reasoning is not None:
        written += ("" if is_prompted else "<think>\n") + f"{reasoning}</think>\n\n"
        meant.append([REASONING, reasoning])
    written += text
    meant.append([TEXT, text])
    for index, (name, given_arguments) in enumerate(called):
        body = json.dumps({"name": name, "arguments": given_arguments})
        written += f"<tool_call>\n{body}\n</tool_call>\n"
        meant.append([index, name, json.dumps(given_arguments), True])
    assert parse("think+hermes", list(written), is_prompted and reasoning is not None) == meant


def drafts_of(markers, text, in_reasoning):
    """Events as a stream would store them, with the calls numbered and ended."""
    calls, drafts = ToolCalls(), []
    parser = MarkerParser(FORMATS[markers], in_reasoning)
    for part in [part for character in text for part in parser.push(character)] + parser.release():
        if part.kind != TOOL_CALL:
            drafts.append(Draft(part.kind, {"text": part.text}))
        else:
            payloads = calls.complete(part.fragment.index) if part.ends else [calls.take(part.fragment)]
            drafts += [Draft(TOOL_CALL, payload) for payload in payloads]
    return drafts


def answer_that_is_cut(tape):
    kept = tape.size(150) if tape.flag() else None
    return maybe_text(tape), maybe_text(tape), tape.flag(), kept, tape.many(lambda: call(tape), 2)


@pytest.mark.parametrize("markers", MARKED)
@given(case=inputs(48, answer_that_is_cut))
def test_spelling_events_and_reading_them_again_gives_the_same(markers, case):
    """For engines that carry on from text: what was shown, spelled, leads to the state that showed it."""
    reasoning, text, is_prompted, kept, called = case
    written = ""
    in_reasoning = is_prompted and reasoning is not None and FORMATS[markers].reasoning is not None
    if reasoning is not None and FORMATS[markers].reasoning is not None:
        written += ("" if in_reasoning else "<think>") + f"{reasoning}</think>"
    if markers == "llama3":
        written += "; ".join(json.dumps({"name": name, "parameters": given}) for name, given in called)
        written += text or ""
    else:
        written += text or ""
        if FORMATS[markers].calls is not None:
            for name, given in called:
                written += f"<tool_call>{json.dumps({'name': name, 'arguments': given})}</tool_call>"
    shown = drafts_of(markers, written[:kept], in_reasoning)
    again = drafts_of(markers, spelled(FORMATS[markers], [Draft(STARTED, {}), *shown], in_reasoning), in_reasoning)
    assert joined(again) == joined(shown)


def joined(drafts):
    result = []
    for draft in drafts:
        payload = draft.payload
        if draft.kind == TOOL_CALL:
            if "name" in payload:
                result.append([payload["call_id"], payload["name"], ""])
            result[-1][2] += payload["arguments"]
            if payload["complete"]:
                result.append(["ended", payload.get("error")])
        elif result and result[-1][0] == draft.kind:
            result[-1][1] += payload["text"]
        else:
            result.append([draft.kind, payload["text"]])
    return result
