"""The policies in a real Chromium: login and the admin work under them without one violation."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import sync_playwright

from streaming.store import access

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
REPORT = "document.addEventListener('securitypolicyviolation', e => console.error('VIOLATION ' + e.violatedDirective))"


@pytest.fixture
def root(db):
    access.issue_key(User.objects.create_superuser("root", password="correct horse battery"), "test")


def visit(url):
    """Walk through login, the admin and out again; return what the console complained of."""
    said = []
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
        page.add_init_script(REPORT)
        page.on("console", lambda message: said.append((message.text, page.url)) if message.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url + "/login/?next=/admin/")
        assert page.locator("button").evaluate("b => getComputedStyle(b).cursor") == "pointer"
        page.locator("#id_username").fill("root")
        page.locator("#id_password").fill("correct horse battery")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(url + "/admin/")
        for path in ("response/", "conversation/", "engine/add/", "apikey/"):
            page.goto(f"{url}/admin/streaming/{path}")
        page.locator("#action-toggle").check()
        page.locator("select[name=action]").select_option("revoke")
        page.locator("button[name=index]").click()
        page.get_by_text("1 key(s) revoked.").wait_for()
        page.locator("#logout-form button").click()
        page.get_by_text("Log in again").wait_for()
    return said


def test_forms_work_and_login_and_the_admin_break_no_rule_of_their_policy(live_server, root):
    # On a thread of its own: Playwright runs an event loop, which Django's test case would take for ours.
    with ThreadPoolExecutor(1) as threads:
        said = threads.submit(visit, live_server.url).result()
    assert said == []
