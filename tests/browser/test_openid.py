"""Logging in by a provider in a real browser: no policy is in the way, and a draft outlives it. Costs about 15 s."""

import re

import pytest
from playwright.sync_api import expect

from tests import openid_provider
from tests.browser.chat_page import ChatPage
from tests.browser.held import Held
from tests.browser.test_conversations import LIST
from tests.e2e.site import Site


@pytest.fixture
def provider():
    with openid_provider.running() as provider:
        yield provider


@pytest.fixture
def openid_site(tmp_path, model_dir, provider):
    site = Site(
        tmp_path,
        model_dir,
        OIDC_ISSUER=provider.issuer,
        OIDC_CLIENT_ID=openid_provider.ID,
        OIDC_CLIENT_SECRET=openid_provider.SECRET,
        OIDC_LABEL="Log in at the <office>",
        OIDC_ACCOUNTS="open",
        PASSWORD_LOGIN="0",
    )
    try:
        site.prepare()
        site.start()
        yield site
    finally:
        site.stop()


def test_a_person_logs_in_at_the_provider_and_finds_their_draft_again(openid_site, provider, watched):
    context, watch = watched(openid_site.url)
    chat = ChatPage(context.new_page(), watch, openid_site.url)
    chat.page.goto(openid_site.url)
    button = chat.page.get_by_role("link", name="Log in at the <office>")
    expect(chat.page.get_by_role("textbox")).to_have_count(0)
    button.click()
    expect(chat.page.get_by_test_id("empty-state")).to_contain_text("ann")
    chat.composer.fill("a long question")
    Held(chat.page, LIST)  # else what it asks by itself may be refused first, and lead to the login
    context.clear_cookies(name="sessionid")
    chat.page.reload()
    expect(chat.page).to_have_url(re.compile(r"/login/\?next=/$"))
    button.click()
    expect(chat.composer).to_have_value("a long question")
    expect(chat.page).to_have_url(f"{openid_site.url}/")
    # The way to the provider was the only one that led away.
    assert {url.partition("?")[0] for url in watch.strangers} == {f"{provider.issuer}/authorize"}
    watch.strangers.clear()
