"""Three web processes behind nginx, one after the other is sent away and replaced while everybody reads. About 35 s."""

import re
import signal

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage
from tests.browser.probe import SCRIPT, Watch
from tests.cluster.following import Follower
from tests.cluster.stack import stack
from tests.e2e.certificate import throw_away
from tests.e2e.reading import eventually
from tests.gates import Gate

COUNTED = [f"w{number}" for number in range(900)]
WHOLE = " ".join(COUNTED) + " "
DELAY_S = 0.04
READERS = 12
#: What the page may say of the link while a process is replaced.
SAID = (
    "window.__links = new Set(); new MutationObserver(() => window.__links.add(document.querySelector("
    "'[data-testid=status]')?.dataset.link)).observe(document, {subtree: true, childList: true, attributes: true})"
)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory):
    """Opened when every process was: until then no answer comes to its end, however long that takes."""
    return Gate(tmp_path_factory.mktemp("gates"))


@pytest.fixture(scope="module")
def rolled(tmp_path_factory, model_dir, replaced):
    folder = tmp_path_factory.mktemp("rolled")
    settings = {"TRUST_FORWARDED_PROTO": "1", "HTTPS_ONLY": "1", "IDLE_TIMEOUT_S": "300"}
    settings |= {"DJANGO_SETTINGS_MODULE": "tests.gates.settings", "GATES_DIR": str(replaced.folder)}
    with stack(folder, model_dir, certificate=throw_away(folder), **settings) as running:
        words = [{"text": f"{word} "} for word in COUNTED]
        outputs = [*words[:-1], replaced.step, words[-1]]
        running.sites[0].scripted(slots=300, script={"outputs": outputs, "delay_s": DELAY_S})
        with running.api(running.key) as client:
            eventually(lambda: "scripted" in client.get("/v1/models").text)
        yield running


@pytest.fixture
def page(rolled, new_context):
    context = new_context(ignore_https_errors=True)
    watch = Watch(rolled.url)
    watch.attach(context)
    watch.allow("Failed to load resource")
    context.add_init_script(SCRIPT)
    page = context.new_page()
    page.goto(rolled.url + rolled.sites[0].manage("login_link", "ann"))
    expect(page).to_have_url(re.compile("/$"))
    return ChatPage(page, watch, rolled.url).open()


class Plain(Follower):
    """A client that knows of no resuming: it reads until the first error or end."""

    def _told_an_end(self):
        return bool(self.streams and (self.error or self.streams[-1].is_done or self.streams[-1].broke))


def test_while_each_process_is_replaced_who_resumes_loses_nothing_and_others_are_told(rolled, replaced, page):
    page.ask("Count for me")
    page.writes(40)
    page.page.evaluate(SAID)
    followers = [Follower(rolled, "Count", policy="grace=30") for _ in range(READERS)]
    plain = [Plain(rolled, "Count", policy="abort") for _ in range(READERS // 2)]
    for reader in [*followers, *plain]:
        reader.until(lambda r: r.text)
    ids = [page.response_id, *(reader.response_id for reader in followers)]
    owners = {rolled.sites[0].row(response_id)["owner"] for response_id in ids}
    assert len(owners) == 3  # nginx has divided them
    for site in rolled.sites:
        assert site.web.end(signal.SIGTERM) == 0
        with rolled.api(rolled.key) as client:
            assert client.get("/v1/models").status_code == 200
        site.start()
    replaced.open()
    page.ends(timeout_s=90)
    assert page.text == WHOLE.strip()
    for reader in followers:
        reader.ended()
        assert reader.text == WHOLE
        assert reader.error is None
        assert reader.seqs == sorted(set(reader.seqs))
    for reader in plain:
        reader.ended()
        assert reader.error["code"] == "stream_detached"
        assert reader.error["resumable"] is True
        assert WHOLE.startswith(reader.text)
    rows = [rolled.sites[0].row(response_id) for response_id in ids]
    assert {(row["end_state"], row["output_text"]) for row in rows} == {("completed", WHOLE)}
    assert all(row["epoch"] >= 2 for row in rows)
    assert set(page.page.evaluate("[...window.__links]")) <= {"live", "reconnecting", "connecting", "closed", "", None}
    assert page.error_card.count() == 0
    assert not {status for reader in followers for status in reader.refusals} - {503}
