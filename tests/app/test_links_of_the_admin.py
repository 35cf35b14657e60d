"""A row of the admin is one row however its address is written, and no address shows text without a note of it.

Nor does one that asks for what there cannot be end in a fault.
"""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import DateTimeField
from django.urls import reverse
from django.utils import timezone

from streaming.models import (
    AuditEntry,
    Batch,
    Identity,
    LedgerCheck,
    ModelPrice,
    Quota,
    ServiceAccount,
    WebhookDelivery,
    WebhookEndpoint,
)
from streaming.store import invitations

pytestmark = pytest.mark.django_db
TABLES = sorted(model._meta.label_lower for model in admin.site._registry)


@pytest.fixture
def staff(page1):
    User.objects.filter(username="u1").update(is_staff=True, is_superuser=True)
    return page1


@pytest.fixture
def rows(conversation1, key1, u1, u2):
    """A row of every table that the admin has; one that gets a page later has its row made here."""
    later = timezone.now() + timedelta(days=1)
    Batch.objects.create(user=u1, endpoint="/v1/responses", input_file_id="file_1", expires_at=later)
    Identity.objects.create(user=u1, issuer="https://id.example", subject="s_5F")
    LedgerCheck.objects.create(kind="engine", seen=1)
    ModelPrice.objects.create(model="demo", currency="EUR", input_price=1, cached_price=1, output_price=1)
    Quota.objects.create(user=u1)
    ServiceAccount.objects.create(user=u2)
    endpoint = WebhookEndpoint.objects.create(name="w", url="https://w.example", secret_env="WEBHOOK_SECRET_W")
    WebhookDelivery.objects.create(endpoint=endpoint, response_id=conversation1.ended.id, payload={})
    invitations.issue(u1, timedelta(days=1))
    AuditEntry.objects.create(actor=u1.username, actor_id=u1.pk, action="a")
    Group.objects.get_or_create(name="viewer")


def listed(staff, label):
    """Addresses of the rows' pages as the list of a table links them."""
    html = staff.get(reverse(f"admin:{label.replace('.', '_')}_changelist")).content.decode()
    table = html.split('id="result_list"')[1].split("</table>")[0]
    found = re.findall(r'href="(/admin/[^"]+/change/)[^"]*"', table)
    return {unescape(link) for link in found if link.startswith(f"/admin/{label.replace('.', '/')}/")}


def shown(staff, link):
    """A page without what is new in each."""
    answer = staff.get(link)
    assert answer.status_code == 200, link
    return re.sub(r'(name="csrfmiddlewaretoken" value=)"\w+"', r"\1", answer.content.decode())


@pytest.mark.parametrize("label", TABLES)
def test_the_page_of_a_lists_link_is_the_page_of_the_plain_id(staff, rows, settings, label):
    settings.ADMIN_SHOWS_TEXT = True
    model = next(model for model in admin.site._registry if model._meta.label_lower == label)
    links = listed(staff, label)
    plain = {f"/admin/{label.replace('.', '/')}/{pk}/change/" for pk in model.objects.values_list("pk", flat=True)}
    if label == "streaming.auditentry":
        assert not links  # Its rows are read in the list.
        return
    assert len(links) == len(plain) > 0
    assert sorted(map(frame, (shown(staff, link) for link in links))) == sorted(
        map(frame, (shown(staff, link) for link in plain))
    )


def frame(html):
    """What of a page does not move with the time: a running answer's course does."""
    return re.sub(r"<svg.*?</svg>", "<svg>", html, flags=re.DOTALL)


