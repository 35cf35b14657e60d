"""Doorbells between two real web processes over a real Valkey: they make it quick, and nothing depends on them."""

import threading

import pytest

from tests.cluster.test_two_web_processes import TICK, checked_log, started
from tests.e2e.reading import chat, eventually, read

#: So seldom that a test which waits for it fails.
SELDOM = {"STOP_POLL_S": "60", "FOLLOW_POLL_S": "60", "PAGEHIDE_GRACE_S": "0.5"}
#: One object: pytest sets up anew for what only looks the same.
NOTHING_SPECIAL: dict[str, str] = {}


def lossy(lost: float) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "tests.cluster.lossy_settings", "DOORBELLS_LOST": str(lost)}


def followed_and_stopped(one, two, ticks: int, amid=lambda: None):
    """Follow at two what one runs, then stop it there; returns what the stop said."""
    cut = started(one)
    path = f"/v1/responses/{cut.response_id}"
    done = []

    def far_enough(stream):
        if not done and len(stream.text) >= ticks * len(TICK) / 2:
            done.append(amid())
        return len(stream.text) >= ticks * len(TICK)

    with two.api(two.key) as client:
        followed = read(client, "GET", f"{path}/stream", headers={"Last-Event-ID": cut.last_id}, until=far_enough)
        stopped = client.post(f"{path}/cancel").json()
    assert set(followed.text.split()) == {"tick"}
    row = checked_log(one, cut.response_id)
    assert (row["end_state"], row["epoch"]) == ("cancelled", 1)
    assert row["output_text"].startswith(cut.text + followed.text)
    return stopped


@pytest.mark.parametrize("rung", [SELDOM], indirect=True)
def test_a_follower_and_a_stop_elsewhere_do_not_wait_for_the_next_look(rung):
    one, two = rung
    stopped = followed_and_stopped(one, two, ticks=100)
    assert stopped["stop"]["abort_proven"] is True


@pytest.mark.parametrize("rung", [SELDOM], indirect=True)
def test_a_page_that_leaves_another_process_shortens_the_grace_there(rung):
    one, two = rung
    with one.api(one.key) as client:
        cut = chat(client, "go", model="ticks", until=lambda s: s.seqs, headers={"X-Disconnect-Policy": "grace=600"})
    page = two.page("dev")
    assert page.post(f"/api/responses/{cut.response_id}/leaving").status_code == 204
    page.close()
    eventually(lambda: one.row(cut.response_id)["end_state"])
    assert checked_log(one, cut.response_id)["end_reason"] == "disconnected"


@pytest.mark.parametrize("rung", [NOTHING_SPECIAL], indirect=True)
def test_nobody_is_told_of_what_nobody_follows(rung, valkey):
    one, _ = rung
    with valkey.heard() as messages:
        with one.api(one.key) as client:
            cut = chat(client, "go", model="ticks", until=lambda s: len(s.text) >= 50 * len(TICK))
        eventually(lambda: one.row(cut.response_id)["end_state"])
    assert messages == []


@pytest.mark.parametrize("rung", [lossy(0.5), lossy(0.95)], indirect=True, ids=["half", "nearly all"])
def test_what_is_lost_costs_time_and_nothing_else(rung):
    followed_and_stopped(*rung, ticks=60)


@pytest.mark.parametrize("rung", [NOTHING_SPECIAL], indirect=True)
def test_a_valkey_that_is_killed_and_comes_back_is_missed_by_nobody(rung, valkey):
    one, two = rung
    followed_and_stopped(one, two, ticks=100, amid=valkey.kill)
    back = threading.Thread(target=valkey.start)
    followed_and_stopped(one, two, ticks=100, amid=back.start)
    back.join()
    before = valkey.messages()
    followed_and_stopped(one, two, ticks=60)
    assert valkey.messages() > before
