"""Who loses the right to read in mid-stream stops reading within seconds, whatever becomes of the answer."""

import threading
from contextlib import closing

import httpx

from tests.e2e.reading import chat, read, script

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)


def reading(call) -> tuple[threading.Thread, threading.Event, list]:
    """A stream in a thread of its own; the event says that it has shown something."""
    shown, results = threading.Event(), []

    def until(stream) -> bool:
        if len(stream.seqs) >= 4:
            shown.set()
        return False

    thread = threading.Thread(target=lambda: results.append(call(until)), daemon=True)
    thread.start()
    assert shown.wait(60)
    return thread, shown, results


def test_a_revoked_key_ends_its_open_streams(site):
    key = site.manage("create_api_key", "mallory")
    with site.api(key) as client:
        headers = {"X-Disconnect-Policy": "grace=1"}
        thread, _, results = reading(lambda until: chat(client, ENDLESS, until=until, headers=headers))
        site.write("UPDATE streaming_apikey SET revoked_at = '2026-01-01 00:00:00' WHERE prefix = ?", key[:9])
        thread.join(60)
        (stream,) = results
        assert stream.error["code"] == "stream_detached"
        again = client.get(f"/v1/responses/{stream.response_id}/stream")
        assert (again.status_code, again.json()["error"]["code"]) == (401, "key_revoked")


def test_a_logout_ends_the_open_streams_of_that_session_only(site, key):
    with closing(site.page("ann")) as tab, closing(site.page("ann")) as phone:
        chat_id = tab.post("/api/conversations", json={}).json()["id"]
        path = f"/api/conversations/{chat_id}/messages"
        body = {"text": ENDLESS, "model": "scripted"}
        thread, _, results = reading(lambda until: read(tab, "POST", path, json=body, until=until))
        response_id = tab.get("/api/conversations").json()["data"][0]["running"]
        follow = f"/api/responses/{response_id}/stream"
        second, _, followed = reading(lambda until: read(phone, "GET", follow, until=until))
        tab.post("/logout/", data={"csrfmiddlewaretoken": tab.headers["X-CSRFToken"]})
        thread.join(60)
        assert results[0].error["code"] == "stream_detached"
        assert second.is_alive()
        phone.post(f"/api/responses/{response_id}/cancel")
        second.join(60)
        assert followed[0].data[-1]["response"]["end_state"] == "cancelled"


RESET = """
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
user = User.objects.get(username="rosa")
uid = urlsafe_base64_encode(force_bytes(user.pk))
print(f"/password-reset/{uid}/{default_token_generator.make_token(user)}/")
"""


def test_a_new_password_ends_the_sessions_and_their_open_streams(site):
    with (
        closing(site.page("rosa")) as thief,
        httpx.Client(base_url=site.url, timeout=60, follow_redirects=True) as owner,
    ):
        chat_id = thief.post("/api/conversations", json={}).json()["id"]
        body = {"text": ENDLESS, "model": "scripted"}
        path = f"/api/conversations/{chat_id}/messages"
        thread, _, results = reading(lambda until: read(thief, "POST", path, json=body, until=until))
        form = owner.get(site.manage("shell", "-c", RESET).strip().splitlines()[-1])
        fields = {"new_password1": "a new and longer one", "new_password2": "a new and longer one"}
        sent = owner.post(form.url, data={**fields, "csrfmiddlewaretoken": owner.cookies["csrftoken"]})
        assert sent.url.path == "/password-reset/done/"
        thread.join(60)
        assert results[0].error["code"] == "stream_detached"
        assert thief.get("/api/me").status_code == 401
