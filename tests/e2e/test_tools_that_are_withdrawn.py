"""A site that offers a tool no more while answers are amid it: they end, it is not run, and nobody is locked out.

Costs about 7 s.
"""

import contextlib
import json
from typing import NamedTuple

import pytest

from tests.e2e.reading import eventually, read
from tests.e2e.site import Site
from tests.e2e.test_answers_amid_a_tool import (
    NOT_YET,
    NUMBERS,
    Asked,
    Marks,
    call,
    closing_of,
    items,
    question,
    scripted,
)
from tests.e2e.test_the_page_api import ask

NOT_RUN = "There is no tool 'wait'. There are: calculate."
#: Where an answer is when its process dies, and what its call has given in the end.
PLACES = {"in_round_1": NOT_RUN, "in_the_tool": NOT_RUN, "in_round_2": "I have waited"}


class Amid(NamedTuple):
    """An answer that is at that place."""

    place: str
    tool: Marks
    asked: Asked
    response_id: str


@pytest.fixture
def offering(tmp_path, model_dir):
    """A site of its own; what it offers is told to it at its next start."""
    env = {"DJANGO_SETTINGS_MODULE": "tests.e2e.waiting_settings", "TOOL_TIMEOUT_S": "60"}
    site = Site(tmp_path, model_dir, PAGE_TOOLS="calculate,wait", **env)
    site.migrate()
    site.scripted(markers="hermes")
    for place in PLACES:
        play(site, place, [*NUMBERS[:2], NOT_YET, *NUMBERS[2:]])
    site.start()
    yield site
    site.stop()


def play(site, place, numbers):
    """The site's engine of this place counts amid what it says in that round."""
    before = numbers if place == "in_round_1" else []
    after = numbers if place == "in_round_2" else NUMBERS
    waits = call("wait", say="I have waited", until=place)
    site.scripted(place, markers="hermes", script=scripted(*before, waits, then=[{"text": "It "}, *after]))


def begun(site, place):
    """Ask, and come to the place."""
    tool = Marks(site.data_dir, place)
    asked = Asked(site, "?", model=place, headers={"Idempotency-Key": place})
    response_id = asked.response_id
    if place != "in_round_1":
        tool.began()
    if place == "in_round_2":
        tool.go()
    seen = {"in_round_1": "Let me see. 0 1 ", "in_the_tool": "Let me see. ", "in_round_2": "It 0 1 "}[place]
    eventually(lambda: seen in site.log_text(response_id), pause_s=0.005)
    return Amid(place, tool, asked, response_id)


def test_answers_amid_it_go_on_without_it_and_their_conversations_too(offering):
    amid = [begun(offering, place) for place in ("in_the_tool", "in_round_1", "in_round_2")]
    offering.kill()
    cuts = [one.asked.result() for one in amid]
    assert all(cut.broke for cut in cuts)
    for place in PLACES:
        play(offering, place, NUMBERS)
    offering.env["PAGE_TOOLS"] = "calculate"
    offering.start()
    with contextlib.closing(offering.page("ann")) as ann:
        for one, cut in zip(amid, cuts, strict=True):
            whole = read(ann, "GET", f"/api/responses/{one.response_id}/stream")
            response = closing_of(whole)
            assert (response["status"], whole.text[: len(cut.text)]) == ("completed", cut.text)
            told = [item[1] for item in items(response) if item[0] == "function_call_output"]
            assert told == [PLACES[one.place]]
            ran = offering.data_dir / f"{one.place}.began"
            assert (ran.read_text() if ran.exists() else "") == ("" if one.place == "in_round_1" else ".")
            goes_on(ann, one, whole)
    assert offering.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL") == [(0,)]


def goes_on(ann, one, whole):
    """Who repeats a question gets its answer; who asks for the tool is refused in words, who does not is answered."""
    chat, key = one.asked.chat, {"Idempotency-Key": one.place}
    again = ask(ann, chat, "?", model=one.place, run_tools=["calculate", "wait"], headers=key)
    assert (again.status, again.response_id, again.text) == (200, one.response_id, whole.text)
    refused = ask(ann, chat, "and now?", run_tools=["wait"])
    error = json.loads(refused.raw)["error"]
    assert (refused.status, error["param"]) == (400, "run_tools.0")
    assert error["message"] == 'run_tools.0: must be a tool that this site offers: calculate (got "wait")'
    assert closing_of(ask(ann, chat, question(call("calculate", expression="6*7"))))["status"] == "completed"
