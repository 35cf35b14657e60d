"""The judges of the engines' drill: they see what is lost, twice, late or unproven."""

import pytest

from tests.drill.engines.deaths import LETTERS, is_joined_letters, is_whole_tokens
from tests.drill.engines.findings import Finding, broken, table
from tests.drill.engines.freeing import Left


@pytest.mark.parametrize("cut", [30, 57, 100])
def test_an_answer_that_went_on_elsewhere_is_two_beginnings(cut):
    whole = LETTERS[:cut] + LETTERS[: 100 - cut]
    assert is_joined_letters(whole)
    assert not is_joined_letters(whole[1:])
    assert not is_joined_letters(whole + "a")
    assert cut == 100 or not is_joined_letters(whole[:cut] + whole[cut + 1 :] + "z")
    assert cut == 100 or not is_joined_letters(whole[: cut - 1] + whole[cut - 2 : -1])


def test_tokens_are_whole_and_a_hundred():
    assert is_whole_tokens("<12.3456>" + " the" * 99)
    assert not is_whole_tokens("<12.3456>" + " the" * 98)
    assert not is_whole_tokens("<12.3456>" + " the" * 98 + " th")


ROW = {"end_state": "cancelled", "end_reason": "api", "abort_proven": True, "engine_id": 1, "sent_tokens": 0}


@pytest.mark.parametrize(
    ("freed_s", "change", "faults"),
    [
        (0.9, {}, 0),
        (1.1, {}, 1),
        (0.1, {"abort_proven": False}, 1),
        (0.1, {"abort_proven": None}, 1),
        (0.1, {"abort_proven": None, "engine_id": None}, 0),
        (0.1, {"end_state": "abandoned"}, 1),
        (0.1, {"end_reason": "superseded"}, 1),
    ],
)
def test_a_late_unproven_or_otherwise_ended_answer_is_a_fault(freed_s, change, faults):
    assert len(Left("stop", "decode", freed_s, ROW | change).faults) == faults


def test_what_does_not_hold_is_told_from_what_was_not_tried():
    findings = [Finding("a", "e", "did", "saw", "said", holds) for holds in (True, False, None)]
    assert broken(findings) == [findings[1]]
    assert [line.rsplit("|", 2)[1].strip() for line in table(findings).splitlines()[2:]] == [
        "yes",
        "**no**",
        "not tried",
    ]
