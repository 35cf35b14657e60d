"""Shared links: who makes them, what they show to whom, and when they show nothing any more."""

import json
import re

import pytest
from django.test import Client

from streaming.models import Message, Response, Share
from streaming.store import erasure, shares

pytestmark = pytest.mark.django_db


@pytest.fixture
def leaf(conversation1):
    """The ended answer of u1's conversation."""
    conversation1.system_prompt = "You are a secret."
    conversation1.save()
    return conversation1.ended.message_id


@pytest.fixture
def link(page1, conversation1, leaf):
    return make(page1, conversation1, leaf).json()["path"]


def make(page, conversation, leaf):
    return page.post(f"/api/conversations/{conversation.id}/shares", {"message": leaf}, content_type="application/json")


def shown(path):
    """What somebody without any session reads there; None for nothing."""
    answer = Client().get(path)
    if answer.status_code == 404:
        return None
    boot = re.search(r'<script id="boot" type="application/json">(.*?)</script>', answer.content.decode())
    assert boot
    return json.loads(boot[1])["shared"]


def not_there(path):
    answer = Client().get(path)
    return answer.status_code, re.sub('nonce="[^"]*"', "", answer.content.decode())


def test_a_link_shows_the_path_to_whoever_has_it_and_nothing_else(page1, conversation1, leaf, link):
    assert shown(link) == {
        "title": "Lighthouses",
        "turns": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because of"}],
    }
    answer = Client().get(link)
    assert not answer.cookies
    assert "noindex" in answer.headers["X-Robots-Tag"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] in ("same-origin", "no-referrer")
    assert "require-trusted-types-for 'script'" in answer.headers["Content-Security-Policy"]
    page = answer.content.decode()
    for unsaid in ("You are a secret.", "csrf", "u1", conversation1.id, leaf, conversation1.ended.id):
        assert unsaid not in page
    assert Client().post(link).status_code == 405


def test_the_token_is_stored_as_its_hash_and_shown_once(page1, conversation1, link):
    token = link.removeprefix("/s/")
    assert shares.TOKEN_FORMAT.fullmatch(token)
    assert token not in str(vars(Share.objects.get()))
    assert token not in page1.get(f"/api/conversations/{conversation1.id}/shares").content.decode()


def test_a_revoked_link_is_like_one_that_never_was(page1, page2, conversation1, link):
    (row,) = page1.get(f"/api/conversations/{conversation1.id}/shares").json()["data"]
    where = f"/api/conversations/{conversation1.id}/shares/{row['id']}"
    assert page2.delete(where).status_code == 404
    assert shown(link)
    assert page1.delete(where).status_code == 204
    assert shown(link) is None
    assert not_there(link) == not_there("/s/" + "x" * 43)
    assert page1.get(f"/api/conversations/{conversation1.id}/shares").json() == {"data": []}


def test_what_is_deleted_or_erased_is_gone_from_a_link(page1, conversation1, link, u1):
    Response.objects.filter(pk=conversation1.live.pk).update(state="ended", end_state="completed", end_reason="stop")
    erasure.erase(Response.objects.filter(pk=conversation1.ended.pk))
    assert shown(link)["turns"] == [{"role": "user", "content": "Why?"}]
    u1.is_active = False
    u1.save()
    assert shown(link) is None
    u1.is_active = True
    u1.save()
    page1.delete(f"/api/conversations/{conversation1.id}")
    assert shown(link) is None
    assert not Share.objects.exists()


def test_only_ones_own_ended_messages_are_shared_and_not_without_end(page1, page2, conversation1, leaf, monkeypatch):
    assert make(page2, conversation1, leaf).status_code == 404
    running = make(page1, conversation1, conversation1.live.message_id)
    assert (running.status_code, running.json()["error"]["param"]) == (400, "message")
    assert "still being written" in running.json()["error"]["message"]
    elsewhere = Message.objects.exclude(conversation=conversation1).first()
    assert elsewhere is None
    assert "no message of this conversation" in make(page1, conversation1, "msg_x").json()["error"]["message"]
    monkeypatch.setattr(shares, "LIVE_SHARES_MAX", 1)
    assert make(page1, conversation1, leaf).status_code == 201
    assert "revoke one first" in make(page1, conversation1, leaf).json()["error"]["message"]


@pytest.mark.parametrize("token", ["x", "x" * 44, "%00", "..", "é" * 43])
def test_a_token_that_cannot_be_asks_the_database_nothing(token, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert Client().get(f"/s/{token}").status_code in (400, 404)
