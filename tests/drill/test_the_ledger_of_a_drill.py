"""A drill fails where the product's ledger finds drift or was not asked; what other parts left behind is not theirs."""

import pytest

from tests.drill.reconciling import Ledger

AGREES = {"kind": "engine", "subject": "e", "low": 5, "high": 9, "seen": 9, "drift": 0, "message": ""}
ROLLUP = {"kind": "rollup", "subject": "2026-01-01", "low": 0, "high": 0, "seen": 0, "drift": 0, "message": ""}
DRIFTS = {"drift": 3, "message": "the engine counted 12 tokens, the rows 5 to 9."}


class Site:
    def __init__(self):
        self.env = {}


@pytest.fixture
def compared(monkeypatch):
    def found(*checks):
        monkeypatch.setattr(Ledger, "_look", lambda *_: list(checks))
        return Ledger(Site()).compare(["e"])

    return found


def test_books_that_agree_break_nothing_and_say_their_figures(compared):
    found = compared(AGREES, ROLLUP)
    assert (found.broken, found.lines, found.is_exact) == ([], ["e made 9, the rows 5 to 9"], False)
    assert compared({**AGREES, "low": 9}, ROLLUP).is_exact


@pytest.mark.parametrize("check", [{**AGREES, **DRIFTS}, {**ROLLUP, **DRIFTS}])
def test_drift_breaks(compared, check):
    others = [one for one in (AGREES, ROLLUP) if one["kind"] != check["kind"]]
    (line,) = compared(check, *others).broken
    assert "drifts by +3" in line
    assert DRIFTS["message"] in line


def test_an_engine_that_was_not_compared_breaks_and_a_stranger_that_drifts_does_not(compared):
    assert compared(ROLLUP).broken == ["ledger: e was not compared"]
    assert compared(AGREES, {**AGREES, **DRIFTS, "subject": "of another part"}).broken == []
