"""Owns what the tests of the app share: two users, their clients and keys, settings as a new process reads them."""

import runpy

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from deploy.setup.places import ROOT
from streaming.models import ApiKey, Conversation, Engine, Message, Response, ResponseEvent
from streaming.store import access
from streaming.views import openid
from tests import openid_provider


@pytest.fixture
def u1(db):
    return User.objects.create_user("u1")


@pytest.fixture
def u2(db):
    return User.objects.create_user("u2")


@pytest.fixture
def anon():
    return Client(enforce_csrf_checks=True, raise_request_exception=False)


class Page(Client):
    """A logged-in browser that sends its CSRF token, as the front end does."""

    def __init__(self, user):
        super().__init__(raise_request_exception=False, enforce_csrf_checks=True)
        self.force_login(user)
        self.cookies["csrftoken"] = "t" * 32
        self.defaults["HTTP_X_CSRFTOKEN"] = "t" * 32


@pytest.fixture
def page1(u1):
    return Page(u1)


@pytest.fixture
def page2(u2):
    return Page(u2)


@pytest.fixture
def key1(u1):
    return access.issue_key(u1, "test")


@pytest.fixture
def key(u1, key1):
    """The row of ``key1``."""
    return ApiKey.objects.get(user=u1)


@pytest.fixture
def engine(db):
    return Engine.objects.create(name="e1", kind="scripted", model="demo", context_tokens=2048)


@pytest.fixture
def conversation1(u1, engine):
    """A conversation of u1: a question with an ended answer, and one whose answer is running."""
    conversation = Conversation.objects.create(user=u1, title="Lighthouses", model="demo")
    question = Message.objects.create(conversation=conversation, role="user", text="Why?")
    answer = Message.objects.create(conversation=conversation, parent=question, role="assistant")
    ended = Response.objects.create(
        user=u1, conversation=conversation, message=answer, purpose="chat", dialect="responses", model="demo",
        engine=engine, policy="grace=30", state="ended", end_state="cancelled", end_reason="user", last_seq=9, epoch=2,
        output_text="Because of", generated_tokens=7, completion_tokens=6, sent_tokens=5, stop_ms=12.5,
        stop_requested_at=timezone.now(), tokens_after_stop=1, abort_proven=True,
    )  # fmt: skip
    again = Message.objects.create(conversation=conversation, parent=answer, role="user", text="And then?")
    late = Message.objects.create(conversation=conversation, parent=again, role="assistant")
    running = Response.objects.create(
        user=u1, conversation=conversation, message=late, purpose="chat", dialect="responses", model="demo",
        engine=engine, policy="grace=30", state="running",
    )  # fmt: skip
    drafts = [("started", {}), ("text", {"text": "Th"}), ("text", {"text": "en ☕"})]
    for seq, (kind, payload) in enumerate(drafts, 1):
        ResponseEvent.objects.create(response=running, seq=seq, epoch=1, kind=kind, payload=payload)
    conversation.ended, conversation.live = ended, running
    return conversation


@pytest.fixture
def noon(monkeypatch):
    """It is noon of today and stays so: no day ends between what a test does and what it sees. Rows begin then too."""
    at = timezone.now().replace(hour=12)
    monkeypatch.setattr(timezone, "now", lambda: at)


@pytest.fixture
def settings_with(monkeypatch, tmp_path):
    """The settings as a new process would read them; contents of files by the name of the setting."""

    def read(files=None, **variables):
        for name in ("SECRET_KEY", "DATABASE_URL"):
            monkeypatch.delenv(name, raising=False)
        for name, content in (files or {}).items():
            path = tmp_path / name
            path.write_text(content)
            monkeypatch.setenv(f"{name}_FILE", str(path))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(ROOT / "chatsite" / "settings.py"))

    return read


@pytest.fixture
def provider(settings):
    with openid_provider.running() as provider:
        settings.OIDC_ISSUER = provider.issuer
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = openid_provider.ID, openid_provider.SECRET
        settings.OIDC_ACCOUNTS = "open"
        openid._provider_of.cache_clear()
        yield provider


@pytest.fixture
def visitor():
    return Client(raise_request_exception=False)