@pytest.mark.parametrize("label", ["streaming.response", "streaming.conversation"])
def test_a_look_at_text_is_noted_once_on_either_spelling(staff, rows, settings, label):
    settings.ADMIN_SHOWS_TEXT = True
    model = next(model for model in admin.site._registry if model._meta.label_lower == label)
    plain = {f"/admin/{label.replace('.', '/')}/{pk}/change/" for pk in model.objects.values_list("pk", flat=True)}
    links = listed(staff, label)
    assert not links & plain
    for link in links | plain:
        before = AuditEntry.objects.count()
        html = shown(staff, f"{link}?text=1")
        assert re.search("en ☕|Because of", html), link
        (look,) = looks()[before:]
        assert look[0] == "read text"
        assert look[1] in html
        assert not re.search("en ☕|Because of", shown(staff, link))
        for other in ("history", "delete"):
            staff.get(link.replace("/change/", f"/{other}/") + "?text=1")
        assert AuditEntry.objects.count() == before + 1


def looks():
    return list(AuditEntry.objects.order_by("id").values_list("action", "target_id"))


def test_an_answer_is_replayed_and_stopped_from_its_lists_link(staff, conversation1, settings):
    settings.ADMIN_SHOWS_TEXT = True
    live = conversation1.live
    (link,) = (link for link in listed(staff, "streaming.response") if live.id.removeprefix("resp_") in link)
    html = staff.get(link + "?text=1").content.decode()
    assert f'action="/admin/live/{live.id}/stop/"' in html
    for replay in (re.search(r'data-source="([^"]+)"', html)[1], f"/admin/streaming/response/{live.id}/replay/"):
        assert staff.get(replay + "?text=1").json()["events"][-1][1] == "en ☕"
    assert looks() == [("read text", live.id), *[("replayed", live.id)] * 2]


def test_what_cannot_be_noted_is_not_shown(staff, conversation1, settings, monkeypatch):
    settings.ADMIN_SHOWS_TEXT = True

    def fail(*args, **kwargs):
        raise OSError("no room")

    monkeypatch.setattr("streaming.admin.text_shown.note", fail)
    answer = staff.get(f"/admin/streaming/response/{conversation1.ended.id}/change/?text=1")
    assert answer.status_code == 500
    assert "Because of" not in answer.content.decode()


#: There are such moments where they were written, but not in UTC; there are no such years.
NO_MOMENTS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
NO_YEARS = ("0", "10000", "9" * 20, "-1")


@pytest.mark.parametrize("label", TABLES)
def test_a_moment_that_no_calendar_has_is_an_address_that_cannot_be_read(staff, label):
    model = next(model for model in admin.site._registry if model._meta.label_lower == label)
    link = reverse(f"admin:{label.replace('.', '_')}_changelist")
    times = [field.name for field in model._meta.concrete_fields if isinstance(field, DateTimeField)]
    asked = [(f"{name}__gte", value) for name in times for value in NO_MOMENTS]
    asked += [(f"{name}__year", value) for name in times for value in NO_YEARS]
    for name, value in [*asked, *((name, value) for name in ("since", "until") for value in NO_MOMENTS)]:
        answer = staff.get(link, {name: value})
        assert answer.status_code in (200, 302, 400), (name, value)
        assert answer.status_code != 302 or answer["Location"].endswith("?e=1")


@pytest.mark.parametrize("label", TABLES)
def test_a_row_that_there_cannot_be_is_none(staff, label, settings):
    settings.ADMIN_SHOWS_TEXT = True
    table = reverse(f"admin:{label.replace('.', '_')}_changelist")
    for page in ("change", "delete", "history"):
        assert staff.get(f"{table}%00/{page}/").status_code in (302, 403, 404), page
    assert staff.get(f"{table}9999/change/?_to_field=").status_code in (302, 403, 404)
    assert staff.get(table, {"id__range": "1"}).status_code in (302, 400)


def test_usage_of_days_that_no_calendar_has_is_that_of_none(staff):
    for asked in ({"until": "0001-01-01"}, {"since": "0001-01-01", "until": "9999-12-31"}, {"days": "0001" + "0" * 20}):
        for page in (reverse("admin:chat_usage"), reverse("admin:chat_usage_export", args=["json"])):
            assert staff.get(page, asked).status_code == 200
