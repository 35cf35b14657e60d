"""Who may do what: two users, a stranger and a key, on every route. Also each credential only where it belongs."""

import json
import re

import pytest
from django.test import Client
from django.urls import get_resolver

from streaming.models import Conversation, Message, Response
from streaming.store import access, batches, files, shares

pytestmark = pytest.mark.django_db

UNKNOWN = "conv_" + "0" * 26


def send(client, method, path, **extra):
    body = {"data": json.dumps({"title": "Taken"}), "content_type": "application/json"}
    return getattr(client, method)(path, **({} if method in {"get", "delete"} else body), **extra)


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
def test_anothers_conversation_is_like_one_that_does_not_exist(page1, page2, conversation1, method):
    theirs = send(page2, method, f"/api/conversations/{conversation1.id}")
    unknown = send(page2, method, f"/api/conversations/{UNKNOWN}")
    assert (theirs.status_code, theirs.content) == (unknown.status_code, unknown.content)
    assert theirs.status_code == 404
    assert Conversation.objects.get().title == "Lighthouses"
    Response.objects.filter(state="running").update(state="ended", end_state="completed", end_reason="stop")
    assert send(page1, method, f"/api/conversations/{conversation1.id}").status_code in {200, 204}


def test_the_list_holds_only_ones_own(page2, conversation1):
    assert page2.get("/api/conversations").json() == {"data": [], "next": None}


@pytest.mark.parametrize("id_", ["%00", "conv_", "x" * 5000, "conv_" + "0" * 26 + "%0a", "..", "conv_" + "٣" * 26])
def test_an_id_that_cannot_be_is_a_404(page1, id_):
    assert page1.get(f"/api/conversations/{id_}").status_code == 404


def routes(root):
    """Every path pattern and method under /api or /v1."""
    (api,) = [part for part in get_resolver("chatsite.urls").url_patterns if str(part.pattern) == f"{root}/"]
    paths = [str(route.pattern).replace("<str:", "<") for route in api.url_patterns if str(route.pattern)]
    return [(f"/{root}/{path}", method) for path in paths for method in ("get", "post", "patch", "delete")]


def page_routes():
    """Those of the page, with ids filled in."""
    found = routes("api")
    return [(re.sub("<[a-z_]+>", UNKNOWN, path), method) for path, method in found]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("path", "method"), [r for r in routes("api") + routes("v1") if "<" in r[0]])
def test_anothers_ids_are_unknown_on_every_route(page2, u1, u2, conversation1, path, method):
    client, text = page2, {"data": json.dumps({"text": "hi"}), "content_type": "application/json"}
    if path.startswith("/v1"):
        client = Client(headers={"Authorization": f"Bearer {access.issue_key(u2)}"})
    elif path.endswith("<conversation_id>"):
        text = {"data": json.dumps({"title": "Taken"}), "content_type": "application/json"}
    elif path == "/api/responses/<response_id>":
        text = {"data": json.dumps({"mark": "bad"}), "content_type": "application/json"}
    elif path.endswith("/shares"):
        text = {"data": json.dumps({"message": "msg_x"}), "content_type": "application/json"}
    elif path.endswith("/leaving"):
        text = {"data": {"csrfmiddlewaretoken": "t" * 32}}
    before = list(Response.objects.values()), list(Conversation.objects.values()), Message.objects.count()
    answers = []
    theirs = {"conversation_id": conversation1.id, "response_id": conversation1.live.id}
    share, _ = shares.create(u1, conversation1.id, conversation1.ended.message_id)
    theirs |= {"key_id": str(access.new_key(u1)[0].pk), "share_id": str(share.pk)}
    theirs |= {"file_id": files.store(files.NewFile(u1.pk, "f", 1, None), [b"x"], 2**40).id}
    new = batches.NewBatch(u1.pk, None, "/v1/responses", theirs["file_id"], None)
    theirs |= {"batch_id": batches.create(new, 9).id}
    unknown = {"conversation_id": UNKNOWN, "response_id": "resp_" + "0" * 26, "key_id": "9", "share_id": "9"}
    unknown |= {"file_id": "file-" + "0" * 26, "batch_id": "batch_" + "0" * 26}
    for ids in (theirs, unknown):
        real = path.replace("<", "{").replace(">", "}").format(**ids)
        answer = getattr(client, method)(real, **(text if method == "post" or method == "patch" else {}))
        answers.append((answer.status_code, answer.content))
    assert answers[0] == answers[1]
    assert answers[0][0] in {404, 405}
    rejected = [row for row in Response.objects.values() if row["end_state"] == "rejected"]
    after = [row for row in Response.objects.values() if row not in rejected]
    assert (after, list(Conversation.objects.values()), Message.objects.count()) == before
    assert all(row["user_id"] == u2.pk and row["conversation_id"] is None for row in rejected)


@pytest.mark.parametrize(("path", "method"), page_routes())
def test_no_page_route_answers_a_stranger_or_a_key(anon, page1, key1, path, method):
    for extra in ({}, {"headers": {"Authorization": f"Bearer {key1}"}}):
        response = send(anon, method, path, **extra)
        assert response.status_code in {401, 405}
        if response.status_code == 401:
            assert response.json()["error"]["code"] == "login_required"
    both = send(page1, method, path, headers={"Authorization": f"Bearer {key1}"})
    assert both.status_code in {401, 405}


@pytest.mark.parametrize(("path", "method"), [r for r in page_routes() if r[1] != "get"])
def test_no_page_route_that_changes_something_works_without_a_csrf_token(page1, path, method):
    del page1.defaults["HTTP_X_CSRFTOKEN"]
    response = send(page1, method, path)
    assert response.status_code in {403, 405}
    if response.status_code == 403:
        assert response.json()["error"]["code"] == "csrf_failed"


def test_a_csrf_token_from_elsewhere_or_a_foreign_origin_is_refused(page1):
    foreign = {"Origin": "https://evil.example"}
    assert send(page1, "post", "/api/conversations", headers=foreign).status_code == 403
    assert send(page1, "post", "/api/conversations", headers={"Origin": "null"}).status_code == 403
    page1.defaults["HTTP_X_CSRFTOKEN"] = "u" * 32
    assert send(page1, "post", "/api/conversations").status_code == 403


@pytest.mark.urls("tests.app.probe_urls")
def test_a_session_is_no_key(page1):
    response = send(page1, "post", "/v1/probe")
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "missing_api_key"


def test_the_page_asks_strangers_to_log_in_and_comes_back(anon, u1):
    for path in ("/", f"/c/{UNKNOWN}"):
        response = anon.get(path)
        assert response.status_code == 302
        assert response["Location"] == f"/login/?next={path}"


def test_a_logged_out_or_disabled_user_is_out_at_once(u1, page1):
    assert page1.get("/api/me").status_code == 200
    u1.is_active = False
    u1.save()
    assert page1.get("/api/me").status_code == 401


def test_what_the_page_is_told_holds_no_secret(page1, key1, conversation1):
    for path in ("/api/me", "/api/models", "/api/conversations", f"/api/conversations/{conversation1.id}"):
        text = page1.get(path).content.decode()
        assert not any(word in text for word in ("sha256", "password", "sk-", "sessionid", "csrf", "options", "url"))
    assert Client().get("/api/models").status_code == 401
