"""Owns what the judges share: the site's models for them, their questions, their Node packages. Judges nothing."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.reading import eventually, says, script
from tests.e2e.site import Site

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
NPM_S = 240

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


HELLO = says("Hel", "lo ", "☕")
CALLS = says(CALL[:30], CALL[30:])
JSON = says('{"name": "Ada', '", "age": 36}')
BREAKS_BEFORE = script(outputs=[], fault={"kind": "error"})
BREAKS_AFTER = says("a", "b", "c", delay_s=0.02, fault={"kind": "error", "after": 2})
ENDLESS = says("tick ", repeat=0, delay_s=0.02)
COUNTS = says(*[f"{n} " for n in range(20)], delay_s=0.02)
COUNTED = "".join(f"{n} " for n in range(20))


@dataclass(frozen=True)
class Place:
    """Where the judges go, and what they may see of the site's own books."""

    site: Site
    key: str

    @property
    def url(self) -> str:
        return f"{self.site.url}/v1"

    def ended(self, response_id: str) -> tuple[str, str]:
        """The end state and reason in the row, once there are some."""
        row = eventually(lambda: (r := self.site.row(response_id))["end_state"] and r)
        return row["end_state"], row["end_reason"]


# The page offers models by name, the first as its default: those of the tests come last.
@pytest.fixture(scope="session")
def place(site: Site, key: str) -> Place:
    """The site with a scripted model, ``tests-judged``, that writes calls as Hermes models do."""
    site.add_model(key, "tests-judged", markers="think+hermes")
    return Place(site, key)


@pytest.fixture(scope="session")
def node_packages() -> None:
    """The packages of package-lock.json, installed once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not there; `make test` brings it")
    wanted = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".stamp"
    if not stamp.is_file() or stamp.read_text() != wanted:
        subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, timeout=NPM_S, capture_output=True
        )
        stamp.write_text(wanted)


def until_failure(pieces: Iterable[Any], failure: type[Exception]) -> tuple[list[Any], Any]:
    """What came before a failure that must come, and the failure."""
    seen = []
    try:
        for piece in pieces:
            seen.append(piece)
    except failure as failed:
        return seen, failed
    raise AssertionError(f"it ended well after {seen!r}")


def run_node(name: str, place: Place) -> dict:
    """What the cases of a script under node/ saw, by case; they all run in one process."""
    asked = {"url": place.url, "key": place.key, "questions": {
        "hello": HELLO, "calls": CALLS, "json": JSON, "before": BREAKS_BEFORE, "after": BREAKS_AFTER,
        "endless": ENDLESS, "counts": COUNTS,
    }, "weather": WEATHER, "person": PERSON}  # fmt: skip
    done = subprocess.run(
        ["node", str(HERE / "node" / name)], input=json.dumps(asked), capture_output=True, text=True, timeout=120,
        env=os.environ, cwd=HERE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
