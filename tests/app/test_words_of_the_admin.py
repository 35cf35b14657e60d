"""What the admin's pages call things: words as people write them, moments that can be told apart."""

import re
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets, label_for_field
from django.contrib.auth.models import User
from django.test import RequestFactory
from django.utils import timezone

from streaming.models import Engine, Response
from streaming.store import creation

pytestmark = pytest.mark.django_db
#: As Django would spell what stands in a name of a column, and as people do.
WORDS = {"api": "API", "url": "URL", "ttft": "TTFT", "itl": "ITL", "llamacpp": "llama.cpp", "openai": "OpenAI"}
STATES = {"purpose": "api", "dialect": "d", "policy": "abort"}


@pytest.fixture
def staff(page1):
    User.objects.filter(username="u1").update(is_staff=True, is_superuser=True)
    return page1


def test_labels_are_spelled_as_people_spell_them(staff, u1):
    request = RequestFactory().get("/")
    request.user = User.objects.get(pk=u1.pk)
    labels = [label for choices in (Engine.Kind, Response.Purpose) for _, label in choices.choices]
    for model, page in admin.site._registry.items():
        shown = [name for name in page.get_list_display(request) if name != "__str__"]
        shown += [name for name in flatten_fieldsets(page.get_fieldsets(request, model(pk=1))) if name != "password"]
        labels += [str(model._meta.verbose_name), *(str(label_for_field(name, model, page)) for name in shown)]
    for label in labels:
        for word in re.findall(r"[A-Za-z]+", label):
            assert WORDS.get(word.lower(), word) in (word, "llama.cpp"), label
    assert "Llamacpp" not in labels
    assert {"TTFT (ms)", "ITL p50 (ms)", "API key", "URL", "llama.cpp", "OpenAI"} <= set(labels)


def test_a_refused_responses_head_has_no_empty_parts(staff):
    refused = Response.objects.create(**STATES, state="ended", end_state="rejected", end_reason="invalid_request")
    bare = Response.objects.create(**STATES)
    for row, parts in ((refused, ["invalid_request", refused.id]), (bare, [bare.id])):
        html = staff.get(f"/admin/streaming/response/{row.id}/change/").content.decode()
        head = html.split('<header class="response-head">')[1].split("</span>")[1].split("UTC")[0]
        texts = [part.strip() for part in re.sub("<[^>]+>", "", head).split("·")]
        assert texts == [*parts, f"{row.created_at:%Y-%m-%d %H:%M:%S}"]


def test_moments_are_told_to_the_millisecond_on_a_page_and_to_the_second_elsewhere(staff, conversation1):
    at = timezone.now().replace(2026, 3, 4, 15, 6, 7, 89_000)
    Response.objects.filter(id=conversation1.ended.id).update(created_at=at, ended_at=at + timedelta(milliseconds=12))
    html = staff.get(f"/admin/streaming/response/{conversation1.ended.id}/change/").content.decode()
    assert re.findall(r"2026-03-04 15:06:07\.\d+", html) == ["2026-03-04 15:06:07.089", "2026-03-04 15:06:07.101"]
    type(conversation1).objects.update(created_at=at)
    assert "2026-03-04 15:06:07<" in staff.get("/admin/streaming/conversation/").content.decode()


def test_what_is_handed_over_whole_has_no_first_token_and_its_page_says_when_it_left(staff):
    row = Response.objects.create(**STATES, stream=False, ttft_ms=567, state="ended", end_state="completed")
    Response.objects.update(ended_at=row.created_at + timedelta(milliseconds=562))
    html = staff.get("/admin/streaming/response/").content.decode()
    assert "567 ms" not in html
    assert "562 ms" in html
    html = staff.get(f"/admin/streaming/response/{row.id}/change/").content.decode()
    assert re.search(r"567 ms</td><td><span class=\"dot first\"></span> whole answer to its reader", html)
    assert "first text to a reader" not in html


def test_a_responses_time_begins_when_its_request_arrived(u1):
    """As its TTFT and its events' times do; the row comes later by all that is done before it."""
    new = creation.NewResponse(u1.pk, "api", "d", "m", "abort", True, {}, (), "", age_s=0.25)
    row = creation.insert(new)
    stored = Response.objects.get(id=row.id)
    assert stored.admitted_at - stored.created_at == row.admitted_at - row.created_at == timedelta(seconds=0.25)
