"""What a model says becomes a title only where it is one: a line of plain text about what was said."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.tasks.title_text import TITLE_CHARS, title_of

QUESTION, ANSWER = "How do lighthouses work at night?", "A lamp turns behind a Fresnel lens."


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("How Lighthouses Work", "How Lighthouses Work"),
        ('"Lighthouses at Night."', "Lighthouses at Night"),
        ("**Title:** Lighthouse lamps\nThis title says …", "Lighthouse lamps"),
        ("\n\n# Lighthouses and lenses", "Lighthouses and lenses"),
        ("1. The Fresnel Lens", "The Fresnel Lens"),
        ("<b>Lighthouse</b> <script>alert(1)</script>", "Lighthouse alert(1)"),
        ("[Lighthouses](https://evil.example)", "Lighthouses(https://evil.example)"),
        ("Light\u202ehouses\u200b \x1b[31mred", "Lighthouses 31mred"),
        ("Lighthouses\u202e at\x07 night", "Lighthouses at night"),
        ("Sure! Here is a title: Lighthouses", None),
        ("I cannot help with lighthouses", None),
        ("The weather in Paris", None),
        ("Lighthouses " * 13, None),
        ("Lighthouse" * 9, None),
        ("", None),
        ("...", None),
        ("**", None),
    ],
)
def test_a_title_is_taken_cleaned_or_not_at_all(said, title):
    assert title_of(said, QUESTION, ANSWER) == title


def test_scripts_without_spaces_have_titles_too():
    assert title_of("灯台の仕組み", "灯台はどう動くの?", "") == "灯台の仕組み"
    assert title_of("天気予報", "灯台はどう動くの?", "") is None


@given(st.text(max_size=200), st.text(max_size=200))
@example("a\u2028lighthouse\u0085x", "lighthouse")
def test_whatever_a_model_says_a_title_is_one_short_line_that_turns_nothing_around(said, question):
    title = title_of(said, question, "")
    if title is not None:
        assert 0 < len(title) <= TITLE_CHARS
        assert title == " ".join(title.split())
        assert not [c for c in title if unicodedata.category(c)[0] == "C" or c in "<>`"]
