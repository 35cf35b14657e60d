"""One call is run for whom it may, as long as it may, with as much output as fits; what goes wrong is a result.

Costs about 4 s.
"""

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from django.core.exceptions import ImproperlyConfigured

from deploy.setup.places import ROOT
from streaming import tools
from streaming.tools import catalogue
from streaming.tools.running import fitting
from streaming.tools.tool import Tool, ToolFailed, parameters


@pytest.fixture
def provided(monkeypatch, settings):
    """Puts a tool of the test's own, named t, into the catalogue."""

    def provide(call, schema=None):
        monkeypatch.setitem(catalogue.TOOLS, "t", Tool("t", "A test's.", schema or parameters(), call))
        settings.PAGE_TOOLS = ["t"]

    return provide


def test_all_tools_are_on_offer_and_told_as_templates_know_them():
    assert tools.available() == ["calculate", "current_time", "search_conversations"]
    for definition in tools.definitions(tools.available()):
        function = definition["function"]
        assert definition["type"] == "function"
        assert function["description"]
        assert function["parameters"]["type"] == "object"


def test_a_tool_that_is_no_longer_offered_is_not_told(settings):
    settings.PAGE_TOOLS = ["calculate"]
    assert [d["function"]["name"] for d in tools.definitions(["calculate", "current_time", "x"])] == ["calculate"]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["calculate", "shell"], r"^PAGE_TOOLS: there is no tool 'shell'; there are calculate, current_time, search_"),
        (["calculate", "calculate"], "^PAGE_TOOLS names a tool twice: calculate, calculate$"),
    ],
)
def test_a_list_of_tools_that_there_are_not_is_refused_at_the_start(settings, names, says):
    settings.PAGE_TOOLS = names
    with pytest.raises(ImproperlyConfigured, match=says):
        tools.check_settings()


def test_a_site_with_such_a_list_does_not_start():
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env={**os.environ, "PAGE_TOOLS": "shell"}, cwd=ROOT, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "PAGE_TOOLS: there is no tool 'shell'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["shell", "", "calculate ", "Calculate", "x" * 1_000_000, "\ud800", "\0"])
async def test_an_unknown_name_runs_nothing_and_says_what_there_is(called, name):
    result = await called(name, {"expression": "1"})
    assert result.error == "unknown_tool"
    assert result.output.endswith("There are: calculate, current_time, search_conversations.")
    assert len(result.output) < 200
    result.output.encode()


async def test_a_tool_that_was_not_asked_for_or_is_not_offered_is_unknown(called, settings):
    assert (await called("calculate", {"expression": "1"}, names=["current_time"])).error == "unknown_tool"
    settings.PAGE_TOOLS = ["current_time"]
    assert (await called("calculate", {"expression": "1"}, names=["calculate"])).error == "unknown_tool"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "expression: this field is required"),
        ({"expression": 7}, "expression: must be a string (got 7)"),
        ({"expression": None}, "expression: must be a string (got None)"),
        ({"expression": True}, "expression: must be a string (got True)"),
        ({"expression": ["1"]}, "expression: must be a string (got an array of 1 items)"),
        ({"expression": {"a": 1}}, "expression: must be a string (got an object with 1 keys)"),
        ({"expression": ""}, "expression: at least 1 characters (got 0)"),
        ({"expression": "1" * 1_000_000}, "expression: at most 400 characters (got 1000000)"),
        ({"expression": "1", "x": 2}, "'x': unknown field; there are expression"),
        ({"expression": "1", "x" * 1_000_000: 2}, "…: unknown field; there are expression"),
        ({"expression": "1", "\ud800": 2}, "unknown field; there are expression"),
        ({"expression": "1\0"}, "expression: NUL is not allowed in text"),
        ({"expression": "1\udfff"}, "expression: half a character is no text"),
        ({"expression": 10**1000}, "expression: must be a string (got 1000000"),
    ],
)
async def test_wrong_arguments_run_nothing_and_are_told_with_field_limit_and_value(
    called, monkeypatch, arguments, says
):
    monkeypatch.setattr("streaming.tools.calculate.evaluate", None)
    result = await called("calculate", arguments)
    assert result.error == "invalid_arguments"
    assert says in result.output
    assert len(result.output.encode()) < 200


async def test_a_tool_that_hangs_is_cancelled_and_leaves_nothing_behind(called, provided, settings):
    cancelled = []

    async def hang(_user_id, _arguments):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    provided(hang)
    settings.TOOL_TIMEOUT_S = 0.01
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    result = await called("t", {})
    assert (result.error, result.output) == ("timed_out", "The tool t took longer than 0.01 seconds and was stopped.")
    assert cancelled == [True]
    # One of another test may have ended meanwhile.
    assert set(threading.enumerate()) <= threads
    assert asyncio.all_tasks() == tasks


async def test_who_runs_a_tool_can_end_it(called, provided):
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(_user_id, _arguments):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    provided(hang)
    running = asyncio.ensure_future(called("t", {}))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


@pytest.mark.parametrize("error", [ValueError("secret"), TimeoutError("secret"), RecursionError(), KeyError("secret")])
async def test_a_tool_that_raises_has_failed_and_says_no_more(called, provided, error):
    async def fail(_user_id, _arguments):
        raise error

    provided(fail)
    assert (await called("t", {}))[1:] == ("The tool t failed.", "failed")


async def test_a_tool_says_itself_why_it_has_no_result(called, provided):
    async def fail(_user_id, _arguments):
        raise ToolFailed("no such thing")

    provided(fail)
    assert (await called("t", {}))[1:] == ("no such thing", "failed")


async def test_output_over_the_cap_is_cut_between_characters_and_says_so(called, provided, settings):
    async def talk(_user_id, _arguments):
        return "☕🙂é" * 1_000_000

    provided(talk)
    for limit in range(256, 268):
        settings.TOOL_OUTPUT_BYTES = limit
        result = await called("t", {})
        assert result.error is None
        assert limit - 4 < len(result.output.encode()) <= limit
        assert result.output.endswith(f"\n[cut: 9000000 bytes in all, at most {limit} are given]")
        assert set(result.output.partition("\n")[0]) <= set("☕🙂é")


def test_output_that_fits_stays_as_it_is_but_for_what_no_database_takes():
    assert fitting("☕" * 100, 300) == "☕" * 100
    assert fitting("a\0b\ud800c\ud83d\ude42", 300) == "a\ufffdb\ufffdc🙂"
