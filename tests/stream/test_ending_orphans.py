"""The task that ends what nobody adopted: judges by counters and ticks, never by a clock."""

import pytest
from django.core.cache import cache
from django.db import DataError

from streaming.models import Response
from streaming.store import creation, orphans
from streaming.store.creation import NewResponse
from streaming.tasks.orphans import DEAD_TICKS, end_orphans


@pytest.fixture(autouse=True)
def _no_memory():
    cache.clear()


@pytest.fixture
def running(user):
    """A response whose owner is the process web_x."""
    orphans.register_process("web_x", "host", 1)
    new = NewResponse(
        user_id=user.pk, purpose="api", dialect="openai_chat", model="m", policy="abort", stream=True, request={},
        prompt_ids=(1, 2, 3), owner="web_x",
    )  # fmt: skip
    return creation.create(new)


def state(response) -> tuple[str, str | None, str]:
    row = Response.objects.get(id=response.id)
    return row.state, row.end_state, row.end_reason


def test_a_process_whose_counter_stands_still_loses_its_responses_after_enough_ticks(running):
    assert [end_orphans() for _ in range(DEAD_TICKS)] == [0] * DEAD_TICKS
    assert end_orphans() == 1
    assert state(running) == ("ended", "truncated", "relay_lost")
    assert end_orphans() == 0


def test_a_process_that_beats_keeps_its_responses(running):
    for _ in range(3 * DEAD_TICKS):
        orphans.beat("web_x")
        assert end_orphans() == 0
    assert state(running)[0] == "queued"


def test_one_beat_starts_the_count_again(running):
    for _ in range(DEAD_TICKS):
        end_orphans()
    orphans.beat("web_x")
    assert [end_orphans() for _ in range(DEAD_TICKS)] == [0] * DEAD_TICKS
    assert end_orphans() == 1


def test_what_was_released_and_never_adopted_is_ended_too(running):
    orphans.release("web_x")
    assert sum(end_orphans() for _ in range(DEAD_TICKS + 1)) == 1
    assert state(running) == ("ended", "truncated", "relay_lost")


def test_one_that_cannot_be_ended_keeps_no_other_from_it(running, user, monkeypatch):
    bad = creation.create(
        NewResponse(
            user_id=user.pk, purpose="api", dialect="openai_chat", model="m", policy="abort", stream=True, request={},
            prompt_ids=(1, 2, 3), owner="web_x", id="resp_00000000000000000000000000",
        )
    )  # fmt: skip
    end, refused = orphans.end_orphan, []

    def end_unless_bad(response, how):
        if response.id == bad.id:
            refused.append(response.id)
            raise DataError("value out of range")
        return end(response, how)

    monkeypatch.setattr(orphans, "end_orphan", end_unless_bad)
    assert sum(end_orphans() for _ in range(DEAD_TICKS + 1)) == 1
    assert refused == [bad.id]
    assert state(running)[0] == "ended"
