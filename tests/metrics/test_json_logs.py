"""Lines of JSON: one for each response that ended, none with a word of what was said, whatever went wrong. 3 s."""

import io
import json
import logging

import pytest
from django.db import IntegrityError, OperationalError

from chatsite.json_log import JsonFormatter
from streaming.engine.base import EngineError
from streaming.metrics.finished import logger as ended_logger
from streaming.metrics.user_hash import user_hash
from streaming.ownership.stop import stop
from streaming.store import responses, threads
from tests.stream.conftest import until_stored

MARK = "mauve-badger-47"


class Lines:
    """What the handler of the site would have written."""

    def __init__(self):
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JsonFormatter())
        self.handler.setLevel("INFO")

    @property
    def all(self) -> list[dict]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def ended(self) -> list[dict]:
        return [line for line in self.all if line["logger"] == "streaming.ended"]


@pytest.fixture
def lines(monkeypatch):
    """Every logger's lines, down to the chattiest."""
    lines, root = Lines(), logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers, lines.handler])
    monkeypatch.setattr(root, "level", logging.DEBUG)
    ended_logger.setLevel("INFO")
    yield lines
    ended_logger.setLevel("WARNING")


async def test_each_end_is_one_line_with_figures_and_a_hash_for_the_user(bench, lines):
    response, tail = await bench.ask({"outputs": [{"text": "a"}], "repeat": 5})
    await bench.ended(response)
    other, tail = await bench.ask({"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002})
    await until_stored(tail, lambda tail: tail.sent_tokens > 3)
    await stop(bench.owner, other, "user")
    row = await bench.ended(other)
    first, second = lines.ended()
    assert (first["response_id"], second["response_id"]) == (response.id, other.id)
    assert (second["end_state"], second["end_reason"], second["abort_proven"]) == ("cancelled", "user", True)
    for name in ("generated_tokens", "sent_tokens", "delivered_tokens", "queue_ms", "stop_ms", "itl_p50_ms", "model"):
        assert second[name] == getattr(row, name)
    assert first["user_hash"] == second["user_hash"] == user_hash(bench.user.pk)
    assert "user_id" not in second
    assert second["total_ms"] > 0
    assert second["attempts"] == 1
    assert second["time"].endswith("+00:00")


def test_a_user_hash_is_the_same_for_one_and_says_nothing_without_the_key(settings):
    assert user_hash(None) is None
    assert len({user_hash(n) for n in range(100)}) == 100
    before = user_hash.__wrapped__(5)
    settings.SECRET_KEY = "another" * 10
    assert user_hash.__wrapped__(5) != before


@pytest.mark.parametrize(
    "script",
    [
        {"outputs": [{"text": f"{MARK} "}], "repeat": 4},
        {"outputs": [{"text": MARK}], "repeat": 0, "fault": {"kind": "error", "after": 2, "times": 9}},
        {"outputs": [{"text": MARK}], "repeat": 0, "fault": {"kind": "raise", "after": 2, "times": 9}},
    ],
    ids=["whole", "engine fails", "engine breaks"],
)
async def test_no_word_of_prompt_or_answer_is_logged(bench, lines, script):
    await bench.ended((await bench.ask({**script, "note": MARK}))[0])
    assert len(lines.ended()) == 1
    assert MARK not in lines.stream.getvalue()


async def test_no_word_of_a_row_that_cannot_be_stored_is_logged(bench, lines, monkeypatch):
    def refuses(response_id, epoch, seq, ending):
        raise IntegrityError(f"Failing row contains ({ending.figures['output_text']})")

    monkeypatch.setattr(responses, "end", refuses)
    response, tail = await bench.ask({"outputs": [{"text": f"{MARK} "}], "repeat": 4})
    await bench.owner.ended(response.id)
    monkeypatch.undo()
    written = lines.stream.getvalue()
    assert "IntegrityError" in written
    assert response.id in written
    assert MARK not in written


def line_of(message, *arguments, exc_info=None) -> dict:
    record = logging.LogRecord("streaming.x", logging.ERROR, __file__, 1, message, arguments, exc_info)
    return json.loads(JsonFormatter().format(record))


def test_an_error_is_its_type_and_place_and_its_cause():
    try:
        try:
            json.loads(f'{{"arguments": "{MARK}')
        except ValueError as cause:
            raise KeyError(MARK) from cause
    except KeyError as error:
        line = line_of("relay of %s failed", "resp_01M8N63AQQ36X083REVMGZVSR0", exc_info=(KeyError, error, None))
    assert line["response_id"] == "resp_01M8N63AQQ36X083REVMGZVSR0"
    assert line["error"]["type"] == "KeyError"
    assert line["error"]["cause"]["type"] == "JSONDecodeError"
    assert any("test_json_logs.py" in place for place in line["error"]["trace"])
    assert MARK not in json.dumps(line)


def test_words_are_kept_of_errors_that_never_quote_and_of_no_other():
    line = line_of("storing failed, trying again: %s", OperationalError("could not connect"))
    assert line["message"] == "storing failed, trying again: could not connect"
    line = line_of("engine failed: %s", EngineError("upstream_lost", "It is gone."), exc_info=None)
    assert line["message"] == "engine failed: It is gone."
    assert line_of("exception: %s", ValueError(MARK))["message"] == "exception: ValueError"
    assert line_of("got %r", {"text": MARK})["message"] == "got '<dict>'"
    assert line_of("got %(what)s", {"what": [MARK]})["message"] == "got <list>"
    assert line_of(f"Task exception was never retrieved\nfuture: {MARK}")["message"].endswith("retrieved")
    assert line_of(ValueError(MARK))["message"] == "ValueError"
    assert line_of("%d of %d", "wrong")["message"] == "%d of %d"


async def test_refusals_speak_of_a_user_by_the_hash_only(bench, lines, monkeypatch, settings):
    from django.test import AsyncRequestFactory

    from streaming.api.errors import ApiError
    from streaming.api.refusals import record

    settings.REJECTED_ROWS_PER_MINUTE = 0
    await record(AsyncRequestFactory().post("/v1/responses"), 987654, None, ApiError(429, "no", code="rate_limited"))
    (line,) = [line for line in lines.all if "refused" in line["message"]]
    assert user_hash(987654) in line["message"]
    assert "987654" not in line["message"]


def test_the_site_writes_json_where_it_is_told_to_and_refuses_another_word(site_settings):
    logging_of, error = site_settings(LOG_FORMAT="json")
    assert logging_of["handlers"]["stderr"]["formatter"] == "json"
    assert logging_of["loggers"]["streaming.ended"]["level"] == "INFO"
    logging_of, error = site_settings()
    assert logging_of["handlers"]["stderr"]["formatter"] == "line"
    assert logging_of["loggers"]["streaming.ended"]["level"] == "WARNING"
    logging_of, error = site_settings(LOG_FORMAT="xml")
    assert "LOG_FORMAT must be line or json, not 'xml'" in error
    logging_of, error = site_settings(METRICS_TOKEN="short")
    assert "METRICS_TOKEN must have at least 16 characters" in error


async def test_no_word_of_a_call_that_makes_no_sense_is_logged(bench, row, lines):
    row.options = {"markers": "hermes"}
    await threads.write(row.save)
    await bench.owner.pool.refresh(force=True)
    call = f'<tool_call>{{"name": "{MARK}", "arguments": {{"{MARK}": </tool_call>'
    response, _ = await bench.ask(
        {"outputs": [{"text": call}]}, tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]
    )
    await bench.ended(response)
    assert len(lines.ended()) == 1
    assert MARK not in lines.stream.getvalue()


def test_an_error_keeps_its_type_where_its_message_is_formatted_into_the_line():
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "%s: %s", ("a", KeyError(MARK)), None)
    assert json.loads(JsonFormatter().format(record))["message"] == "a: KeyError"
