"""Owns turning a GGUF's vocabulary into `tokenizer.json` and its neighbours; agrees id for id with llama.cpp."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from deploy.setup import stamps
from deploy.setup.console import SetupError, say
from deploy.setup.gguf import GGUFError, Value, read_metadata
from deploy.setup.places import Model

CONTROL, USER_DEFINED = 3, 4
SOURCES = [Path(__file__), Path(__file__).with_name("gguf.py")]


def ensure(model: Model) -> None:
    """Build the tokenizer unless this very code built it from this very file."""
    stamp = model.folder / ".tokenizer.stamp"
    wanted = stamps.digest(SOURCES, str(model.gguf.stat().st_size), str(model.gguf.stat().st_mtime_ns))
    if stamps.matches(stamp, wanted) and model.tokenizer.exists():
        return
    say("==> Building the tokenizer from the model's vocabulary")
    stamp.unlink(missing_ok=True)
    try:
        metadata = read_metadata(model.gguf)
    except GGUFError as error:
        raise SetupError(f"{model.gguf} cannot be read: {error}") from error
    stamps.write_whole(model.tokenizer, build(metadata).to_str())
    stamps.write_whole(model.tokenizer_config, json.dumps(config(metadata), indent=2) + "\n")
    stamps.write_whole(model.chat_template, text(metadata, "tokenizer.chat_template"))
    stamps.write_whole(stamp, wanted)


def build(metadata: Mapping[str, Value]) -> Tokenizer:
    """A byte-level BPE whose pieces are cut as llama.cpp cuts them for the family `smollm`."""
    family = (text(metadata, "tokenizer.ggml.model"), text(metadata, "tokenizer.ggml.pre"))
    if family != ("gpt2", "smollm"):
        raise SetupError(f"the model's tokenizer {family} is not one that we can build")
    tokens = strings(metadata, "tokenizer.ggml.tokens")
    merges = [pair.partition(" ")[::2] for pair in strings(metadata, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            *_lone_bytes(tokens),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_added(metadata, tokens, CONTROL))
    tokenizer.add_tokens(_added(metadata, tokens, USER_DEFINED))
    return tokenizer


def _lone_bytes(tokens: Sequence[str]) -> list[pre_tokenizers.PreTokenizer]:
    """A byte without a token is left out, but its neighbours must not become one piece across the gap."""
    lacking = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(tokens))
    if not lacking:
        return []
    pattern = "|".join(f"\\x{{{ord(letter):x}}}" for letter in lacking)
    return [pre_tokenizers.Split(Regex(pattern), "isolated")]


def _added(metadata: Mapping[str, Value], tokens: Sequence[str], kind: int) -> list[AddedToken]:
    kinds = integers(metadata, "tokenizer.ggml.token_type")
    if len(kinds) != len(tokens):
        raise SetupError(f"the model has {len(tokens)} tokens but {len(kinds)} token types")
    return [
        AddedToken(token, special=kind == CONTROL, normalized=False)
        for token, found in zip(tokens, kinds, strict=True)
        if found == kind
    ]


def config(metadata: Mapping[str, Value]) -> dict[str, str | int | bool]:
    """What a chat template and a prompt need to know beside the vocabulary, in the field's usual names."""
    tokens = strings(metadata, "tokenizer.ggml.tokens")
    named = {
        "bos_token": "tokenizer.ggml.bos_token_id",
        "eos_token": "tokenizer.ggml.eos_token_id",
        "pad_token": "tokenizer.ggml.padding_token_id",
        "unk_token": "tokenizer.ggml.unknown_token_id",
    }
    found: dict[str, str | int | bool] = {
        name: tokens[integer(metadata, key)] for name, key in named.items() if key in metadata
    }
    architecture = text(metadata, "general.architecture")
    return found | {
        "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
        "add_eos_token": bool(metadata.get("tokenizer.ggml.add_eos_token", False)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": integer(metadata, f"{architecture}.context_length"),
    }


def text(metadata: Mapping[str, Value], key: str) -> str:
    value = metadata.get(key)
    if not isinstance(value, str):
        raise SetupError(f"the model says nothing of {key}")
    return value


def integer(metadata: Mapping[str, Value], key: str) -> int:
    value = metadata.get(key)
    if not isinstance(value, int):
        raise SetupError(f"the model says nothing of {key}")
    return value


def strings(metadata: Mapping[str, Value], key: str) -> list[str]:
    values = metadata.get(key)
    if not isinstance(values, list):
        raise SetupError(f"the model says nothing of {key}")
    return [value for value in values if isinstance(value, str)]


def integers(metadata: Mapping[str, Value], key: str) -> list[int]:
    values = metadata.get(key)
    if not isinstance(values, list):
        raise SetupError(f"the model says nothing of {key}")
    return [value for value in values if isinstance(value, int)]
