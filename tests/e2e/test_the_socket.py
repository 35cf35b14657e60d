"""/ws/me/ on a real site with a real client: what a page is told, what it may say, who gets in, how it ends."""

import contextlib
import json
import os
import signal
import socket
import threading

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e.reading import read, script
from tests.e2e.site import Site
from tests.e2e.talking import closing, said, talk

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
SHORT = script(outputs=[{"text": "short"}])


@pytest.fixture(scope="module")
def told(tmp_path_factory, model_dir):
    """A site whose hearts beat fast and where a user may have three pages."""
    site = Site(
        tmp_path_factory.mktemp("told"), model_dir, HEARTBEAT_S="1", CREDENTIAL_CHECK_S="60", LIST_POLL_S="0.3",
        MAX_SOCKETS_PER_USER="3", STUCK_READER_S="2", SECRET_KEY="told-" + "k" * 50,
    )  # fmt: skip
    site.prepare()
    site.scripted(slots=10)
    site.start()
    yield site
    site.stop()


@pytest.fixture
def site(told):
    if told.web.popen.poll() is not None:
        told.start()
    return told


@pytest.fixture(scope="module")
def ann(told):
    with contextlib.closing(told.page("ann")) as client:
        yield client


@pytest.fixture(scope="module")
def bob(told):
    with contextlib.closing(told.page("bob")) as client:
        yield client


@pytest.fixture
def pages():
    """Opens sockets, and closes them after the test."""
    with contextlib.ExitStack() as opened:
        yield lambda *args, **options: opened.enter_context(talk(*args, **options))


def ask(page, text: str, *, until=lambda stream: False):
    chat_id = page.post("/api/conversations", json={}).json()["id"]
    return chat_id, read(page, "POST", f"/api/conversations/{chat_id}/messages", json={"text": text}, until=until)


def test_a_page_is_told_of_all_that_happens_to_the_users_conversations_and_never_a_word_of_them(site, ann, pages):
    page = pages(site, ann)
    assert said(page, "hello")["heartbeat_s"] == 1
    heard = []

    def tells(kind, **ids):
        """Exactly this. A look at the rows that came between a change and its telling says less, and comes beside."""
        said(page, lambda message: heard.append(message) or message == {"type": kind, **ids})

    chat_id, stream = ask(ann, SHORT)
    tells("conversations", conversation=chat_id)
    tells("response.started", conversation=chat_id, response=stream.response_id)
    tells("response.ended", conversation=chat_id, response=stream.response_id)
    ann.patch(f"/api/conversations/{chat_id}", json={"title": "secret"})
    tells("title", conversation=chat_id)
    ann.delete(f"/api/conversations/{chat_id}")
    tells("conversations", conversation=chat_id)
    assert set().union(*heard) == {"type", "conversation", "response"}


def test_nobody_is_told_of_others(site, ann, bob, pages):
    bobs, anns = pages(site, bob), pages(site, ann)
    ask(ann, SHORT)
    said(anns, "response.ended")
    bob.post("/api/conversations", json={})
    assert said(bobs, lambda m: m["type"] not in ("hello", "heartbeat"))["type"] == "conversations"


def test_a_silent_socket_beats(site, ann, pages):
    page = pages(site, ann)
    for _ in range(2):
        said(page, "heartbeat")


def test_a_stop_from_another_tab_ends_the_answer_and_is_answered(site, ann, pages):
    page = pages(site, ann)
    _, cut = ask(ann, ENDLESS, until=lambda s: len(s.seqs) >= 3)
    page.send(json.dumps({"type": "stop", "response": cut.response_id}))
    assert said(page, "stopped") == {"type": "stopped", "response": cut.response_id, "end_state": "cancelled"}
    assert site.row(cut.response_id)["end_reason"] == "user"
    page.send(json.dumps({"type": "stop", "response": cut.response_id}))
    assert said(page, "stopped")["end_state"] == "cancelled"


def test_a_strangers_response_is_unknown_and_goes_on(site, ann, bob, pages):
    _, cut = ask(ann, ENDLESS, until=lambda s: len(s.seqs) >= 3)
    page = pages(site, bob)
    for response_id in (cut.response_id, "resp_" + "0" * 26):
        page.send(json.dumps({"type": "stop", "response": response_id}))
        assert said(page, "refused") == {"type": "refused", "response": response_id, "code": "not_found"}
    assert site.row(cut.response_id)["end_state"] is None
    ann.post(f"/api/responses/{cut.response_id}/cancel")


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "http://[", "x"]
)
def test_only_pages_of_this_very_origin_get_a_socket(site, ann, pages, origin):
    with pytest.raises(InvalidStatus) as refused:
        pages(site, ann, origin=origin.format(port=site.port) if origin else None)
    assert refused.value.response.status_code in (400, 403)


