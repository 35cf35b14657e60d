"""Owns the law of text from engines: what comes out has no NUL and no lone surrogate, whatever goes in."""

import pytest
from hypothesis import given

from streaming.protocol.clean_text import CleanText
from tests.protocol.tape import inputs

SURROGATES = "\ud83d\ude00\ud800\udfff"


def pieces_on(tape):
    def character():
        return tape.of("a\0😀é" + SURROGATES * 2) if tape.flag() else tape.character()

    return tape.many(lambda: "".join(tape.many(character, 8)), 8)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a\0b"], ["a\ufffdb", ""]),
        (["\ud83d", "\ude00"], ["", "😀", ""]),
        (["x\ud83d", "y"], ["x", "\ufffdy", ""]),
        (["\ude00x"], ["\ufffdx", ""]),
        (["x\ud83d"], ["x", "\ufffd"]),
        (["\ud83d", "", "\ude00"], ["", "", "😀", ""]),
        (["\ud83d\ude00\0"], ["😀\ufffd", ""]),
        (["\u2028\u2029\x85\x0b"], ["\u2028\u2029\x85\x0b", ""]),
    ],
)
def test_pairs_are_joined_and_what_stays_alone_is_replaced(pieces, shown):
    clean = CleanText()
    assert [*map(clean.push, pieces), clean.flush()] == shown


@given(inputs(96, pieces_on))
def test_any_pieces_come_out_storable_and_equal_to_the_whole(pieces):
    clean = CleanText()
    text = "".join([*map(clean.push, pieces), clean.flush()])
    text.encode("utf-8")
    assert "\0" not in text
    whole = CleanText()
    assert text == whole.push("".join(pieces)) + whole.flush()
