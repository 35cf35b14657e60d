"""Owns the browser of these tests: a headless Chromium or Firefox, people who are signed in, the watch on each."""

import os
import shutil
from contextlib import ExitStack, closing

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser import stock_firefox
from tests.browser.chat_page import ChatPage
from tests.browser.probe import SCRIPT, Watch
from tests.browser.wire import Wire
from tests.child import ROOT
from tests.gates import Gate

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: For what never happens: a machine may be busy for long.
WAIT_MS = 45_000
expect.set_options(timeout=WAIT_MS)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def built_page():
    """What every browser needs."""
    if not (ROOT / "frontend" / "dist" / "manifest.json").is_file():
        pytest.skip("the page is not built; run `make test`")


@pytest.fixture(scope="session")
def firefox_options(built_page, tmp_path_factory):
    """What starts a Firefox as Debian has it."""
    if stock_firefox.executable() is None:
        pytest.skip("no Firefox; install firefox-esr or name one in FIREFOX")
    return stock_firefox.launch_options(tmp_path_factory.mktemp("firefox"))


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args, browser_name, built_page, request):
    if browser_name == "firefox":
        return {**browser_type_launch_args, **request.getfixturevalue("firefox_options")}
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"no Chromium at {CHROMIUM}; install it or name it in CHROMIUM")
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture(scope="session")
def base_url(site):
    return site.url


@pytest.fixture(scope="session")
def person(site):
    """A person's client of the page's API, signed in by a one-time link; browsers share its session."""
    with ExitStack() as open_clients:
        clients: dict[str, httpx.Client] = {}

        def person(name: str) -> httpx.Client:
            if name not in clients:
                clients[name] = open_clients.enter_context(closing(site.page(name)))
            return clients[name]

        yield person


@pytest.fixture
def gate(site):
    """Where a script waits until the test opens it."""
    return Gate(site.data_dir)


@pytest.fixture
def wire(site):
    """A way to the site that can be cut."""
    wire = Wire(site.port)
    yield wire
    wire.close()


@pytest.fixture
def watched(site, new_context):
    """A new browser of nobody, under watch; afterwards it must not have complained of anything."""
    watches = []

    def open_context(origin=site.url, **options):
        context = new_context(**options)
        context.set_default_timeout(WAIT_MS)
        watch = Watch(origin)
        watch.attach(context)
        watches.append(watch)
        context.add_init_script(SCRIPT)
        return context, watch

    yield open_context
    for watch in watches:
        watch.verify()


@pytest.fixture
def open_chat(site, watched, person):
    """Opens the chat as a person: ``open_chat("ann", viewport=…)``."""

    def open_chat(name: str = "bea", path: str = "/", origin: str = site.url, **options) -> ChatPage:
        context, watch = watched(origin, **options)
        context.add_cookies([{"name": "sessionid", "value": person(name).cookies["sessionid"], "url": origin}])
        return ChatPage(context.new_page(), watch, origin).open(path)

    return open_chat


@pytest.fixture
def chat(open_chat):
    return open_chat()
