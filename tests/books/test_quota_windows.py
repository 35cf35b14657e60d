"""The arithmetic of quotas: windows, what fits, what is given back, and clocks that jump."""

import random

import pytest

from streaming.store.quota_windows import DAY, KEPT_WINDOWS, MINUTE, MONTH, Full, Limits, Used, fitting, left, window

NOON = 1_790_000_000.0 // 86400 * 86400 + 43200.5
YEAR_S = 365 * 86400


LENGTHS_S = [(MINUTE, 60, 60), (DAY, 86400, 86400), (MONTH, 28 * 86400, 31 * 86400)]


@pytest.mark.parametrize(("kind", "least_s", "most_s"), LENGTHS_S)
def test_windows_follow_each_other_without_a_gap(kind, least_s, most_s):
    dice = random.Random(1)
    for _ in range(2000):
        now_s = dice.uniform(0, 4e9)
        start_s, end_s = window(kind, now_s)
        assert start_s <= now_s < end_s
        assert least_s <= end_s - start_s <= most_s
        assert window(kind, end_s)[0] == end_s
        assert window(kind, end_s - 0.001)[0] == start_s


def test_who_asks_for_a_number_gets_it_or_nothing_and_who_does_not_gets_what_is_left():
    limits, used = Limits(tokens_per_day=100), Used()
    used.take(NOON, 60)
    assert fitting(limits, used, NOON, 10, 30, 30) == 30
    assert fitting(limits, used, NOON, 10, 8000, 1) == 30
    full = fitting(limits, used, NOON, 10, 31, 31)
    assert full == Full("tokens_per_day", 100, 60, 41, window(DAY, NOON)[1] - NOON)
    assert "limit 100" in full.message
    assert "in use 60" in full.message


def test_what_is_more_than_the_limit_is_told_no_time_to_come_back():
    full = fitting(Limits(tokens_per_minute=100), Used(), NOON, 90, 20, 20)
    assert full.retry_after_s is None


def test_the_longest_window_that_is_full_is_the_one_that_is_named():
    used = Used()
    used.take(NOON, 100)
    limits = Limits(tokens_per_minute=100, tokens_per_month=100)
    assert fitting(limits, used, NOON, 1, 1, 1).limit_name == "tokens_per_month"


def test_streams_and_requests_have_limits_of_their_own():
    used = Used()
    used.take(NOON, 5)
    assert fitting(Limits(concurrent_streams=1), used, NOON, 1, 1, 1).limit_name == "concurrent_streams"
    full = fitting(Limits(requests_per_minute=1), used, NOON, 1, 1, 1)
    assert (full.limit_name, full.retry_after_s) == ("requests_per_minute", window(MINUTE, NOON)[1] - NOON)
    used.give_back(NOON, 0, 0)
    assert fitting(Limits(concurrent_streams=1), used, NOON, 1, 1, 1) == 1


def test_what_is_given_back_counts_in_the_window_it_was_taken_from():
    used = Used()
    used.take(NOON, 100)
    used.take(NOON + 60, 7)
    used.give_back(NOON, 1, 100)
    assert used.of(MINUTE, NOON) == [0, 0]
    assert used.of(MINUTE, NOON + 60) == [1, 7]
    assert used.of(DAY, NOON) == [1, 7]
    used.give_back(NOON - YEAR_S, 1, 10**6)
    assert used.of(DAY, NOON) == [1, 7]


@pytest.mark.parametrize("jump_s", [-YEAR_S, -3600, -61, 61, 3600, YEAR_S])
def test_a_clock_that_jumps_and_comes_back_has_opened_and_locked_nothing(jump_s):
    limits, used = Limits(tokens_per_minute=100, tokens_per_day=1000), Used()
    used.take(NOON, 90)
    elsewhere_s = NOON + jump_s
    for _ in range(20):
        if not isinstance(fitting(limits, used, elsewhere_s, 0, 30, 30), Full):
            used.take(elsewhere_s, 30)
    assert used.of(MINUTE, elsewhere_s)[1] <= 100, "while it is away there is one budget, not an open door"
    assert used.of(DAY, NOON)[1] >= 90
    assert used.of(MINUTE, NOON) == [1, 90], "what was used is still known"
    assert isinstance(fitting(limits, used, NOON, 0, 11, 11), Full)
    assert not isinstance(fitting(limits, used, NOON + 120, 0, 11, 11), Full), "and a later minute is open"


def test_a_row_of_use_does_not_grow():
    used = Used()
    for minute in range(10_000):
        used.take(NOON + 60 * minute, 1)
        used.give_back(NOON + 60 * minute, 0, 0)
    assert {kind: len(of_kind) <= KEPT_WINDOWS for kind, of_kind in used.windows.items()} == dict.fromkeys(
        (MINUTE, DAY, MONTH), True
    )
    assert used.streams == 0


def test_what_is_left_is_told_of_the_tightest_limit():
    used = Used()
    used.take(NOON, 50)
    told = left(Limits(requests_per_minute=3, tokens_per_minute=1000, tokens_per_day=60), used, NOON)
    assert (told["requests"]["limit"], told["requests"]["remaining"]) == (3, 2)
    assert (told["tokens"]["limit"], told["tokens"]["remaining"]) == (60, 10)
    assert told["tokens"]["reset_s"] == window(DAY, NOON)[1]
