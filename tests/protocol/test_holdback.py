"""Owns the laws of stop strings: nothing of a matched one is shown, nothing is kept back without need."""

import pytest
from hypothesis import example, given

from streaming.protocol.holdback import MAX_STOP_CHARACTERS, MAX_STOPS, Holdback
from streaming.protocol.stop_automaton import StopAutomaton
from tests.protocol.tape import inputs


def first_match(text, stops):
    """Brute force: the end that comes first, and there the longest stop string; None without any."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return end, max(ending, key=len)
    return None


def must_keep(text, stops):
    """Brute force: the longest end of the text that can still become the first stop string to be complete."""
    reachable = [stop for stop in stops if first_match(stop, stops) == (len(stop), stop)]
    kept = [size for stop in reachable for size in range(len(stop)) if text.endswith(stop[:size])]
    return max(kept, default=0)


def check_every_step(pieces, stops, include_stop=False):
    holdback = Holdback(stops, include_stop)
    shown, text = "", ""
    for piece in pieces:
        shown += holdback.push(piece)
        text += piece
        match = first_match(text, stops)
        if match:
            end, stop = match
            assert holdback.matched == stop
            assert shown == text[: end if include_stop else end - len(stop)]
        else:
            assert holdback.matched is None
            assert shown == text[: len(text) - must_keep(text, stops)]
    released = holdback.release()
    if not first_match(text, stops):
        assert shown + released == text
    else:
        assert released == ""


def texts(tape, alphabet, at_most_characters, at_most, at_least=0):
    return tape.many(lambda: tape.text(alphabet, at_most_characters, 1), at_most, at_least)


@given(inputs(64, lambda tape: (texts(tape, "ab\n", 5, 5, 1), tape.flag(), texts(tape, "ab\n", 5, 12))))
@example((["DEFGHIJ"], False, ["ABC", "DEF", "G", "HI", "J"]))
@example((["\n\n"], False, ["a\n", "\n", "b"]))
@example((["ab", "abc"], False, ["ab", "c"]))
@example((["abcde", "cd"], False, ["xab", "cd", "e"]))
@example((["aab", "ab"], True, ["aab"]))
def test_any_text_cut_anywhere_agrees_with_brute_force(case):
    stops, include_stop, pieces = case
    check_every_step(pieces, stops, include_stop)


STRANGE = "aあ☕😀é]^-\\"


@given(inputs(64, lambda tape: (texts(tape, STRANGE, 3, 4, 1), texts(tape, STRANGE, 4, 10))))
def test_characters_of_every_plane_and_of_patterns_are_matched_as_they_are(case):
    stops, pieces = case
    check_every_step(pieces, stops)


@pytest.mark.parametrize("stop", ["DEFGHIJ", "\n\n", "###END", "है", "☕ त"])
def test_a_stop_string_cut_over_tokens_is_never_shown(stop):
    text = "ABC" + stop + "more"
    for first in range(len(text)):
        for second in range(first, len(text)):
            check_every_step([text[:first], text[first:second], text[second:]], [stop])


def test_only_what_can_still_match_is_kept_back():
    holdback = Holdback(["</think>"])
    assert [holdback.push(piece) for piece in ["a <", "b", "> </th", "e", "n"]] == ["a ", "<b", "> ", "</the", "n"]


def test_a_stop_string_that_can_never_be_first_keeps_nothing_back():
    holdback = Holdback(["abXcd", "X"])
    assert holdback.push("ab") == "ab"
    assert holdback.push("X") == ""
    assert holdback.matched == "X"
    assert holdback.push("cd") == ""


def test_the_stop_string_itself_is_shown_when_asked():
    holdback = Holdback(["END"], include_stop=True)
    assert holdback.push("the E") == "the "
    assert holdback.push("ND more") == "END"


def test_what_follows_the_match_in_the_same_push_is_left_for_whoever_goes_on():
    holdback = Holdback(["END"])
    assert (holdback.push("the E"), holdback.rest) == ("the ", "")
    assert (holdback.push("ND more"), holdback.rest) == ("", " more")
    assert holdback.push("END") == ""


def test_after_a_release_text_is_searched_as_from_the_start():
    holdback = Holdback(["ab", "b"])
    assert holdback.push("xa") == "x"
    assert holdback.release() == "a"
    assert holdback.release() == ""
    assert holdback.push("a") == ""
    assert holdback.push("c") == "ac"
    whole = Holdback(["ab"])
    assert whole.push("a") + whole.release() == "a"
    assert (whole.push("b"), whole.matched) == ("b", None)


def test_an_automaton_serves_many_streams_without_mixing_them():
    first, second = Holdback(["END"]), Holdback(["END"])
    assert first._automaton is second._automaton
    assert (first.push("xEN"), second.push("xE")) == ("x", "x")
    assert (first.push("D"), first.matched, second.matched) == ("", "END", None)
    assert second.release() == "E"


def test_64_stop_strings_of_256_characters_are_found_wherever_the_text_is_cut():
    stops = [f"{number:02d}" + chr(0x900 + number) * 253 + "." for number in range(MAX_STOPS)]
    for stop in (stops[0], stops[41], stops[-1]):
        for cut in range(0, MAX_STOP_CHARACTERS + 3, 7):
            text = f"ab{stop}c"
            holdback = Holdback(stops)
            assert holdback.push(text[:cut]) + holdback.push(text[cut:]) == "ab"
            assert holdback.matched == stop


@pytest.mark.parametrize("stops", [[], [""], ["a"] * (MAX_STOPS + 1), ["a" * (MAX_STOP_CHARACTERS + 1)]])
def test_stop_strings_outside_the_limits_are_refused(stops):
    with pytest.raises(ValueError, match="stop strings"):
        Holdback(stops)


class Counting(list):
    """A list that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, index):
        self.looks += 1
        return super().__getitem__(index)


def test_the_worst_stop_strings_cost_bounded_work_per_character():
    stops = ["a" * size + "b" for size in range(MAX_STOP_CHARACTERS - MAX_STOPS, MAX_STOP_CHARACTERS)]
    holdback = Holdback(stops)
    automaton = holdback._automaton
    fail, next_character = automaton.fail, automaton.next_character
    automaton.fail, automaton.next_character = Counting(fail), Counting(next_character)
    text = ("a" * 254 + "c") * 40
    for character in text:
        holdback.push(character)
    looks = automaton.fail.looks + automaton.next_character.looks
    automaton.fail, automaton.next_character = fail, next_character  # it is kept for others
    assert holdback.matched is None
    assert looks <= 3 * len(text)


def test_the_largest_set_of_stop_strings_stays_small_in_memory():
    stops = [f"{number:02d}" + "x" * 254 for number in range(MAX_STOPS)]
    automaton = StopAutomaton(stops)
    states = len(automaton.next_character)
    assert states <= MAX_STOPS * MAX_STOP_CHARACTERS
    assert len(automaton.branches) <= MAX_STOPS


@pytest.mark.parametrize("include_stop", [False, True])
def test_text_without_any_first_character_passes_untouched(include_stop):
    text = "no such character here"
    assert Holdback(["<|", "##"], include_stop).push(text) is text
