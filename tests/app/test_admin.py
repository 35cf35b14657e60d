"""The admin: what it shows, what it hides, what it lets change, and how many queries a list costs."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from streaming.admin.timeline import timeline
from streaming.models import ApiKey, AuditEntry, Engine, Message, Response, ResponseEvent

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
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE streaming_response")  # PostgreSQL's estimate is as old as its last look
    with django_assert_max_num_queries(8):
        html = staff.get(RESPONSES).content.decode()
    for text in ("completed", "stop", "4059", "33 ms", "u1", "e1", "TTFT", "50 shown"):
        assert text in html


def test_older_pages_go_on_where_the_one_before_ended(staff, u1):
    made = [
        Response.objects.create(user=u1, purpose="api", dialect="openai_chat", model="demo", policy="abort").id
        for _ in range(120)
    ]
    # Many at one moment: what the time cannot tell apart the id does.
    Response.objects.update(created_at=timezone.now())
    seen, link = [], RESPONSES
    while link:
        html = staff.get(link).content.decode()
        seen += re.findall(r"/response/(resp_5F[0-9A-Z]+)/change/", html)
        older = re.search(r'href="([^"]*)" rel="next"', html)
        link = RESPONSES + unescape(older[1]) if older else None
    assert seen == [quote(id_) for id_ in sorted(made, reverse=True)]
    assert staff.get(f"{RESPONSES}?before=resp_unknown").status_code == 302


def test_the_list_is_filtered_and_searched(staff, conversation1):
    ended, live = conversation1.ended.id, conversation1.live.id
    for query, shown in [
        ("?end_state=cancelled", {ended}),
        ("?end_state=none", {live}),
        ("?end_reason=user", {ended}),
        ("?purpose=chat", {ended, live}),
        ("?purpose=batch", set()),
        ("?model=other", set()),
        (f"?engine={conversation1.live.engine_id}", {ended, live}),
        ("?engine=x", set()),
        ("?user=u1", {ended, live}),
        ("?user=u2", set()),
        ("?user=unknown", set()),
        ("?key=sk-unknown", set()),
        ("?wasted_over=6", {ended}),
        ("?wasted_over=7", set()),
        ("?wasted_over=-1", set()),
        (f"?q={live}", {live}),
        (f"?q={live[:11]}", {ended, live}),
        (f"?q={live[6:]}", set()),
        (f"?q={conversation1.id}", {ended, live}),
        ("?q=u1", {ended, live}),
        ("?q=u2", set()),
        ("?since=-1h", {ended, live}),
        ("?since=2100-01-01T00:00", set()),
        ("?until=2100-01-01T00:00&end_state=cancelled", {ended}),
        ("?since=yesterday", {ended, live}),
    ]:
        html = staff.get(RESPONSES + query).content.decode()
        assert {id_ for id_ in (ended, live) if f"/response/{quote(id_)}/" in html} == shown, query


@pytest.mark.parametrize("lookup", ["output_text__startswith", "user__password__startswith", "_connector", "a__b__c"])
def test_a_list_is_filtered_by_nothing_but_its_filters(staff, conversation1, key1, lookup):
    """Else an address tells letter by letter what the page does not show."""
    for table in ("response", "conversation", "apikey"):
        response = staff.get(f"/admin/streaming/{table}/?{lookup}=Because")
        assert response.status_code in (302, 400), table
    assert staff.get("/admin/streaming/apikey/?sha256__startswith=a").status_code == 400
    assert staff.get("/admin/streaming/conversation/?title__startswith=L").status_code == 400


def test_a_response_shows_its_timings_usage_and_log_but_not_what_was_said(staff, conversation1, settings):
    live, ended = (f"{RESPONSES}{r.id}/change/" for r in (conversation1.live, conversation1.ended))
    html = staff.get(live + "?text=1").content.decode()
    assert "<td>started</td>" in html
    assert "text: 4 characters" in html
    assert "en ☕" not in html
    assert "Because" not in staff.get(ended + "?text=1").content.decode()
    settings.ADMIN_SHOWS_TEXT = True
    assert "en ☕" not in staff.get(live).content.decode()
    assert not AuditEntry.objects.exists()
    assert "en ☕" in staff.get(live + "?text=1").content.decode()
    assert "Because" in staff.get(ended + "?text=1").content.decode()
    looks = AuditEntry.objects.order_by("id").values_list("actor", "action", "target_kind", "target_id", "address")
    assert list(looks) == [
        ("u1", "read text", "response", conversation1.live.id, "127.0.0.1"),
        ("u1", "read text", "response", conversation1.ended.id, "127.0.0.1"),
    ]


def test_a_response_shows_its_course_in_time(staff, conversation1):
    row = conversation1.ended
    times = [("started", 40, 0), ("text", 40, 2), ("text", 60, 2), ("text", 80, 1), ("text", 900, 1), ("ended", 950, 0)]
    for seq, (kind, at_ms, tokens) in enumerate(times, 1):
        ResponseEvent.objects.create(
            response=row, seq=seq, epoch=1, kind=kind, payload={}, at_ms=at_ms, token_count=tokens
        )
    created = timezone.now() - timedelta(seconds=5)
    Response.objects.filter(id=row.id).update(
        created_at=created, stop_requested_at=created + timedelta(milliseconds=920),
        ended_at=created + timedelta(milliseconds=950), queue_ms=7, ttft_ms=42,
    )  # fmt: skip
    html = staff.get(f"{RESPONSES}{row.id}/change/").content.decode()
    moments = re.findall(r'<td class="number">([^<]+)</td><td><span class="dot \w+"></span> ([^<]+)</td>', html)
    assert moments == [
        ("0 ms", "received"),
        ("7 ms", "engine took it"),
        ("40 ms", "first output stored"),
        ("42 ms", "first text to a reader"),
        ("920 ms", "stop asked for"),
        ("932 ms", "abort proven"),
        ("950 ms", "end"),
    ]
    assert "820 ms without an event, before event 5" in html


@pytest.fixture
def with_tools(conversation1):
    """The ended answer with a round of two calls: one answered, one not, and 300 ms of running them."""
    call = {"index": 0, "call_id": "hush-1", "name": "calculate", "arguments": "hush-2", "complete": True}
    log = [
        ("started", 40, {}),
        ("tool_call", 60, call),
        ("tool_result", 160, {"call_id": "hush-1", "output": "hush-3", "error": None}),
        ("tool_result", 360, {"call_id": "hush-1", "output": "hush-4", "error": "timed_out"}),
        ("text", 400, {"text": "hush-5"}),
    ]
    for seq, (kind, at_ms, payload) in enumerate(log, 1):
        row = {"response": conversation1.ended, "seq": seq, "epoch": 1, "kind": kind, "payload": payload}
        ResponseEvent.objects.create(**row, at_ms=at_ms)
    Response.objects.filter(id=conversation1.ended.id).update(queue_ms=7, output_text="hush-5")
    return conversation1.ended


def test_when_tools_ran_and_what_came_of_it_stands_in_the_course_without_a_word_of_it(staff, with_tools):
    html = staff.get(f"{RESPONSES}{with_tools.id}/change/").content.decode()
    found = (
        r'<td class="number">([^<]+)</td><td><span class="dot (\w+)"></span> tool result</td><td class="quiet">([^<]+)<'
    )
    assert re.findall(found, html) == [("160 ms", "good", "the tool answered"), ("360 ms", "bad", "timed_out")]
    assert "running tools: 300 ms" in html
    assert "output: 6 characters" in html
    assert ", error: timed_out" in html
    assert "NoneType" not in html
    assert "hush" not in html


def test_results_of_tools_are_read_and_replayed_where_text_may_be_seen(staff, with_tools, settings):
    settings.ADMIN_SHOWS_TEXT = True
    assert "hush-3" in staff.get(f"{RESPONSES}{with_tools.id}/change/?text=1").content.decode()
    replayed = staff.get(f"{RESPONSES}{with_tools.id}/replay/").json()["events"]
    assert replayed == [[60, "hush-2"], [160, "\nhush-3\n"], [360, "\nhush-4\n"], [400, "hush-5"]]


def test_what_was_said_is_replayed_with_its_times_where_text_may_be_seen(staff, conversation1, settings):
    path = f"{RESPONSES}{conversation1.live.id}/replay/"
    assert staff.get(path).status_code == 404
    settings.ADMIN_SHOWS_TEXT = True
    conversation1.live.events.filter(seq=3).update(at_ms=250)
    assert staff.get(path).json() == {"events": [[0, "Th"], [250, "en ☕"]]}
    assert [entry.action for entry in AuditEntry.objects.all()] == ["replayed"]
    assert staff.get(f"{RESPONSES}resp_unknown/replay/").status_code == 404


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
        f"{RESPONSES}{conversation1.live.id}/change/?text=1",
        f"/admin/streaming/conversation/{conversation1.id}/change/?text=1",
    ):
        html = staff.get(path).content.decode()
        assert "&lt;img" in html
        assert "<img src=x" not in html


def test_conversations_hide_titles_and_messages_unless_the_setting_says_so(staff, conversation1, settings):
    page = f"/admin/streaming/conversation/{conversation1.id}/change/"
    for path in ("/admin/streaming/conversation/", page, page + "?text=1"):
        html = staff.get(path).content.decode()
        assert not re.findall(r"Why\?|Lighthouses", html), path
    settings.ADMIN_SHOWS_TEXT = True
    assert "Lighthouses" not in staff.get(page).content.decode()
    html = staff.get(page + "?text=1").content.decode()
    assert "Lighthouses" in html
    assert "Why?" in html
    assert [entry.target_id for entry in AuditEntry.objects.all()] == [conversation1.id]


@pytest.mark.parametrize("table", ["response", "conversation", "apikey"])
def test_what_the_product_writes_is_not_changed_by_hand(staff, conversation1, key1, table):
    row = {"response": conversation1.ended, "conversation": conversation1, "apikey": ApiKey.objects.get()}[table]
    # Keys are made there, in their own form; one that there is stays as it is.
    assert staff.get(f"/admin/streaming/{table}/add/").status_code == (200 if table == "apikey" else 403)
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


@pytest.mark.parametrize(("count", "says"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (None, "0 tokens")])
def test_one_token_is_no_tokens(conversation1, count, says):
    now = timezone.now()
    stopped = {"stop_requested_at": now, "stop_ms": 12.5, "tokens_after_stop": count, "ended_at": now}
    Response.objects.filter(id=conversation1.ended.id).update(**stopped)
    moments = timeline(Response.objects.get(id=conversation1.ended.id), [], now).moments
    assert [m.says for m in moments if "after the stop" in m.says] == [f"12 ms after the stop, {says} made meanwhile"]
