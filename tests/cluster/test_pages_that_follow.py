"""Open pages at two real web processes: told at once of what happens at the other, and soon where nobody told.

With Valkey, without it, with rings that get lost. Costs about 25 s.
"""

import contextlib
import json

import pytest

from tests.cluster.test_doorbells import lossy
from tests.e2e.reading import eventually, read
from tests.e2e.talking import said, talk

#: So seldom that a test which waits for it fails.
TOLD_ONLY = {"LIST_POLL_S": "60"}
LOOKED_UP = {"LIST_POLL_S": "0.5"}


@contextlib.contextmanager
def open_pages(site, page, count: int = 1):
    """Sockets that the site has taken in and, over Valkey, told others to ring for."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(talk(site, page)) for _ in range(count)]
        for one in sockets:
            said(one, "hello")
        yield sockets


@pytest.fixture(scope="module")
def people(pair):
    """Ann and Bob, each with one session that counts at every process."""
    with contextlib.closing(pair[0].page("ann")) as ann, contextlib.closing(pair[0].page("bob")) as bob:
        yield ann, bob


def at(site, page):
    """The same session, asking another process."""
    page.base_url = site.url
    return page


def ask(page, until=lambda stream: False):
    chat_id = page.post("/api/conversations", json={}).json()["id"]
    path = f"/api/conversations/{chat_id}/messages"
    return chat_id, read(page, "POST", path, json={"text": "go", "model": "ticks"}, until=until)


def joined(valkey, user_id: int) -> bool:
    return bool(valkey.client().zcard(f"asgi:group:pages.{user_id}"))


def user_id_of(site, name: str) -> int:
    return site.rows("SELECT id FROM auth_user WHERE username = %s", name)[0][0]


@pytest.mark.parametrize("rung", [TOLD_ONLY], indirect=True)
def test_a_page_at_one_process_follows_what_happens_at_the_other_and_stops_it(rung, valkey, people):
    one, two = rung
    ann, _ = people
    with open_pages(two, ann) as (page,):
        eventually(lambda: joined(valkey, user_id_of(one, "ann")))
        chat_id, cut = ask(at(one, ann), until=lambda s: len(s.seqs) >= 3)
        started = said(page, "response.started")
        assert started == {"type": "response.started", "conversation": chat_id, "response": cut.response_id}
        page.send(json.dumps({"type": "stop", "response": cut.response_id}))
        assert said(page, "stopped")["end_state"] == "cancelled"
        at(one, ann).patch(f"/api/conversations/{chat_id}", json={"title": "renamed"})
        assert said(page, "title")["conversation"] == chat_id
    assert one.row(cut.response_id)["abort_proven"] is True


@pytest.mark.parametrize("rung", [TOLD_ONLY], indirect=True)
def test_a_change_costs_one_message_for_each_process_with_a_page_and_none_where_there_is_none(rung, valkey, people):
    one, two = rung
    ann, bob = people
    costs = []
    eventually(lambda: not joined(valkey, user_id_of(one, "ann")))
    chat_id = at(one, ann).post("/api/conversations", json={}).json()["id"]
    for tabs in (1, 3):
        with open_pages(two, ann, tabs) as pages:
            eventually(lambda: joined(valkey, user_id_of(one, "ann")))
            with valkey.heard() as messages:
                at(one, ann).patch(f"/api/conversations/{chat_id}", json={"title": f"{tabs}"})
                for page in pages:
                    said(page, "title")
            costs.append(len(messages))
        eventually(lambda: not joined(valkey, user_id_of(one, "ann")))
    # What is sent is stored once, and once more while it is being received.
    assert costs == [2, 2]
    with valkey.heard() as messages:
        for page in (bob, ann):
            at(one, page).post("/api/conversations", json={})
        at(one, bob).get("/api/me")
    assert messages == []


@pytest.mark.parametrize("rung", [TOLD_ONLY], indirect=True)
def test_a_logout_at_one_process_closes_the_page_at_the_other_at_once(rung, valkey):
    one, two = rung
    with contextlib.closing(one.page("eve")) as eve, open_pages(two, eve) as (page,):
        eventually(lambda: joined(valkey, user_id_of(one, "eve")))
        eve.post("/logout/", data={"csrfmiddlewaretoken": eve.headers["X-CSRFToken"]})
        said(page, "signed_out")


@pytest.mark.parametrize("rung", [TOLD_ONLY], indirect=True)
def test_after_valkey_was_away_pages_look_at_everything_and_are_told_again(rung, valkey, people):
    one, two = rung
    ann, _ = people
    with open_pages(two, ann) as (page,):
        eventually(lambda: joined(valkey, user_id_of(one, "ann")))
        valkey.kill()
        at(one, ann).post("/api/conversations", json={})
        valkey.start()
        said(page, lambda message: message == {"type": "conversations"})
        eventually(lambda: joined(valkey, user_id_of(one, "ann")))
        made = at(one, ann).post("/api/conversations", json={}).json()["id"]
        said(page, lambda message: message.get("conversation") == made)


@pytest.mark.parametrize("rung", [lossy(0.95) | LOOKED_UP], indirect=True)
def test_rings_that_are_lost_cost_a_page_some_time_and_nothing_else(rung, people):
    one, two = rung
    ann, _ = people
    with open_pages(two, ann) as (page,):
        for _ in range(3):
            at(one, ann).post("/api/conversations", json={})
            said(page, "conversations")


def test_without_valkey_pages_follow_by_looking(pair, people):
    one, two = pair
    ann, _ = people
    two.web.end()
    two.env.update(LOOKED_UP)
    two.start()
    with open_pages(two, ann) as (page,):
        for _ in range(2):
            at(one, ann).post("/api/conversations", json={})
            assert said(page, "conversations") == {"type": "conversations"}
