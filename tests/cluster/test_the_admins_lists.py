"""The admin on a real PostgreSQL: a few queries a page however much there is, and each finds responses by an index.

`python -m bench.admin` measures the same pages on a million responses; here are as many as make the planner choose.
"""

import json
import subprocess
import sys

import pytest

from tests import databases
from tests.child import ROOT

RESPONSES = 8000


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """What the bench finds of each page, by its name."""
    file = tmp_path_factory.mktemp("admin") / "figures.json"
    command = ["-m", "bench.admin", "--responses", str(RESPONSES), "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, *command, "--database-url", databases.new(), "--json", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert file.is_file(), done.stderr
    return {figure["page"]: figure for figure in json.loads(file.read_text())}


def test_no_page_reads_all_responses_to_show_some(figures):
    assert {name for name, figure in figures.items() if "Seq Scan" in figure["reads"]} == set()


def test_each_filter_with_few_matches_has_its_index(figures):
    expected = {
        "end state, few": "end_sta",
        "not ended": "end_sta",
        "reason, hardly any": "end_reason",
        "purpose, few": "purpose",
        "wasted, none": "wasted_tokens",
        "search by id": "response_id",
    }
    assert {
        name for name, part in expected.items() if not any(part in read for read in figures[name]["reads"])
    } == set()


def test_the_queries_of_a_page_do_not_grow_with_what_is_there(figures):
    lists = {name: figure["queries"] for name, figure in figures.items() if "dashboard" not in name}
    assert max(lists.values()) <= 8, lists
    assert max(figure["queries"] for figure in figures.values()) <= 30
