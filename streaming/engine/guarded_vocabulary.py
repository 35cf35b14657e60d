"""Owns the twin of a tokenizer in which user text cannot spell a control token. Renders and decodes nothing."""

import json
import os
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer

from streaming.engine.token_bound import token_bound

# Control tokens that some vocabularies do not flag as special: <think>, <tool_call>, [INST] …
MARKER = re.compile(r"<[^\s<>]+>|\[/?[A-Z][A-Z_]*\]")
# The library would start a thread for each processor, for batches of one.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class GuardedVocabulary:
    """Encodes text in which control tokens count only where a template wrote them.

    The twin's control tokens carry a secret of this process around their names, in its vocabulary
    too. So ``<|im_end|>`` in a message is nothing but characters to it, whatever a normalizer or a
    merge makes of them, and everything else is cut exactly as the plain tokenizer cuts it.

    ``hide`` what users wrote, render, then ``reveal``: what reads as a control token while user
    text is hidden was written by the template, and only that gets the secret.
    """

    def __init__(self, definition: str):
        document = json.loads(definition)
        self._bound = token_bound(document)
        added = [token for token in document.get("added_tokens", ()) if is_control(token)]
        names = [token["content"] for token in added]
        self._secret = f"\ue000{secrets.token_hex(8)}\ue001"
        self._any = any_of(names)
        self._special = any_of(token["content"] for token in added if token["special"])
        self._placeholder_of = {name: f"\ue002{secrets.token_hex(8)}\ue003" for name in names}
        self._name_of = {placeholder: name for name, placeholder in self._placeholder_of.items()}
        self._placeholders = any_of(self._name_of)
        ids = {self._renamed(token["content"]): int(token["id"]) for token in added}
        self._twin = Tokenizer.from_str(json.dumps(self._rename_all(document, set(names))))
        self._twin.no_truncation()
        self._twin.no_padding()
        twin_ids = {name: self._twin.token_to_id(name) for name in ids}
        self._original_id = {twin_ids[name]: ids[name] for name in ids if twin_ids[name] != ids[name]}

    def _renamed(self, name: str) -> str:
        return f"{self._secret}{name}{self._secret}"

    def _rename_all(self, document: dict[str, Any], names: set[str]) -> dict[str, Any]:
        """The tokenizer's own document with every control token renamed, wherever it is named."""
        for token in document["added_tokens"]:
            if token["content"] in names:
                token["content"] = self._renamed(token["content"])
        model = document["model"]
        vocabulary = model.get("vocab")
        if isinstance(vocabulary, dict):
            model["vocab"] = {self._renamed(p) if p in names else p: token_id for p, token_id in vocabulary.items()}
        elif isinstance(vocabulary, list):
            model["vocab"] = [[self._renamed(p) if p in names else p, score] for p, score in vocabulary]
        if model.get("unk_token") in names:
            model["unk_token"] = self._renamed(model["unk_token"])
        document["post_processor"] = None
        return document

    def hide(self, text: str, special_only: bool = False) -> str:
        """User text with every control token replaced by a placeholder that nobody can guess.

        ``special_only`` leaves the ones that a template itself looks for in an assistant's earlier
        turns, such as <think>, to leave those parts out.
        """
        pattern = self._special if special_only else self._any
        return replace_all(pattern, text, lambda match: self._placeholder_of[match.group()])

    def reveal(self, rendered: str) -> str:
        """A rendered template: its own control tokens made to count, the hidden ones back as text."""
        marked = replace_all(self._any, rendered, lambda match: self._renamed(match.group()))
        return replace_all(self._placeholders, marked, lambda match: self._name_of[match.group()])

    def least_tokens(self, rendered: str) -> int:
        """How many tokens a rendered template is at least; 0 where the vocabulary lets nothing be said."""
        return self._bound.least_tokens(replace_all(self._placeholders, rendered, lambda m: self._name_of[m.group()]))

    def encode(self, text: str) -> list[int]:
        """Token ids of the text; only revealed control tokens become control tokens."""
        # A batch of one: only for batches the library lets other threads run, and a long text takes seconds.
        ids: list[int] = self._twin.encode_batch_fast([text], add_special_tokens=False)[0].ids
        if not self._original_id:
            return ids
        return [self._original_id.get(token_id, token_id) for token_id in ids]


def is_control(token: dict[str, Any]) -> bool:
    return bool(token["special"]) or MARKER.fullmatch(token["content"]) is not None


def any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that finds any of the names, the longest first; None when there are none."""
    ordered = sorted((name for name in names if name), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def replace_all(pattern: re.Pattern[str] | None, text: str, make: Callable[[re.Match[str]], str]) -> str:
    return text if pattern is None else pattern.sub(make, text)
