"""The clock of a web process or of the database jumps by an hour or 400 days: nothing but shown times changes."""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.cluster.clocks import Clock
from tests.cluster.following import Follower
from tests.cluster.outage import Database
from tests.cluster.postgres import QUICK, ClusterSite
from tests.e2e.reading import chat, eventually, read, script

HOUR_S = 3600
DAYS_400_S = 400 * 24 * HOUR_S
WORDS = [f"w{n} " for n in range(370)]
SAYING = script(outputs=[{"text": word} for word in WORDS], delay_s=0.02)
#: Long enough for what is in between, far less than an hour: no timer may take the jump for time that has passed.
TIMERS = dict.fromkeys(("QUEUE_TIMEOUT_S", "TTFT_TIMEOUT_S", "IDLE_TIMEOUT_S", "TOTAL_TIMEOUT_S"), "60")


@pytest.fixture(scope="module")
def clocks():
    # Not among pytest's own folders: PostgreSQL, which is another user where we are root, must get there.
    with tempfile.TemporaryDirectory(prefix="clocks-") as folder:
        yield {whose: Clock(Path(folder) / whose) for whose in ("web", "database")}


@pytest.fixture(scope="module")
def pair(tmp_path_factory, clocks, model_dir):
    """Two web processes, the first with a clock of its own, on a PostgreSQL that has another."""
    database = Database()
    database.stop()
    database.start(clocks["database"].environment)
    folder = tmp_path_factory.mktemp("sites")
    one, two = (ClusterSite(folder / name, model_dir, database.url, {**QUICK, **TIMERS}) for name in ("one", "two"))
    one.env["SIGNUP"] = two.env["SIGNUP"] = "invite"
    one.migrate()
    one.scripted(context_tokens=1_000_000)
    one.key = two.key = one.manage("create_api_key", "dev")
    one.env.update(clocks["web"].environment)
    for site in (one, two):
        site.start()
    for name in clocks["web"].environment:
        del one.env[name]
    yield one, two
    for site in (one, two):
        site.stop()
    database.close()


def ahead_s(site, whose):
    """By how much the clock in question is ahead, as seen in what it stamps."""
    if whose == "database":
        return site.rows("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0] - time.time()
    with site.api(site.key) as client:
        response_id = chat(client, "hello").response_id
    return (site.row(response_id)["created_at"] - datetime.now(UTC)).total_seconds()


def jump(site, clocks, whose, ahead_by_s):
    """Set the clock, and see that who reads it has noticed."""
    clocks[whose].set(ahead_by_s)
    eventually(lambda: abs(ahead_s(site, whose) - ahead_by_s) < 60, pause_s=0.2)


@pytest.mark.parametrize("whose", ["web", "database"])
def test_an_hour_more_or_less_ends_no_stream_fires_no_timer_and_takes_nobody_for_dead(pair, clocks, whose):
    one, two = pair
    with one.api(one.key) as client:
        headers = {"X-Disconnect-Policy": "grace=60"}
        unread = chat(client, SAYING, until=lambda s: "w5 " in s.text, headers=headers).response_id
    asked = [Follower(site, SAYING).until(lambda f: "w5 " in f.text) for site in pair]
    across = Follower(two, response_id=asked[0].response_id)
    for nth, jump_s in ((60, HOUR_S), (120, -HOUR_S), (180, DAYS_400_S), (240, -DAYS_400_S), (300, 0)):
        jump(one, clocks, whose, jump_s)
        for follower in (*asked, across):
            follower.until(lambda f, nth=nth: f"w{nth} " in f.text)
    for follower in (*asked, across):
        assert follower.ended().text == "".join(WORDS)
        assert len(follower.streams) == 1
    with two.api(two.key) as client:
        assert read(client, "GET", f"/v1/responses/{unread}/stream").text == "".join(WORDS)
    for response_id in (unread, *(follower.response_id for follower in asked)):
        row = one.row(response_id)
        assert (row["end_state"], row["end_reason"], row["epoch"]) == ("completed", "stop", 1)
    assert one.rows("SELECT count(*) FROM streaming_webprocess") == [(2,)]


def test_conversations_and_their_turns_keep_their_order(pair, clocks):
    one, _two = pair
    page = one.page("ann")
    chats = [page.post("/api/conversations", json={}).json()["id"] for _ in range(2)]
    for nth, jump_s in enumerate((0, HOUR_S, -HOUR_S, 0)):
        jump(one, clocks, "web", jump_s)
        chat_id = chats[nth % 2]
        body = {"model": "scripted", "text": f"question {nth}"}
        assert read(page, "POST", f"/api/conversations/{chat_id}/messages", json=body).status == 200
        assert page.get("/api/conversations").json()["data"][0]["id"] == chat_id
    for first, chat_id in enumerate(chats):
        turns = page.get(f"/api/conversations/{chat_id}").json()["messages"]
        assert [turn["text"] for turn in turns[::2]] == [f"question {first}", f"question {first + 2}"]
        assert [turn["id"] for turn in turns] == sorted(turn["id"] for turn in turns)
    clocks["web"].set(0)
    page.close()


@pytest.mark.parametrize("jump_s", [-HOUR_S, DAYS_400_S])
def test_credentials_count_alike_at_a_process_whose_clock_is_wrong(pair, clocks, jump_s):
    one, two = pair
    name = f"eve{jump_s}"
    inside, gone = one.page(name), two.page(f"gone{jump_s}")
    expire = "UPDATE django_session SET expire_date = clock_timestamp() - interval '1 minute' WHERE session_key = ?"
    one.write(expire, gone.cookies["sessionid"])
    link, invitation = one.manage("login_link", name), one.manage("invite")
    jump(one, clocks, "web", jump_s)
    # What was good stays good, what has expired stays so, and what is made there lasts as long as elsewhere.
    assert inside.get("/api/me").status_code == 200
    assert gone.get(f"{one.url}/api/me").status_code == 401
    with client(one) as late:
        assert late.get(link).status_code == 200
        assert late.get("/api/me").status_code == 200
        lasts = "SELECT expire_date - clock_timestamp() FROM django_session WHERE session_key = ?"
        assert timedelta(days=13) < one.rows(lasts, late.cookies["sessionid"])[0][0] <= timedelta(days=14)
    # Once is once, at whichever process.
    for site in pair:
        with client(site) as again:
            assert again.get(link).status_code == 410
    assert [signed_up(site, invitation, f"new{n}{jump_s}") for n, site in enumerate(pair)] == [302, 410]
    # Wrong passwords are counted together, and lock nobody out for longer than without the jump.
    assert 429 in [knock(site, name).status_code for site in (one, two) * 3]
    for site in pair:
        assert 0 < int(knock(site, name).headers["Retry-After"]) <= 300
    jump(one, clocks, "web", 0)
    assert 0 < int(knock(one, name).headers["Retry-After"]) <= 300
    assert inside.get("/api/me").status_code == 200
    one.write("DELETE FROM axes_accessattempt")
    inside.close()
    gone.close()


def client(site):
    return httpx.Client(base_url=site.url, timeout=60, follow_redirects=True)


def post(site, path, **form):
    """A form of a page, with what it has against forged ones."""
    with client(site) as browser:
        browser.get("/login/")
        return browser.post(
            path, data={**form, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}, follow_redirects=False
        )


def knock(site, name):
    return post(site, "/login/", username=name, password="wrong")


def signed_up(site, invitation, name):
    password = "long enough to be good"
    return post(site, invitation, username=name, password1=password, password2=password).status_code
