"""docs/reliability.md names a test for each fault; this keeps the names true."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
PYTHON = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
TYPESCRIPT = sorted(set(re.findall(r"`([\w.]+\.test\.ts)::([^`]+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), PYTHON)
def test_a_test_that_the_page_names_exists(file, name):
    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), TYPESCRIPT)
def test_a_test_of_the_frontend_that_the_page_names_exists(file, name):
    assert f"'{name}'" in (ROOT / "frontend" / "tests" / "unit" / file).read_text(encoding="utf-8")


def test_every_row_of_the_list_is_on_the_page():
    numbers = [*range(1, 15), *range(20, 41), *range(50, 69), *range(70, 83)]
    assert re.findall(r"^\| X(\d\d) ", PAGE, re.MULTILINE) == [f"{number:02}" for number in numbers]
