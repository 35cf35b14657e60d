"""deploy/Dockerfile: nothing a linter finds, nobody is root, and what it names is in the checkout. About 1 s."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import ROOT
from tests.deploy import files

STAGES = files.stages()


def test_the_linter_finds_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(files.DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_linter_finds_what_it_should(tmp_path):
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian\nRUN apt-get install nginx\n")
    hadolint = Path(sys.executable).with_name("hadolint")
    assert subprocess.run([str(hadolint), str(bad)], capture_output=True, check=False).returncode


@pytest.mark.parametrize("name", STAGES)
def test_what_a_stage_copies_is_there_and_may_come_in(name):
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    for copied in STAGES[name].copied:
        if copied.stage is not None:
            assert copied.stage in STAGES
            continue
        for source in copied.sources:
            assert (ROOT / source).exists()
            assert any(Path(source).is_relative_to(line) for line in allowed), f"{source} may not come in"


def test_every_stage_stands_on_a_pinned_image_or_an_earlier_stage():
    for stage in STAGES.values():
        assert stage.base in STAGES or stage.base.partition(":")[2] not in ("", "latest")


def test_what_serves_is_nobody_and_its_user_is_the_one_of_compose():
    services = files.compose()["services"]
    for name in ("web", "engine-cpu"):
        assert STAGES[name].user == "10001:10001"
    assert {services[name]["user"] for name in ("web-1", "worker", "beat", "setup", "engine-cpu")} == {"10001:10001"}
    assert list(STAGES["web"].command) == services["web-1"]["command"]


def test_no_secret_is_in_a_layer():
    text = files.DOCKERFILE.read_text()
    for word in ("SECRET", "PASSWORD", "API_KEY", "TOKEN", "ARG "):
        assert word not in text
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text()
    assert "!secrets" not in ignored
    assert "!var" not in ignored
