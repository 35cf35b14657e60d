"""Owns loading a model's vocabulary, chat template and special tokens from disk. Renders no prompt."""

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from tokenizers import Tokenizer

from streaming.engine.byte_tokenizer import CHATML, IM_END, byte_tokenizer
from streaming.engine.chat_template import compile_template
from streaming.engine.estimating_tokenizer import TEMPLATE, estimating_tokenizer
from streaming.engine.guarded_vocabulary import GuardedVocabulary

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class TokenizerError(ValueError):
    """A tokenizer that does not load. The message names the file and is one line."""


@dataclass(frozen=True, slots=True)
class TokenizerBundle:
    """All that turning messages into ids, and ids into text, needs to know about a model.

    ``tokenizer`` decodes; ``vocabulary`` encodes. Engines with equal ``tokenizer_hash`` may carry
    on each other's answers.
    """

    tokenizer: Tokenizer
    vocabulary: GuardedVocabulary
    chat_template: Template | None
    special_tokens: dict[str, str]
    tokenizer_hash: str

    @classmethod
    def load(cls, path: str | Path) -> "TokenizerBundle":
        """From a tokenizer.json or the folder around it; cached until a file in it changes."""
        file = Path(path)
        if file.is_dir():
            file = file / "tokenizer.json"
        try:
            changed = tuple(_changed_ns(part) for part in (file, *_companions(file)))
            if changed[0] == 0:
                raise TokenizerError(f"no tokenizer.json at {path}")
            return _load(file, changed)
        except OSError as error:
            raise TokenizerError(f"{file}: {error.strerror or error}") from error

    @classmethod
    def bytes_only(cls) -> "TokenizerBundle":
        """The tokenizer made in code, with a ChatML template."""
        return _bytes_only()

    @classmethod
    def estimating(cls) -> "TokenizerBundle":
        """For models whose vocabulary we do not have: good for about how many, for nothing else."""
        return _estimating()


def _companions(file: Path) -> tuple[Path, Path]:
    return file.with_name("chat_template.jinja"), file.with_name("tokenizer_config.json")


def _changed_ns(file: Path) -> int:
    return file.stat().st_mtime_ns if file.is_file() else 0


@lru_cache(maxsize=16)
def _load(file: Path, changed: tuple[int, ...]) -> TokenizerBundle:
    template_file, config_file = _companions(file)
    config = _read_config(config_file)
    source = template_file.read_text("utf-8") if template_file.is_file() else _template_of(config)
    definition = file.read_bytes()
    return _bundle(str(file), definition, source, _named_tokens(config))


@lru_cache(maxsize=1)
def _bytes_only() -> TokenizerBundle:
    definition = byte_tokenizer().to_str().encode()
    return _bundle("byte tokenizer", definition, CHATML, {"eos_token": IM_END})


@lru_cache(maxsize=1)
def _estimating() -> TokenizerBundle:
    return _bundle("estimate", estimating_tokenizer().to_str().encode(), TEMPLATE, {})


def _bundle(name: str, definition: bytes, template: str | None, special_tokens: dict[str, str]) -> TokenizerBundle:
    try:
        text = definition.decode("utf-8")
        vocabulary = GuardedVocabulary(text)
        tokenizer = Tokenizer.from_str(text)
    # tokenizers raises a bare Exception for a file that it cannot read.
    except Exception as error:
        raise TokenizerError(f"{name}: not a tokenizer: {one_line(error)}") from error
    try:
        compiled = compile_template(template) if template else None
    except TemplateError as error:
        raise TokenizerError(f"{name}: chat template does not compile: {one_line(error)}") from error
    return TokenizerBundle(tokenizer, vocabulary, compiled, special_tokens, hashlib.sha256(definition).hexdigest())


def _read_config(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise TokenizerError(f"{file}: not JSON: {one_line(error)}") from error
    return config if isinstance(config, dict) else {}


def _template_of(config: dict[str, Any]) -> str | None:
    """The chat template of a tokenizer_config.json: a string, or a list of which "default" counts."""
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _named_tokens(config: dict[str, Any]) -> dict[str, str]:
    """bos_token, eos_token … as text; each stands in the file as a string or as an object."""
    found: dict[str, str] = {}
    for name in NAMED_TOKENS:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
