"""Owns how few tokens a text can be at least, from a tokenizer's definition alone. Cuts no text into tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Composing characters takes at most so many bytes to one: three letters of Hangul, or a vowel with its marks.
NFC_SHRINKS = 4


@dataclass(frozen=True, slots=True)
class TokenBound:
    """``longest`` is the most bytes, or characters, that one token stands for; None where there is no such bound."""

    longest: int | None
    in_bytes: bool = True

    def least_tokens(self, text: str) -> int:
        """So many tokens the text is at least; 0 where nothing can be said."""
        if self.longest is None:
            return 0
        size = len(text.encode("utf-8", "surrogatepass")) if self.in_bytes else len(text)
        return size // self.longest


NO_BOUND = TokenBound(None)


def token_bound(definition: Mapping[str, Any]) -> TokenBound:
    """That of a tokenizer.json. Every part of it that could swallow text, or that we do not know, means no bound."""
    model, added = definition["model"], definition.get("added_tokens") or ()
    names = [str(token["content"]) for token in added]
    if model.get("type") != "BPE" or any(token["lstrip"] or token["rstrip"] for token in added):
        return NO_BOUND
    parts = _flat(definition.get("pre_tokenizer"), "pretokenizers")
    normalizers = _flat(definition.get("normalizer"), "normalizers")
    if not all(map(_keeps_text, parts)):
        return NO_BOUND
    vocabulary = max(map(len, model["vocab"]), default=0)
    if any(part["type"] == "ByteLevel" for part in parts) and all(part["type"] == "NFC" for part in normalizers):
        # In such a vocabulary each byte is written as one character.
        longest = max([vocabulary, *(len(name.encode()) for name in names)])
        return TokenBound(longest * (NFC_SHRINKS if normalizers else 1))
    if model.get("byte_fallback") and all(map(_keeps_characters, normalizers)):
        return TokenBound(max([vocabulary, *map(len, names)]), in_bytes=False)
    return NO_BOUND


def _flat(part: Mapping[str, Any] | None, inner: str) -> list[Mapping[str, Any]]:
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [leaf for child in part[inner] for leaf in _flat(child, inner)]
    return [part]


def _keeps_text(part: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer loses nothing of the text."""
    if part["type"] == "Split":
        return part.get("behavior") in ("Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    return part["type"] in ("ByteLevel", "Digits", "Metaspace")


def _keeps_characters(part: Mapping[str, Any]) -> bool:
    """Whether a normalizer leaves at least as many characters."""
    if part["type"] == "Replace":
        return bool(part.get("pattern") == {"String": " "} and part.get("content"))
    return bool(part["type"] == "Prepend")
