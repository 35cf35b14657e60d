"""Owns which tokenizer the bench gives to the site: the demo model's when it is there, else the one of bytes."""

from pathlib import Path

from bench.processes import ROOT
from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer

DEMO_MODEL = ROOT / "var" / "models" / "smollm2"


def tokenizer_path(directory: Path) -> Path:
    """Either will do: it prepares a prompt, and this engine answers with text."""
    if (DEMO_MODEL / "tokenizer.json").exists():
        return DEMO_MODEL
    byte_tokenizer().save(str(directory / "tokenizer.json"))
    (directory / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    return directory
