"""Owns that a step which was done is not done again, and one that was cut short is not taken for done."""

import os
import re
import subprocess
import sys

import pytest

from deploy.setup import frontend, locks, places, stamps, tokenizer, venv
from deploy.setup.console import SetupError


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with requirements of no package."""
    root = tmp_path / "a checkout"
    root.mkdir()
    (root / "requirements.txt").write_text("# nothing\n")
    (root / "requirements-dev.txt").write_text("-r requirements.txt\n")
    monkeypatch.setattr(venv, "ROOT", root)
    monkeypatch.setattr(venv, "VENV", root / ".venv")
    monkeypatch.setattr(venv, "PYTHON", root / ".venv" / "bin" / "python")
    monkeypatch.setattr(venv, "UNFINISHED", root / ".venv" / ".installing")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    return root


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(venv, "say", lines.append)
    monkeypatch.setattr(frontend, "say", lines.append)
    return lines


def test_the_environment_is_made_once_and_filled_when_the_requirements_changed(checkout, said):
    venv.ensure(["requirements.txt", "requirements-dev.txt"])
    assert len(said) == 2
    venv.ensure(["requirements.txt", "requirements-dev.txt"])
    venv.ensure(["requirements.txt"])  # what has the tools serves for running too
    assert len(said) == 2
    (checkout / "requirements.txt").write_text("# another nothing\n")
    venv.ensure(["requirements.txt"])
    assert said[2:] == ["==> Installing requirements.txt"]


def test_an_installation_that_failed_is_begun_anew(checkout, said):
    (checkout / "requirements.txt").write_text("./no-such-folder\n")
    with pytest.raises(SetupError, match=r"Installing requirements\.txt failed"):
        venv.ensure(["requirements.txt"])
    (checkout / "requirements.txt").write_text("# nothing\n")
    del said[:]
    venv.ensure(["requirements.txt"])
    assert said[0].startswith("==> Making ")


def node(folder, version):
    """A Node that can only tell its version, and an npm that notes what it was asked."""
    folder.mkdir()
    (folder / "node").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "npm").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo 11\necho "$@" >> "$NPM_LOG"\n'
        '[ -z "$NPM_FAILS" ] || exit 1\n[ $1 = ci ] && mkdir -p node_modules || mkdir -p dist\n'
    )
    for program in folder.iterdir():
        program.chmod(0o755)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A front end, and a machine with a Node that is new enough."""
    root = tmp_path / "front end"
    (root / "src").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "src/main.ts"):
        (root / name).write_text("{}")
    node(tmp_path / "bin", "v20.19.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "npm.log"))
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(frontend, "FRONTEND", root)
    monkeypatch.setattr(frontend, "MODULES", root / "node_modules")
    monkeypatch.setattr(frontend, "DIST", root / "dist")
    return root


def asked(page):
    return (page.parent / "npm.log").read_text().splitlines()


def test_the_page_is_built_once_and_again_when_a_source_changed(page, said):
    frontend.ensure()
    frontend.ensure()
    assert asked(page) == ["ci", "run build"]
    (page / "src" / "main.ts").write_text("changed")
    (page / "tests").mkdir()
    (page / "tests" / "some.test.ts").write_text("no source")
    frontend.ensure()
    frontend.ensure()
    assert asked(page) == ["ci", "run build", "run build"]
    (page / "package-lock.json").write_text("changed")
    frontend.ensure()
    assert asked(page)[3:] == ["ci", "run build"]


def test_a_build_that_failed_is_repeated(page, said, monkeypatch):
    frontend.ensure()
    (page / "src" / "main.ts").write_text("changed")
    monkeypatch.setenv("NPM_FAILS", "1")
    with pytest.raises(SetupError, match="Building the page failed"):
        frontend.ensure()
    (page / "src" / "main.ts").write_text("{}")
    monkeypatch.setenv("NPM_FAILS", "")
    frontend.ensure()
    assert asked(page)[2:] == ["run build", "run build"]


@pytest.mark.parametrize("version", ["v18.20.0", "v20.18.3", "v21.7.0", "v22.11.0", "nonsense"])
def test_a_node_that_is_too_old_is_replaced_by_one_from_a_wheel(page, said, monkeypatch, tmp_path, version):
    node(tmp_path / "old", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}:/usr/bin:/bin")
    monkeypatch.setattr(frontend, "VENV", tmp_path / "venv")
    (tmp_path / "venv").mkdir()
    wanted = []
    monkeypatch.setattr(
        frontend, "pip_install", lambda step, what: (wanted.append(what), node(tmp_path / "venv" / "bin", "v24.19.0"))
    )
    env = frontend.ensure()
    assert wanted == [frontend.NODE_PACKAGE]
    assert env["PATH"].startswith(str(tmp_path / "venv" / "bin"))
    frontend.ensure()
    assert wanted == [frontend.NODE_PACKAGE]


@pytest.mark.parametrize("version", ["v20.19.0", "v20.20.2", "v22.12.0", "v23.0.0", "v24.19.0"])
def test_a_node_that_is_new_enough_is_used(version):
    assert frontend._new_enough(version)


@pytest.mark.engine
def test_the_tokenizer_is_built_once_and_again_when_a_file_of_it_is_gone(demo_model, tmp_path, monkeypatch):
    model = places.Model(tmp_path)
    model.gguf.symlink_to(demo_model)
    tokenizer.ensure(model)
    names = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", ".tokenizer.stamp", "model.gguf"}
    assert {path.name for path in tmp_path.iterdir()} == names
    monkeypatch.setattr(tokenizer, "read_metadata", lambda path: pytest.fail("built again"))
    tokenizer.ensure(model)
    monkeypatch.undo()
    model.tokenizer.unlink()
    tokenizer.ensure(model)
    assert model.tokenizer.exists()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "stamp"
    stamps.write_whole(target, "first")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        stamps.write_whole(target, "second")
    assert target.read_text() == "first"


def test_a_second_setup_of_the_same_checkout_waits_for_the_first(tmp_path):
    code = (
        "import sys, pathlib; from deploy.setup import locks\n"
        "with locks.waiting_lock(pathlib.Path(sys.argv[1]), 'x'): print('in', flush=True)"
    )
    with locks.waiting_lock(tmp_path, "the first"):
        second = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], cwd=places.ROOT, stdout=subprocess.PIPE, text=True
        )
        assert re.match("==> Another `make` is working", second.stdout.readline())
    assert second.stdout.readline() == "in\n"
    assert second.wait(10) == 0
