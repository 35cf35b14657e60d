"""Owns what of a model's output may be a title: one line of plain text about what was said, or nothing. Pure."""

import re
import unicodedata

TITLE_CHARS = 80
WORDS_MAX = 12
#: Letters of a word that have to agree: a model inflects.
STEM_CHARS = 4

_LABEL = re.compile(r"^(the )?(title|topic|subject|titel|thema|titre)\b\s*(is|ist)?\s*[:：–—-]\s*", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(#+|[-*+•>]|\d{1,2}[.)])\s+")
_TAG = re.compile(r"<[^<>]{0,200}>")
#: What Markdown, HTML and quotes are made of.
_MARKS = re.compile(r"[*_`#|~<>\[\]{}\\\"“”„«»]")
#: How a model begins that talks to somebody instead of naming a topic.
_TALKS = re.compile(
    r"^(i|i'm|i’m|sorry|sure|certainly|of course|here is|here's|here are|as an|you|yes|no|hello|hi|ok|okay)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
#: Words of so many letters that say nothing of a topic.
_EMPTY = frozenset({"about", "conversation", "from", "have", "question", "that", "this", "title", "what", "with"})


def title_of(said: str, question: str, answer: str) -> str | None:
    """The title in what a model said; None when it holds none that is sane and about the question or its answer."""
    title = _cleaned(said)
    words = _WORD.findall(title)
    if not words or len(words) > WORDS_MAX or len(title) > TITLE_CHARS or _TALKS.match(title):
        return None
    return title if _topics(title) & _topics(f"{question} {answer}") else None


def _cleaned(said: str) -> str:
    """Its first line with words, without marks, and without anything that is not shown or turns text around."""
    for line in said.splitlines():
        visible = "".join(map(_visible, line))
        plain = _MARKS.sub("", _LIST_MARK.sub("", _TAG.sub(" ", visible)))
        title = _LABEL.sub("", " ".join(plain.split())).strip(" .,:;!-–—'")
        if _WORD.search(title):
            return title
    return ""


def _visible(letter: str) -> str:
    category = unicodedata.category(letter)
    return "" if category == "Cf" else " " if category[0] in "CZ" else letter


def _topics(text: str) -> set[str]:
    """Beginnings of words; of scripts without spaces every two letters."""
    topics: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if any(_is_unspaced(letter) for letter in word):
            topics |= {word[at : at + 2] for at in range(max(1, len(word) - 1))}
        elif len(word) >= STEM_CHARS and word not in _EMPTY:
            topics.add(word[:STEM_CHARS])
    return topics


def _is_unspaced(letter: str) -> bool:
    return "\u0e00" <= letter <= "\u0eff" or "\u3040" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af"
