"""Owns where things lie: the checkout, its virtual environment, the data folder. Makes and changes nothing."""

import os
from dataclasses import dataclass
from pathlib import Path

from deploy.setup.console import SetupError

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
FRONTEND = ROOT / "frontend"


@dataclass(frozen=True)
class Model:
    """The files of the demo model; each appears whole or not at all."""

    folder: Path

    @property
    def gguf(self) -> Path:
        return self.folder / "model.gguf"

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer.json"

    @property
    def tokenizer_config(self) -> Path:
        return self.folder / "tokenizer_config.json"

    @property
    def chat_template(self) -> Path:
        return self.folder / "chat_template.jinja"


def data_dir() -> Path:
    path = Path(os.environ.get("DATA_DIR") or "var")
    return path if path.is_absolute() else ROOT / path


def demo_model() -> Model:
    """MODEL_DIR lets several data folders share one download."""
    shared = os.environ.get("MODEL_DIR")
    return Model((Path(shared) if shared else data_dir() / "models") / "smollm2")


def log_file(step: str) -> Path:
    return data_dir() / "logs" / f"{step}.log"


def number(name: str, default: int, low: int, high: int) -> int:
    """A whole number from the environment, or one clear line."""
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise SetupError(f"{name} must be a number from {low} to {high}, not {text!r}")
    return int(text)
