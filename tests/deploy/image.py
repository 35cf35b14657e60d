"""Owns the folder that a stage of deploy/Dockerfile makes, laid out without a container. Runs nothing."""

import shutil
import sys
from pathlib import Path

from tests.child import ROOT
from tests.deploy.files import Stage, stages


def lay_out(folder: Path, model_dir: Path, name: str = "web") -> Path:
    """What the stage copies, and nothing else, below a folder that stands for /app."""
    every = stages()
    stage = every[name]
    app = lay_out(folder, model_dir, stage.base) if stage.base in every else folder
    app.mkdir(exist_ok=True)
    for copied in stage.copied:
        for source in copied.sources:
            _put(_origin(copied.stage, source, model_dir, every), app / copied.target, copied.target)
    return app


def _origin(stage: str | None, source: str, model_dir: Path, every: dict[str, Stage]) -> Path:
    if stage is None:
        return ROOT / source
    made = {
        "/app/.venv": Path(sys.prefix),
        "/app/frontend/dist": ROOT / "frontend" / "dist",
        **{f"/app/models/smollm2/{path.name}": path for path in (model_dir / "smollm2").iterdir()},
    }
    assert stage in every
    return made[source]


def _put(origin: Path, target: Path, written: str) -> None:
    if written.endswith("/"):
        target = target / origin.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if origin.name == Path(sys.prefix).name:
        target.symlink_to(origin)
    elif origin.is_dir():
        shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif origin.suffix == ".gguf":
        target.symlink_to(origin)
    else:
        shutil.copy(origin, target)
