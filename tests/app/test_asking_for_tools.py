"""Which of the page's own tools an answer may call: names from the list, once each, alone. Costs about 3 s."""

import re

import pytest

from streaming.api import messages, refusals
from streaming.models import Conversation, Response
from streaming.ownership.ask import Refused
from streaming.ownership.own_tools import check_offered

pytestmark = pytest.mark.django_db(transaction=True)

ALL = ["calculate", "current_time", "search_conversations"]
FUNCTION = {"type": "function", "function": {"name": "f"}}


@pytest.fixture
def asked(page1, u1, engine, monkeypatch):
    """Posts a question; the Ask that it makes goes no further. Returns the answer and that Ask."""
    chat = Conversation.objects.create(user=u1, model="demo")
    reached = []

    async def reach(_request, ask, _before):
        try:
            check_offered(ask.run_tools)
        except Refused as refused:
            raise refusals.as_error(refused) from None
        reached.append(ask)
        return messages.HttpResponse(status=299)

    monkeypatch.setattr(messages, "attach_or_start", reach)

    def ask(**body):
        reached.clear()
        answer = page1.post(
            f"/api/conversations/{chat.id}/messages", {"text": "hi", **body}, content_type="application/json"
        )
        return answer, reached[0] if reached else None

    return ask


@pytest.mark.parametrize("names", [[], ["calculate"], ALL, ALL[::-1], None])
def test_tools_that_are_offered_are_what_the_answer_may_call(asked, names):
    answer, ask = asked(run_tools=names)
    assert answer.status_code == 299
    assert ask.run_tools == tuple(names or ())
    assert not ask.tools


@pytest.mark.parametrize(
    ("names", "field", "says"),
    [
        (["shell"], "run_tools.0", f'must be a tool that this site offers: {", ".join(ALL)} (got "shell")'),
        (["calculate", "x" * 10_000], "run_tools.1", f'(got "{"x" * 80}"…)'),
        (["calculate"] * 2, "run_tools", "each tool at most once, not calculate, calculate (got an array of 2 items)"),
        (["calculate"] * 17, "run_tools", "at most 16 items"),
        ("calculate", "run_tools", '(got "calculate")'),
        ([1], "run_tools.0", "(got 1)"),
        ([None], "run_tools.0", "(got null)"),
        ([["calculate"]], "run_tools.0", "(got an array of 1 items)"),
        ({"calculate": True}, "run_tools", "(got an object with 1 keys)"),
        (["\ud800"], None, ""),
        (["calculate\0"], None, ""),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_field_limit_and_value(asked, names, field, says):
    answer, ask = asked(run_tools=names)
    assert (answer.status_code, ask) == (400, None)
    error = answer.json()["error"]
    assert says in error["message"]
    assert field is None or (error["param"] == field and error["message"].startswith(f"{field}: "))
    assert [response.end_state for response in Response.objects.all()] == ["rejected"]


@pytest.mark.parametrize(
    ("other", "body"),
    [
        ("tools", {"tools": [FUNCTION]}),
        ("response_format", {"response_format": {"type": "json_object"}}),
        ("continues", {"text": None, "continues": "msg_1"}),
    ],
)
def test_what_ends_or_holds_an_answer_excludes_tools_that_are_run(asked, other, body):
    answer, ask = asked(run_tools=["calculate"], **body)
    error = answer.json()["error"]
    assert (answer.status_code, ask, error["param"]) == (400, None, "run_tools")
    assert error["message"] == f"run_tools: not together with {other}: leave one of them out (got an array of 1 items)"
    if other != "continues":
        assert asked(run_tools=[], **body)[0].status_code == 299


def test_a_tool_that_is_offered_no_more_is_refused(asked, settings):
    settings.PAGE_TOOLS = ["current_time"]
    answer, _ = asked(run_tools=["calculate"])
    assert "must be a tool that this site offers: current_time (got" in answer.json()["error"]["message"]
    settings.PAGE_TOOLS = []
    answer, _ = asked(run_tools=["calculate"])
    assert "must be a tool that this site offers: it offers none (got" in answer.json()["error"]["message"]


def test_another_choice_of_tools_is_another_request(asked):
    prints = {asked(run_tools=names)[1].request_sha256 for names in (None, ["calculate"], ALL)}
    assert len(prints) == 3
    assert asked(run_tools=ALL)[1].request_sha256 in prints


def test_the_page_is_told_what_is_offered(page1, settings, monkeypatch):
    monkeypatch.setattr(
        "streaming.views.pages.render", lambda _request, _name, context: messages.HttpResponse(str(context))
    )
    settings.PAGE_TOOLS = ["calculate"]
    assert re.search(r"'tools': \['calculate'\]", page1.get("/").content.decode())


def test_the_api_has_no_tools_of_the_sites(key1, client, engine):
    for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages"):
        body = {
            "model": "demo",
            "messages": [{"role": "user", "content": "hi"}],
            "input": "hi",
            "run_tools": ["calculate"],
        }
        answer = client.post(path, body, content_type="application/json", headers={"Authorization": f"Bearer {key1}"})
        assert answer.status_code == 400
