"""An answer whose process is killed, or leaves, amid a tool: another runs the call and goes on. Costs about 12 s."""

import contextlib
import signal

import pytest

from tests import databases
from tests.cluster.postgres import ClusterSite
from tests.e2e.reading import eventually, read, until_offered
from tests.e2e.site import QUICK
from tests.e2e.test_answers_amid_a_tool import Asked, Marks, call, closing_of, items, scripted

RESULTS = "SELECT COUNT(*) FROM streaming_responseevent WHERE response_id = ? AND kind = 'tool_result'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="module")
def tooled(tmp_path_factory, model_dir, folder):
    """Two web processes with a tool that waits, on a database of their own."""
    database = databases.new()
    env = {
        **QUICK,
        "DJANGO_SETTINGS_MODULE": "tests.e2e.waiting_settings",
        "WAITING_TOOL_DIR": str(folder),
        "PAGE_TOOLS": "calculate,wait",
        "TOOL_TIMEOUT_S": "60",
        "DRAIN_S": "0.2",
    }
    sites = [ClusterSite(tmp_path_factory.mktemp(name), model_dir, database, env) for name in ("five", "six")]
    sites[0].migrate()
    for site in sites:
        site.start()
    yield sites
    for site in sites:
        site.stop()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_call_without_a_result_is_run_by_who_takes_the_answer_over(tooled, folder, sign):
    one, two = tooled
    if one.web.popen.poll() is not None:
        one.start()
    done, tool = (Marks(folder, f"{name}{sign}") for name in ("done", "waits"))
    done.go()
    model = f"calls{sign}"
    one.scripted(model, markers="hermes", script=scripted(done.call, tool.call, call("calculate", expression="6*7")))
    with contextlib.closing(one.page("ann")) as page, contextlib.closing(two.page("ann")) as other:
        for each in (page, other):
            until_offered(each, model)
        asked = Asked(one, "?", model=model)
        tool.began()
        response_id = asked.response_id
        # A result is stored beside the next call, which does not wait for it.
        eventually(lambda: two.rows(RESULTS, response_id) == [(1,)])
        if sign == signal.SIGKILL:
            one.kill()
        else:
            one.web.popen.send_signal(sign)
        cut = asked.result()
        assert "response.completed" not in cut.raw.decode()
        tool.began(times=2)
        tool.go()
        rest = read(other, "GET", f"/api/responses/{response_id}/stream", headers={"Last-Event-ID": cut.last_id})
        whole = read(other, "GET", f"/api/responses/{response_id}/stream")
    assert cut.text + rest.text == whole.text == "Let me see. It is done."
    assert closing_of(rest) == closing_of(whole)
    outputs = [told[1] for told in items(closing_of(whole)) if told[0] == "function_call_output"]
    assert outputs == [f"{done.name} has waited", f"{tool.name} has waited", '{"result": "42"}']
    assert (folder / f"{done.name}.began").read_text() == ".", "what had a result is not run again"
    row = two.row(response_id)
    assert (row["end_state"], row["finish_reason"], row["epoch"]) == ("completed", "stop", 2)
    assert not row["usage_estimated"]
