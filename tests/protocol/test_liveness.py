"""Who is dead: only counters and the judge's own monotonic clock decide."""

import pytest

from streaming.protocol.liveness import Judge


def after(judge: Judge, reads: int, beats=lambda i: {"a": 7}, every_s: float = 2.5, start_s: float = 100.0) -> Judge:
    for index in range(reads):
        judge.read(beats(index), start_s + index * every_s)
    return judge


def test_a_counter_that_stands_still_long_enough_means_death():
    assert not after(Judge(), 4).is_dead("a")
    assert after(Judge(), 5).is_dead("a")


def test_enough_reads_in_too_short_a_time_mean_nothing():
    assert not after(Judge(), 50, every_s=0.1).is_dead("a")
    assert after(Judge(), 150, every_s=0.1).is_dead("a")


def test_any_change_starts_the_count_over_also_backwards():
    for changed in (8, 6):
        judge = after(Judge(), 8, beats=lambda i, c=changed: {"a": 7 if i != 4 else c})
        assert not judge.is_dead("a")


def test_an_outage_of_the_database_kills_nobody():
    judge = after(Judge(), 4)
    judge.failed()
    assert not judge.is_dead("a")
    judge.read({"a": 7}, 200.0)
    assert not judge.is_dead("a")
    assert after(judge, 5, start_s=201.0).is_dead("a")


def test_a_judge_that_was_paused_starts_over():
    judge = after(Judge(), 4)
    judge.read({"a": 7}, 4000.0)
    assert not judge.is_dead("a")


@pytest.mark.parametrize("beats", [{}, {"b": 1}])
def test_who_took_its_row_away_is_gone_once_that_was_read(beats):
    judge = Judge()
    assert not judge.is_dead("a")
    judge.read(beats, 1.0)
    assert not judge.is_dead("a")
    judge.read(beats, 3.0)
    assert judge.is_dead("a")


def test_who_came_after_the_last_read_is_not_taken_for_gone():
    judge = after(Judge(), 3, beats=lambda i: {"b": i})
    assert not judge.is_dead("a")
    assert not judge.is_dead("a")
    judge.read({"a": 0, "b": 9}, 110.0)
    assert not judge.is_dead("a")


def test_an_outage_forgets_who_was_missed():
    judge = Judge()
    judge.read({}, 1.0)
    assert not judge.is_dead("a")
    judge.failed()
    judge.read({}, 5.0)
    assert not judge.is_dead("a")


def test_what_was_released_waits_for_nobody():
    assert Judge().is_dead(None)


def test_one_death_says_nothing_of_the_others():
    judge = after(Judge(), 8, beats=lambda i: {"a": 7, "b": i})
    assert judge.is_dead("a")
    assert not judge.is_dead("b")
