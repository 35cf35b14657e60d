"""What a request with tools or a schema becomes for an engine, and what an engine that cannot do it is never asked."""

import pytest

from streaming.engine.registry import bundle_for, engine_for
from streaming.engine.tokenizer import TokenizerBundle
from streaming.ownership import prompting
from streaming.ownership.ask import Ask, Refused
from streaming.ownership.constraints import constraint
from streaming.ownership.stream_options import stream_options
from streaming.protocol.policy import parse_policy

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OTHER = {"type": "function", "function": {"name": "g"}}


class Able:
    can_constrain, takes_tools = True, False


class Unable:
    can_constrain, takes_tools = False, False


class Hosted:
    can_constrain, takes_tools = True, True


def ask(**fields) -> Ask:
    return Ask(
        user_id=1, purpose="api", dialect="openai_chat", stream=True, model="scripted",
        messages=[{"role": "user", "content": "?"}], policy=parse_policy("abort", 3600), **fields,
    )  # fmt: skip


def names(schema):
    return [schema["properties"]["name"]["const"]]


def test_a_named_call_is_held_to_its_own_schema_and_a_required_one_to_any_of_them():
    named = constraint(ask(tools=[TOOL, OTHER], tool_choice="g"), Able(), {})
    assert names(named) == ["g"]
    assert named["properties"]["arguments"] == {"type": "object"}
    both = constraint(ask(tools=[TOOL, OTHER], tool_choice="required"), Able(), {})
    assert [names(one) for one in both["anyOf"]] == [["f"], ["g"]]


def with_definitions(name, kind):
    parameters = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": kind}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_definitions_move_to_where_their_references_point():
    same = [with_definitions("f", "string"), with_definitions("g", "string")]
    schema = constraint(ask(tools=same, tool_choice="required"), Able(), {})
    assert schema["$defs"] == {"A": {"type": "string"}}
    assert "$defs" not in schema["anyOf"][0]["properties"]["arguments"]
    with pytest.raises(Refused, match="differently") as refused:
        constraint(ask(tools=[same[0], with_definitions("g", "null")], tool_choice="required"), Able(), {})
    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"json_schema": {"type": "object"}}, "response_format"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "f"}, "tool_choice"),
        ({"tools": [TOOL]}, "tools"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_and_names_the_field(fields, param):
    with pytest.raises(Refused) as refused:
        constraint(ask(**fields), Unable(), {"markers": "think"})
    assert (refused.value.status, refused.value.param) == (400, param)


def test_an_engine_that_takes_tools_itself_gets_them_as_they_are():
    assert constraint(ask(tools=[TOOL]), Hosted(), {}) is None
    assert constraint(ask(tools=[TOOL], tool_choice="required"), Hosted(), {}) is None
    assert constraint(ask(tools=[TOOL]), Able(), {"markers": "llama3"}) is None


def markers_for(stored, markers="think+hermes"):
    options = stream_options(
        {"markers": markers}, TokenizerBundle.bytes_only(), [1], "resp_X", asked=stored, stops=(), max_tokens=9
    )
    return options.get("markers")


def test_calls_are_looked_for_only_where_there_were_tools():
    assert markers_for({"tools": True}).calls
    assert markers_for({}).calls is None
    assert markers_for({}).reasoning
    assert markers_for({}, "hermes") is None
    assert markers_for({}, "llama3") is None
    assert markers_for({"constrained": True}) is None
    assert markers_for({"tools": True, "must_call": True, "constrained": True}).bare_calls


def test_the_flags_of_a_request_are_what_its_row_keeps():
    assert ask(options={"include_usage": True}).stored_options == {"include_usage": True}
    assert ask(tools=[TOOL]).stored_options == {"tools": True}
    assert ask(json_schema={}).stored_options == {"constrained": True}
    held = {"tools": True, "must_call": True, "constrained": True}
    assert ask(tools=[TOOL], tool_choice="f").stored_options == held


async def test_the_engine_gets_the_schema_and_the_prompt_the_tools(bench, engine, row):
    row.options = {"markers": "hermes"}
    await bench.ask({"outputs": [{"text": "{}"}]}, json_schema={"type": "object"}, sampling={"top_k": 3})
    await engine.until(lambda e: e.requests)
    assert engine.requests[0].sampling.json_schema == {"type": "object"}
    assert engine.requests[0].sampling.top_k == 3
    prompt = await prompting.fit(ask(tools=[TOOL]), row, 100)
    assert '"name": "f"' in bundle_for(row).tokenizer.decode(list(prompt.token_ids))
    assert len(prompt.token_ids) > len((await prompting.fit(ask(), row, 100)).token_ids)


async def test_a_template_is_told_whether_to_think(row, monkeypatch):
    seen = []
    real = prompting.render_prompt
    monkeypatch.setattr(prompting, "render_prompt", lambda *a, **options: seen.append(options) or real(*a, **options))
    for thinking in (True, False, None):
        await prompting.fit(ask(thinking=thinking), row, 100)
    told = [options.get("variables") for options in seen]
    assert told == [{"enable_thinking": True}, {"enable_thinking": False}, None]


@pytest.mark.parametrize(
    ("sampling", "param"), [({"min_tokens": 8}, "min_tokens"), ({"logit_bias": {5: 1.0, 258: 1.0}}, "logit_bias")]
)
async def test_what_is_known_to_break_engines_never_gets_there(row, sampling, param):
    with pytest.raises(Refused) as refused:
        await prompting.fit(ask(sampling=sampling, max_tokens=7), row, 100)
    assert refused.value.param == param
    assert engine_for(row).requests == []
