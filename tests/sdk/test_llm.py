"""The `llm` command against the real site, as a person types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.conftest import BREAKS_AFTER, BREAKS_BEFORE, CALLS, HELLO, JSON

judge = pytest.mark.judge


@pytest.fixture
def llm(place, tmp_path):
    models = [{
        "model_id": "site", "model_name": "tests-judged", "api_base": place.url, "api_key_name": "site",
        "supports_tools": True, "supports_schema": True,
    }]  # fmt: skip
    # YAML reads JSON.
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))
    (tmp_path / "keys.json").write_text(json.dumps({"site": place.key}))

    def run(*argv):
        command = [str(Path(sys.executable).with_name("llm")), "-m", "site", *argv]
        return subprocess.run(
            command, env=os.environ | {"LLM_USER_PATH": str(tmp_path)}, capture_output=True, text=True, timeout=120,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


@judge("llm", "stream")
@judge("llm", "whole")
@judge("llm", "usage")
def test_it_streams_and_answers_whole(llm):
    for options in ((), ("--no-stream",)):
        done = llm(HELLO, "--usage", *options)
        assert done.stdout.strip() == "Hello ☕", done.stderr
        assert f"{len('Hello ☕'.encode())} output" in done.stderr


@judge("llm", "tools")
def test_it_runs_tools(llm):
    function = "def get_weather(city: str) -> str:\n    'The weather.'\n    return '18 degrees'"
    done = llm(CALLS, "--functions", function, "--td", "--chain-limit", "2")
    assert "get_weather" in done.stderr
    assert "18 degrees" in done.stderr


@judge("llm", "structured")
def test_structured_output_is_json(llm):
    done = llm(JSON, "--schema", "name, age int")
    assert json.loads(done.stdout) == {"name": "Ada", "age": 36}, done.stderr


@judge("llm", "error before")
@judge("llm", "error after")
def test_errors_are_failures_of_the_command(llm):
    before = llm(BREAKS_BEFORE)
    assert (before.returncode, "502" in before.stderr or "upstream" in before.stderr) == (1, True), before.stderr
    after = llm(BREAKS_AFTER)
    assert (after.returncode, after.stdout.strip()) == (1, "ab"), after.stderr