def test_a_host_that_is_not_served_and_a_path_that_is_not_there_get_no_socket(site, ann, pages):
    with pytest.raises(InvalidStatus):
        pages(site, ann, path="/ws/you/")
    raw = socket.create_connection(("127.0.0.1", site.port), timeout=10)
    raw.sendall(
        b"GET /ws/me/ HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert raw.recv(100).startswith(b"HTTP/1.1 403 ")
    raw.close()


def test_without_a_session_the_socket_says_so(site, pages):
    assert closing(pages(site)) == (4401, "log in first")


def test_who_logs_out_is_told_and_closed_at_once_and_other_devices_stay(site, pages):
    with contextlib.closing(site.page("ann")) as desk, contextlib.closing(site.page("ann")) as phone:
        gone, stays = pages(site, desk), pages(site, phone)
        said(gone, "hello")
        said(stays, "hello")
        desk.post("/logout/", data={"csrfmiddlewaretoken": desk.headers["X-CSRFToken"]})
        said(gone, "signed_out")
        assert closing(gone) == (4401, "signed out")
        said(stays, "heartbeat")


def test_one_page_more_than_a_user_may_have_is_told_to_come_later(site, bob, pages):
    for _ in range(3):
        said(pages(site, bob), "hello")
    code, reason = closing(pages(site, bob))
    assert (code, reason) == (4429, "at most 3 pages of one user are told of changes")


@pytest.mark.parametrize(
    ("hostile", "code"),
    [
        ("", 4400),
        ("hello", 4400),
        ("[" * 190, 4400),
        ('{"type": "stop"}', 4400),
        ('{"type": "stop", "response": 5}', 4400),
        ('{"type": "stop", "response": "resp_٣"}', 4400),
        ('{"type": "stop", "response": "resp_' + "0" * 26 + '", "x": 1}', 4400),
        (json.dumps({"type": "stop", "response": "x" * 500}), 4400),
        (b"\x00\xff", 4400),
        ("x" * 20_000, 1009),
    ],
)
def test_what_no_page_says_closes_the_socket_with_a_reason(site, ann, pages, hostile, code):
    page = pages(site, ann)
    said(page, "hello")
    page.send(hostile)
    seen, reason = closing(page)
    assert seen == code
    assert reason


def test_who_talks_too_much_is_closed(site, ann, pages):
    page = pages(site, ann)
    stop = json.dumps({"type": "stop", "response": "resp_" + "0" * 26})
    with contextlib.suppress(ConnectionClosed):
        for _ in range(500):
            page.send(stop)
    assert closing(page)[0] in (4430, 1008)


def test_a_page_that_takes_nothing_costs_a_bounded_memory_and_is_cut_off(site, ann):
    process = psutil.Process(site.web.popen.pid)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(20)
    raw.connect(("127.0.0.1", site.port))
    cookie = "; ".join(f"{name}={value}" for name, value in ann.cookies.items())
    raw.sendall(
        f"GET /ws/me/ HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nOrigin: {site.url}\r\nCookie: {cookie}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    assert raw.recv(12) == b"HTTP/1.1 101"
    before = process.memory_info().rss
    ping = b"\x89\xfd" + b"mask" + os.urandom(125)
    cut = threading.Event()

    def flood() -> None:
        try:
            for _ in range(400_000):
                raw.sendall(ping)
        except OSError:
            cut.set()

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    thread.join(60)
    assert cut.is_set(), "fifty megabytes of answers to pings were kept for a page that reads none"
    assert process.memory_info().rss - before < 8_000_000
    raw.close()


def test_what_no_ring_told_is_seen_in_the_rows(site, ann, pages):
    chat_id = ann.post("/api/conversations", json={}).json()["id"]
    page = pages(site, ann)
    said(page, "hello")
    said(page, "heartbeat")
    site.write("DELETE FROM streaming_conversation WHERE id = ?", chat_id)
    assert said(page, "conversations") == {"type": "conversations"}


def test_a_process_that_leaves_sends_its_pages_to_another_connection_at_once(site, ann, pages):
    page = pages(site, ann)
    said(page, "hello")
    _, cut = ask(ann, ENDLESS, until=lambda s: len(s.seqs) >= 3)
    site.web.popen.send_signal(signal.SIGTERM)
    assert closing(page)[0] == 1012
    assert site.web.ended() == 0
    site.start()
    said(pages(site, ann), "hello")
    assert site.row(cut.response_id)["epoch"] == 2
