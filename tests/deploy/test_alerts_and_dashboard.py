"""Alerts and dashboard speak of series that there are, every alert can fire, and the page names every series. 3 s."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import promql_parser
import pytest
import yaml

from streaming.metrics import delivery, finished, gaps, refusing, registry, storing, tools
from streaming.ownership import gauges, task_series
from tests.child import ROOT

ALERTS = ROOT / "deploy" / "alerts.yml"
FIRE = ROOT / "tests" / "deploy" / "alerts_fire.yml"
OF_PROMETHEUS = {"up", "ALERTS"}
DASHBOARD_VARIABLES = {"$__rate_interval": "5m", '"$model"': '".*"'}
#: Labels beside a series' own: of the scrape, and a histogram's.
LABELS = {"instance", "job", "le"}


def families() -> dict[str, set[str]]:
    """Every series with its labels: as they are asked for, histograms with their suffixes."""
    found: dict[str, set[str]] = {}
    for module in (finished, delivery, storing, refusing, tools):
        for metric in vars(module).values():
            if hasattr(metric, "_labelnames"):
                found |= {name: set(metric._labelnames) for name in _series(metric.describe())}
    found |= {name: {"model"} for name in _series(gaps.GAPS.collect())}
    for name, (_, label) in {**gauges.OF_PROCESS, **gauges.LOOKED_AT}.items():
        found[name] = {label} if label else set()
    found |= {name: {"engine"} for name in gauges.OF_ENGINE}
    found |= {f"{name}_total": set(labels) for name, (_, labels) in task_series.SERIES.items()}
    own = [family for family in registry.REGISTRY.collect() if family.name.startswith("process_")]
    return found | {name: set() for name in _series(own)}


def _series(described) -> Iterator[str]:
    for family in described:
        if family.type == "histogram":
            yield from (f"{family.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
        else:
            yield f"{family.name}_total" if family.type == "counter" else family.name


def rules() -> list[dict]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    panels = json.loads((ROOT / "deploy" / "grafana.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """What an expression asks for: names of series, and the labels that it chooses by."""
    for variable, value in DASHBOARD_VARIABLES.items():
        expression = expression.replace(variable, value)
    text = str(promql_parser.parse(expression))
    found = re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", text)
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen))) for name, chosen in found]


def test_every_series_of_alerts_and_dashboard_exists_with_the_labels_that_it_is_chosen_by():
    known = families()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    expressions = [rule["expr"] for rule in rules()] + dashboard_expressions()
    asked = [one for expression in expressions for one in selectors(expression)]
    assert len(asked) > 60
    for name, labels in asked:
        assert name in known or name in recorded | OF_PROMETHEUS, name
        if name in known:
            assert labels <= known[name] | LABELS, (name, labels)


@pytest.mark.parametrize("wrong", ["chat_ttft_second_bucket", 'chat_readers{user="1"}', "sum(rate(chat_readers[5m])"])
def test_the_check_sees_what_is_wrong(wrong):
    try:
        ((name, labels),) = selectors(wrong)
    except ValueError:
        return
    assert name not in families() or not labels <= families()[name] | LABELS


def test_no_series_can_tell_a_user_or_a_response_apart():
    labels = set().union(*families().values())
    assert labels == {
        "code", "end_reason", "end_state", "ended", "engine", "kind", "model", "outcome", "prompt_class", "proven",
        "purpose", "status", "task", "tool",
    }  # fmt: skip


def test_the_page_has_a_row_for_every_series_and_none_beside():
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(chat_\w+)`", section.partition("### Alerts")[0]))
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in families() if name.startswith("chat_")}
    assert named == ours
    alerts = set(re.findall(r"`(\w+)`", section.partition("### Alerts")[2])) & {rule.get("alert") for rule in rules()}
    assert alerts == {rule["alert"] for rule in rules() if "alert" in rule}


def test_a_panel_has_a_place_of_its_own_a_title_and_a_unit():
    panels = json.loads((ROOT / "deploy" / "grafana.json").read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["title"]
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.fixture
def promtool():
    if (program := shutil.which("promtool")) is None:
        pytest.skip("there is no promtool (Debian: apt install prometheus)")
    return program


def test_prometheus_takes_the_rules_and_each_alert_fires_when_it_should_and_none_on_a_good_day(promtool, tmp_path):
    for file in (ALERTS, FIRE):
        shutil.copy(file, tmp_path)
    for command in (["check", "rules", ALERTS.name], ["test", "rules", FIRE.name]):
        done = subprocess.run(
            [promtool, *command], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    fired = set(re.findall(r'alertname="(\w+)"', FIRE.read_text()))
    assert fired == {rule["alert"] for rule in rules() if "alert" in rule}
