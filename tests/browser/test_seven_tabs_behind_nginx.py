"""One Chromium, HTTPS and deploy/nginx.conf: seven tabs with open streams, and a stop that waits for none of them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.probe import SCRIPT, Watch
from tests.e2e import nginx as fronts
from tests.e2e.certificate import throw_away
from tests.e2e.site import Site

TABS = 7
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.2}
PROTOCOLS = "[...new Set(performance.getEntriesByType('resource').map(entry => entry.nextHopProtocol))]"


@pytest.fixture(scope="module")
def secret_site(tmp_path_factory, model_dir):
    """A site that is reached by HTTPS only."""
    site = Site(tmp_path_factory.mktemp("secret"), model_dir, TRUST_FORWARDED_PROTO="1", HTTPS_ONLY="1")
    site.prepare()
    site.scripted(slots=50)
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory, secret_site):
    folder = tmp_path_factory.mktemp("nginx")
    nginx = fronts.ours(folder, [secret_site.port], secret_site.data_dir / "static", throw_away(folder))
    yield nginx
    nginx.close()


def test_seven_tabs_stream_at_once_and_a_stop_waits_for_none(secret_site, nginx, new_context):
    context = new_context(ignore_https_errors=True)
    watch = Watch(nginx.url)
    watch.attach(context)
    context.add_init_script(SCRIPT)
    page = context.new_page()
    page.goto(nginx.url + secret_site.manage("login_link", "ann"))
    expect(page).to_have_url(re.compile("/$"))
    tabs = [ChatPage(page, watch, nginx.url).open()]
    tabs += [tabs[0].second_tab("/") for _ in range(TABS - 1)]
    for tab in tabs:
        tab.page.bring_to_front()
        tab.play(**ENDLESS)
        tab.writes()
    ids = [tab.response_id for tab in tabs]
    assert len(set(ids)) == TABS
    assert page.evaluate(PROTOCOLS) == ["h2"]
    tabs[-1].stop.click()
    tabs[-1].ends("cancelled")
    ended = [secret_site.row(response_id)["end_state"] for response_id in ids]
    assert ended == [None] * (TABS - 1) + ["cancelled"]
    assert secret_site.row(ids[-1])["abort_proven"]
    for tab in tabs[:-1]:
        tab.page.bring_to_front()
        tab.stop.click()
        tab.ends("cancelled")
    watch.verify()
