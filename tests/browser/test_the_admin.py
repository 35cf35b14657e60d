"""The admin's own pages in a real browser: they work under their policy, also where no WebSocket gets through."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.reading import chat, eventually, script

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)


@pytest.fixture
def admin(site, watched, person):
    """A superuser's page, under watch."""
    cookie = person("boss").cookies["sessionid"]
    site.write("UPDATE auth_user SET is_staff = 1, is_superuser = 1 WHERE username = 'boss'")
    context, _ = watched()
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": site.url}])
    return context.new_page()


@pytest.fixture
def endless(site, key):
    """An answer that goes on with nobody reading; its id."""
    with site.api(key) as api:
        headers = {"X-Disconnect-Policy": "background"}
        stream = chat(api, ENDLESS, until=lambda so_far: len(so_far.seqs) > 3, headers=headers)
    yield stream.response_id
    with site.api(key) as api:
        api.post(f"/v1/responses/{stream.response_id}/cancel")


@pytest.mark.parametrize("has_sockets", [True, False])
def test_what_runs_is_seen_growing_and_stopped(site, admin, endless, has_sockets):
    if not has_sockets:
        admin.route_web_socket(re.compile("/ws/admin/live/"), lambda socket: socket.close())
    admin.goto(f"{site.url}/admin/live/")
    row = admin.locator(f"tr[data-id={endless}]")
    expect(admin.get_by_role("status")).to_have_text("live" if has_sockets else "asking every two seconds")
    tokens = row.locator("td").nth(5)
    first = tokens.text_content()
    expect(tokens).not_to_have_text(first)
    row.get_by_role("button", name="Stop").click()
    expect(row).to_have_count(0)
    assert eventually(lambda: site.row(endless)["end_state"]) == "cancelled"
    assert site.row(endless)["end_reason"] == "admin"


def test_lists_timelines_and_charts_break_no_rule_of_the_policy(site, admin, endless):
    for path in (
        "",
        "usage/",
        "usage/?group=user&days=7",
        "streaming/response/",
        "streaming/auditentry/",
        "auth/user/",
    ):
        admin.goto(f"{site.url}/admin/{path}")
        assert admin.locator("h1").first.is_visible()
    admin.goto(f"{site.url}/admin/streaming/response/{endless}/change/")
    expect(admin.locator("svg.timeline")).to_be_visible()
    admin.get_by_role("button", name="Stop").click()
    expect(admin.locator(".response-head .state")).to_have_text("cancelled")
    expect(admin.get_by_role("button", name="Stop")).to_have_count(0)


def test_every_column_of_the_responses_is_in_view_at_1280_pixels_and_filters_unfold(site, admin, endless):
    admin.set_viewport_size({"width": 1280, "height": 800})
    admin.goto(f"{site.url}/admin/streaming/response/")
    heads = admin.locator("#result_list thead th")
    expect(heads).to_have_count(10)
    right = heads.last.bounding_box()
    assert right["x"] + right["width"] <= 1280
    results = admin.locator("#changelist-form .results")
    assert results.evaluate("it => it.scrollWidth - it.clientWidth") <= 0
    expect(admin.locator("#changelist-filter")).to_be_hidden()
    admin.locator(".folded-filters > summary").click()
    admin.get_by_role("link", name="not ended").click()
    expect(admin.locator("#result_list")).to_contain_text(endless)
    admin.get_by_role("link", name="show all").click()
    expect(admin.get_by_role("link", name="show all")).to_have_count(0)
