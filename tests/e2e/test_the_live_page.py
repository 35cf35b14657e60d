"""What staff sees of what runs, on a real site: over a socket, or asked for; who gets in; and a stop that is noted."""

import contextlib
import threading

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.e2e.reading import chat, eventually, script
from tests.e2e.site import Site
from tests.e2e.talking import closing, said, talk

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
SOCKET = "/ws/admin/live/"
JSON = {"Accept": "application/json"}
#: In one process: each command of its own takes a second or two.
PEOPLE = """
from datetime import timedelta
from django.contrib.auth.models import Group
from streaming.models import Engine
from streaming.store import access
Engine.objects.create(name="gpu", kind="scripted", model="scripted", slots=10, context_tokens=100000)
print(access.issue_key(access.ensure_user("dev"), "dev"))
for name in ("viewer", "operator", "nobody"):
    user = access.ensure_user(name)
    if name != "nobody":
        user.is_staff = True
        user.save()
        user.groups.add(Group.objects.get(name=name))
    print("/login/" + access.issue_login_token(user, timedelta(minutes=10)))
"""


def signed_in(site, link):
    client = httpx.Client(base_url=site.url, timeout=60, follow_redirects=True)
    client.get(link)
    client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
    return client


@pytest.fixture(scope="module")
def watched(tmp_path_factory, model_dir):
    """A site with somebody of each role, and one who is no staff."""
    site = Site(tmp_path_factory.mktemp("live"), model_dir, SECRET_KEY="live-" + "k" * 50, CREDENTIAL_CHECK_S="0.5")
    site.migrate()
    site.key, *links = site.manage("shell", "-v", "0", "-c", PEOPLE).splitlines()[-4:]
    site.start()
    site.people = dict(zip(("viewer", "operator", "nobody"), (signed_in(site, link) for link in links), strict=True))
    yield site
    for page in site.people.values():
        page.close()
    site.stop()


@pytest.fixture
def running(watched):
    """An answer that never ends by itself, with one reader; its id, and what the reader has read when it is over."""
    stream, begun, over = {}, threading.Event(), threading.Event()

    def note(so_far):
        if so_far.seqs and not begun.is_set():
            stream["id"] = so_far.response_id
            begun.set()
        return over.is_set()

    def read():
        with watched.api(watched.key) as api:
            stream["read"] = chat(api, ENDLESS, until=note)

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(60)
    yield stream, reader
    over.set()
    reader.join(60)
    eventually(lambda: watched.rows("SELECT COUNT(*) FROM streaming_response WHERE end_state IS NULL") == [(0,)])


def test_a_viewer_is_told_what_runs_as_it_goes_on(watched, running):
    stream, _ = running
    with talk(watched, watched.people["viewer"], path=SOCKET) as socket:
        told = said(socket, lambda m: any(row["id"] == stream["id"] and row["tokens"] > 5 for row in m["rows"]))
        (first,) = told["rows"]
        assert (first["user"], first["engine"], first["state"], first["readers"]) == ("dev", "gpu", "running", 1)
        assert told["total"] == 1
        said(socket, lambda m: m["rows"][0]["tokens"] > first["tokens"])
    # Watching kept nothing alive and was nobody's reading.
    asked = watched.people["viewer"].get("/admin/live/rows/").json()
    assert [row["id"] for row in asked["rows"]] == [stream["id"]]
    assert asked["rows"][0]["readers"] == 1
    html = watched.people["viewer"].get("/admin/live/").text
    assert stream["id"] in html
    assert "tick tick" not in html


def test_an_operator_stops_somebodys_answer_and_that_is_noted(watched, running):
    stream, reader = running
    path = f"/admin/live/{stream['id']}/stop/"
    assert watched.people["viewer"].post(path, headers=JSON).status_code == 403
    assert watched.people["nobody"].post(path, headers=JSON).status_code == 403
    assert watched.people["operator"].get(path).status_code == 405
    assert watched.people["operator"].post(path, headers={**JSON, "X-CSRFToken": "no"}).status_code == 403
    assert watched.row(stream["id"])["end_state"] is None
    with talk(watched, watched.people["viewer"], path=SOCKET) as socket:
        said(socket, lambda m: m["total"] == 1)
        answer = watched.people["operator"].post(path, headers=JSON).json()
        assert (answer["end_state"], answer["end_reason"]) == ("cancelled", "admin")
        said(socket, lambda m: m["total"] == 0)
    reader.join(60)
    assert not reader.is_alive()
    noted = watched.rows("SELECT actor, action, target_id FROM streaming_auditentry WHERE action = 'stopped'")
    assert noted == [("operator", "stopped", stream["id"])]
    assert watched.people["operator"].post("/admin/live/resp_none/stop/", headers=JSON).status_code == 404


def test_only_staff_gets_in_from_our_own_pages_and_no_longer_than_it_may(watched):
    with talk(watched, watched.people["nobody"], path=SOCKET) as socket:
        assert closing(socket)[0] == 4403
    with talk(watched, None, path=SOCKET) as socket:
        assert closing(socket)[0] == 4401
    for origin in (None, "https://evil.example"):
        with pytest.raises(InvalidStatus):
            talk(watched, watched.people["viewer"], path=SOCKET, origin=origin)
    assert watched.people["nobody"].get("/admin/live/rows/").status_code == 403
    with talk(watched, watched.people["viewer"], path=SOCKET) as socket:
        said(socket, "live")
        with contextlib.suppress(ConnectionClosed):
            socket.send("stop everything")
        assert closing(socket)[0] == 4400
    with talk(watched, watched.people["viewer"], path=SOCKET) as socket:
        said(socket, "live")
        watched.write("UPDATE auth_user SET is_staff = 0 WHERE username = 'viewer'")
        assert closing(socket)[0] == 4403
    watched.write("UPDATE auth_user SET is_staff = 1 WHERE username = 'viewer'")
