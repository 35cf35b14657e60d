"""A failed answer says so in plain words, keeps its text, and Retry replaces it. The engine is a server that breaks."""

import subprocess
import sys

import httpx
import pytest
from playwright.sync_api import expect

from tests.child import ROOT
from tests.e2e.reading import until_offered

WELL = {"eos_after": 12, "rate": 200}


@pytest.fixture(scope="module")
def engine(site, person, model_dir):
    """Sets how the engine behind the model "tests-faulty" breaks."""
    command = [sys.executable, "-m", "tests.fault_engine", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{int(process.stdout.readline())}"
    site.manage(
        "add_engine", "--kind", "llamacpp", "--url", url, "--model", "tests-faulty", "--name", "tests-faulty",
        "--tokenizer", str(model_dir / "smollm2"),
    )  # fmt: skip
    until_offered(person("bea"), "tests-faulty")
    yield lambda **faults: httpx.post(f"{url}/_control", json=faults, timeout=60).raise_for_status()
    process.terminate()
    process.wait(60)


@pytest.fixture
def chat(open_chat, engine):
    chat = open_chat()
    chat.choose("tests-faulty")
    return chat


def test_a_failure_before_the_first_token_is_told_and_retry_replaces_it(site, chat, engine):
    chat.watch.allow("Failed to load resource: the server responded with a status of 50")
    engine(status=500)
    chat.ask("Will it work?")
    chat.ends("errored")
    expect(chat.error_card).to_contain_text("Trying again may help")
    assert chat.text == ""
    failed = chat.response_id
    engine(**WELL)
    retry_replaces(chat, failed)
    assert [site.row(r)["end_state"] for r in (failed, chat.response_id)] == ["errored", "completed"]
    chat.reload()
    expect(chat.answers).to_have_count(1)
    expect(chat.questions).to_have_count(1)


@pytest.mark.parametrize(
    ("fault", "state", "title"),
    [("error_after", "errored", "The model reported an error"), ("die_after", "truncated", "The answer was cut off")],
)
def test_a_failure_amid_the_text_keeps_it_and_retry_replaces_it(site, chat, engine, fault, state, title):
    engine(rate=100, **{fault: 10})
    chat.ask("Will it work?")
    chat.ends(state)
    expect(chat.error_card).to_contain_text(title)
    expect(chat.error_card).to_contain_text("What was written so far is kept.")
    failed, kept = chat.response_id, chat.text
    assert kept.split() == site.row(failed)["output_text"].split()
    assert kept
    chat.reload()
    expect(chat.error_card).to_contain_text(title)
    assert chat.text == kept
    engine(**WELL)
    retry_replaces(chat, failed)
    chat.page.get_by_role("button", name="Previous answer").click()
    expect(chat.newest).to_have_attribute("data-response-id", failed)
    expect(chat.markdown).to_have_text(kept)


def retry_replaces(chat, failed):
    chat.newest.get_by_test_id("retry").click()
    chat.ends()
    expect(chat.answers).to_have_count(1)
    expect(chat.questions).to_have_count(1)
    expect(chat.error_card).to_have_count(0)
    assert chat.response_id != failed
    assert len(chat.text.split()) >= 10


def test_a_dead_server_is_told_before_anything_is_sent(site, open_chat):
    chat = open_chat()
    chat.watch.allow("Failed to load resource: net::ERR_|WebSocket connection to")
    site.kill()
    chat.ask("Is anybody there?")
    chat.ends("rejected")
    expect(chat.error_card).to_contain_text("The server could not be reached")
    site.start()
    chat.newest.get_by_test_id("retry").click()
    chat.ends()
    expect(chat.questions).to_have_count(1)
    assert chat.text.startswith("You asked: Is anybody there?")
