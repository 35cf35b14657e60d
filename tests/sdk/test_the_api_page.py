"""docs/api.md says what is so: its table is the one that the judges prove, its snippets run, its fields exist."""

import json
import os
import re
import subprocess
import sys

import pytest

from streaming.api import anthropic_schema, chat_schema, responses_schema
from tests.child import ROOT
from tests.sdk.clients_table import BEGIN, END, PAGE, table

TEXT = PAGE.read_text()


def snippets(language, of_batches=False):
    """Those of batches are run where there is a worker, in test_batches.py."""
    found = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return [text for text in found if ("batches" in text) == of_batches]


def test_the_table_of_clients_is_what_the_judges_prove():
    assert TEXT.partition(BEGIN)[2].partition(END)[0] == table()


@pytest.mark.parametrize(
    ("heading", "body", "ignored"),
    [
        ("### Chat completions", chat_schema.ChatRequest, chat_schema.IGNORED),
        ("### Responses", responses_schema.ResponsesRequest, responses_schema.IGNORED),
        ("### Messages", anthropic_schema.AnthropicRequest, anthropic_schema.IGNORED),
    ],
)
def test_every_field_that_is_taken_is_named_and_no_other(heading, body, ignored):
    section = TEXT.partition(f"{heading}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    taken, _, rest = section.partition("Ignored: ")
    without_effect = set(re.findall(r"`([a-z_]+)`", rest.partition("\n")[0]))
    assert without_effect == set(ignored)
    cells = " ".join(line.split("|")[1] for line in taken.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z_]+)`", cells)) == set(body.model_fields) - set(ignored)


@pytest.mark.engine
@pytest.mark.parametrize("index", range(len(snippets("python"))))
def test_the_python_snippets_run(place, index):
    env = os.environ | {"URL": place.url, "KEY": place.key, "MODEL": "smollm2", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", snippets("python")[index]], env=env, capture_output=True, text=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.engine
@pytest.mark.parametrize("index", range(len(snippets("javascript"))))
def test_the_javascript_snippets_run(place, node_packages, tmp_path, index):
    env = os.environ | {"URL": place.url, "KEY": place.key, "MODEL": "smollm2"}
    done = subprocess.run(
        ["node", "--input-type=module", "-e", snippets("javascript")[index]], env=env, cwd=ROOT / "tests" / "sdk",
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.engine
@pytest.mark.parametrize("index", range(len(snippets("sh"))))
def test_the_curl_snippets_run(place, index):
    env = os.environ | {"URL": place.url, "KEY": place.key, "MODEL": "smollm2"}
    done = subprocess.run(
        ["sh", "-ec", snippets("sh")[index]], env=env, capture_output=True, text=True, timeout=90, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert '"error": {' not in done.stdout
    for line in done.stdout.splitlines():
        if line.startswith("data: {"):
            assert "error" not in json.loads(line.removeprefix("data: "))
