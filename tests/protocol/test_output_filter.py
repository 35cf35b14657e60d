"""Owns the laws of the output filter: nothing it objects to is shown, however the text is cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given

from streaming.protocol.block_list import BlockList
from streaming.protocol.output_filter import FilterWindow, Ruling
from tests.protocol.tape import inputs


def filtered(output_filter, pieces):
    """Everything that is shown of the pieces, and whether the filter ended the answer."""
    window = FilterWindow(output_filter)
    shown = "".join([*map(window.push, pieces), window.release()])
    return shown, window.ended


def brute_force(text, words, mask, ends):
    """Cut at the first word that is complete, the longest there; then the rest."""
    shown, start = "", 0
    for end in range(1, len(text) + 1):
        found = [word for word in words if text[start:end].lower().endswith(word)]
        if found:
            shown += text[start : end - max(map(len, found))] + ("" if ends else mask)
            start = end
            if ends:
                return shown, True
    return shown + text[start:], False


def words(tape):
    return tape.many(lambda: tape.text("ab*", 4, 1), 4, 1)


def cuts(tape):
    return tape.many(lambda: tape.below(25), 5)


@given(inputs(64, lambda tape: (words(tape), tape.flag(), cuts(tape), tape.text("abAB* ", 24))))
@example((["aba", "bab"], False, [1, 2, 3], "abab"))
@example((["ab", "abc"], False, [], "abc"))
@example((["a", "*"], False, [1], "**a"))
def test_any_text_cut_anywhere_is_filtered_as_by_brute_force(case):
    blocked, ends, cuts, text = case
    output_filter = BlockList(blocked, ends=ends, mask="*")
    expected = brute_force(text, blocked, "*", ends)
    assert filtered(output_filter, [text]) == expected
    assert filtered(output_filter, list(text)) == expected
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert filtered(output_filter, [text[start:end] for start, end in pairwise(edges)]) == expected


@given(inputs(64, lambda tape: (words(tape), tape.text("abc", 20))))
def test_no_more_than_the_window_is_kept_back(case):
    blocked, text = case
    output_filter = BlockList(blocked, ends=True)
    window, shown = FilterWindow(output_filter), ""
    for taken, character in enumerate(text, start=1):
        shown += window.push(character)
        assert window.ended or taken - len(shown) <= output_filter.window_characters


def test_a_blocked_word_is_masked_in_every_case_and_place_without_moving_others():
    assert filtered(BlockList(["SECRET"]), ["A sec", "REt, İ and secrets"]) == ("A ***, İ and ***s", False)


def test_a_blocked_word_ends_the_answer_in_front_of_it():
    window = FilterWindow(BlockList(["secret"], ends=True))
    assert window.push("The secr") == "The"
    assert window.push("et is") == " "
    assert window.ended
    assert (window.push("more"), window.release()) == ("", "")


@pytest.mark.parametrize("blocked", [[], [""], ["x" * 257]])
def test_a_list_that_cannot_be_searched_for_is_refused(blocked):
    with pytest.raises(ValueError, match="stop strings"):
        BlockList(blocked)


class LastLook:
    """A filter that objects to how the text ends."""

    window_characters = 3

    def __init__(self):
        self.seen = []

    def rule(self, text, is_end):
        self.seen.append((text, is_end))
        return Ruling(0, len(text), "!", ends=True) if is_end and text.endswith("?") else None


def test_the_filter_sees_every_character_before_it_is_shown_and_the_end_as_the_end():
    output_filter = LastLook()
    window = FilterWindow(output_filter)
    assert [window.push("abcd"), window.push("e?")] == ["a", "bc"]
    assert window.release() == "!"
    assert window.ended
    assert output_filter.seen == [("abcd", False), ("bcde?", False), ("de?", True)]


def test_a_ruling_that_covers_nothing_is_a_mistake_of_the_filter():
    class Wrong:
        window_characters = 0

        def rule(self, text, is_end):
            return Ruling(0, 0)

    with pytest.raises(AssertionError, match="ruling"):
        FilterWindow(Wrong()).push("a")
