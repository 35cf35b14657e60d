"""The admin: what it shows, what it hides, what it lets change, and how many queries a list costs."""

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User

from streaming.models import ApiKey, Engine, Message, Response

pytestmark = pytest.mark.django_db

RESPONSES = "/admin/streaming/response/"


@pytest.fixture
def staff(page1):
    User.objects.filter(username="u1").update(is_staff=True, is_superuser=True)
    return page1


def test_the_list_shows_end_state_reason_tokens_user_and_engine_in_few_queries(
    staff, u1, engine, conversation1, django_assert_max_num_queries
):
    for n in range(60):
        Response.objects.create(
            user=u1, purpose="api", dialect="openai_chat", model="demo", engine=engine, policy="abort", state="ended",
            end_state="completed", end_reason="stop", generated_tokens=4000 + n, ttft_ms=33.4,
        )  # fmt: skip
    with django_assert_max_num_queries(10):
        html = staff.get(RESPONSES).content.decode()
    for text in ("completed", "stop", "4059", "33", "u1", "e1 (demo)", "TTFT"):
        assert text in html


def test_the_list_is_filtered_and_searched(staff, conversation1):
    ended, live = conversation1.ended.id, conversation1.live.id
    for query, shown in [
        ("?end_state__exact=cancelled", {ended}),
        ("?end_reason=user", {ended}),
        ("?purpose__exact=chat", {ended, live}),
        ("?model=other", set()),
        (f"?engine__id__exact={conversation1.live.engine_id}", {ended, live}),
        (f"?q={live}", {live}),
        (f"?q={live[:11]}", {ended, live}),
        (f"?q={live[6:]}", set()),
        ("?q=u1", {ended, live}),
        ("?q=u2", set()),
        ("?created_at__gte=2100-01-01T00:00:00Z", set()),
    ]:
        html = staff.get(RESPONSES + query).content.decode()
        assert {id_ for id_ in (ended, live) if f"/response/{quote(id_)}/" in html} == shown, query


def test_a_response_shows_its_timings_usage_and_log_but_not_what_was_said(staff, conversation1, settings):
    path = f"{RESPONSES}{conversation1.live.id}/change/"
    html = staff.get(path).content.decode()
    assert "<td>started</td>" in html
    assert "text: 4 characters" in html
    assert "en ☕" not in html
    assert "Because" not in staff.get(f"{RESPONSES}{conversation1.ended.id}/change/").content.decode()
    settings.ADMIN_SHOWS_TEXT = True
    assert "en ☕" in staff.get(path).content.decode()
    assert "Because" in staff.get(f"{RESPONSES}{conversation1.ended.id}/change/").content.decode()


def test_a_response_shows_what_each_engine_made_and_how_that_is_known(staff, conversation1):
    attempt = {
        "engine_id": 1, "engine": "<b>one", "request_id": "resp_1-1", "started_at": None, "first_output_ms": 3.5,
        "duration_ms": 40.0, "prompt_tokens": None, "cached_tokens": None, "generated_tokens": 30, "count": "at_least",
        "ended": "upstream_lost", "abort_proven": None,
    }  # fmt: skip
    late = {"count": "exact", "ended": "user", "abort_proven": True, "abort_proven_ms": 7123.4}
    Response.objects.filter(id=conversation1.ended.id).update(attempts=[attempt, {**attempt, **late}])
    html = staff.get(f"{RESPONSES}{conversation1.ended.id}/change/").content.decode()
    for text in ("&lt;b&gt;one", "at least 30", "upstream_lost", "proven after 7123 ms", "<td>30</td>"):
        assert text in html


def test_text_in_the_admin_is_never_html(staff, conversation1, settings):
    settings.ADMIN_SHOWS_TEXT = True
    hostile = "<img src=x onerror=alert(1)>"
    Message.objects.filter(role="user").update(text=hostile)
    conversation1.live.events.filter(seq=2).update(payload={"text": hostile})
    for path in (
        f"{RESPONSES}{conversation1.live.id}/change/",
        f"/admin/streaming/conversation/{conversation1.id}/change/",
    ):
        html = staff.get(path).content.decode()
        assert "&lt;img" in html
        assert "<img src=x" not in html


def test_conversations_hide_titles_and_messages_unless_the_setting_says_so(staff, conversation1, settings):
    pages = ["/admin/streaming/conversation/", f"/admin/streaming/conversation/{conversation1.id}/change/"]
    said = [staff.get(path).content.decode() for path in pages]
    assert "Why?" not in "".join(said)
    assert "Lighthouses" not in said[0]
    settings.ADMIN_SHOWS_TEXT = True
    assert "Lighthouses" in staff.get(pages[0]).content.decode()
    assert "Why?" in staff.get(pages[1]).content.decode()


@pytest.mark.parametrize("table", ["response", "conversation", "apikey"])
def test_what_the_product_writes_is_not_changed_by_hand(staff, conversation1, key1, table):
    row = {"response": conversation1.ended, "conversation": conversation1, "apikey": ApiKey.objects.get()}[table]
    assert staff.get(f"/admin/streaming/{table}/add/").status_code == 403
    assert staff.get(f"/admin/streaming/{table}/{row.pk}/change/").status_code == 200
    assert staff.post(f"/admin/streaming/{table}/{row.pk}/change/", {}).status_code == 403
    assert staff.post(f"/admin/streaming/{table}/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_an_engine_is_added_and_switched_off(staff):
    form = {
        "name": "e9", "kind": "scripted", "url": "", "model": "demo", "tokenizer": "", "context_tokens": "2048",
        "slots": "4", "enabled": "on", "options": "{}",
    }  # fmt: skip
    assert staff.post("/admin/streaming/engine/add/", form).status_code == 302
    row = Engine.objects.get(name="e9")
    del form["enabled"]
    assert staff.post(f"/admin/streaming/engine/{row.pk}/change/", form).status_code == 302
    assert not Engine.objects.get(name="e9").enabled


def test_keys_are_revoked_by_an_action_and_never_shown(staff, key1):
    row = ApiKey.objects.get()
    for path in ("/admin/streaming/apikey/", f"/admin/streaming/apikey/{row.pk}/change/"):
        html = staff.get(path).content.decode()
        assert row.prefix in html
        assert key1 not in html
        assert row.sha256 not in html
    response = staff.post("/admin/streaming/apikey/", {"action": "revoke", "_selected_action": [row.pk]}, follow=True)
    assert "1 key(s) revoked." in response.content.decode()
    assert ApiKey.objects.get().revoked_at is not None


def test_the_admin_is_for_staff(anon, page2):
    for client in (anon, page2):
        assert client.get(RESPONSES).status_code == 302
