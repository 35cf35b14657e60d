"""Daily histograms: each response counted once a figure, percentiles as good as promised, the same when made again."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from streaming.models import DailyHistogram, Response
from streaming.store import histograms, usage

pytestmark = pytest.mark.django_db
DAY = datetime(2026, 3, 4, tzinfo=UTC)
ASKED = {"purpose": "api", "dialect": "openai_chat", "policy": "abort", "state": "ended"}


def made(count=1, at=DAY + timedelta(hours=5), **fields):
    rows = [Response(**{**ASKED, "model": "m", **fields}) for _ in range(count)]
    Response.objects.bulk_create(rows)
    Response.objects.filter(id__in=[row.id for row in rows]).update(created_at=at)


def stored(figure):
    rows = DailyHistogram.objects.filter(figure=figure).order_by("part")
    return [(str(row.day), row.model, row.part, row.count) for row in rows]


def test_ends_cancel_positions_and_prompt_lengths_are_counted_by_day_and_model():
    made(3, end_state="completed", end_reason="stop", ttft_ms=50, prompt_tokens=255)
    made(2, end_state="completed", end_reason="stop", ttft_ms=50, prompt_tokens=256)
    made(7, stream=False, end_state="completed", end_reason="stop", ttft_ms=9000, prompt_tokens=255)
    made(1, end_state="cancelled", end_reason="user", generated_tokens=16)
    made(1, end_state="cancelled", end_reason="api", generated_tokens=0)
    made(4, at=DAY + timedelta(days=1), end_state="errored", end_reason="internal")
    made(1, state="running")
    usage.roll_up(DAY.date())
    assert stored("end") == [
        ("2026-03-04", "m", "cancelled/api", 1),
        ("2026-03-04", "m", "cancelled/user", 1),
        ("2026-03-04", "m", "completed/stop", 12),
    ]
    assert stored("ttft") == [("2026-03-04", "m", "0–255", 3), ("2026-03-04", "m", "256–1k", 2)]
    assert stored("cancel") == [("2026-03-04", "m", "16–63", 1), ("2026-03-04", "m", "before the first", 1)]


def test_summing_up_again_gives_the_same():
    made(3, end_state="completed", end_reason="stop", itl_p50_ms=20)
    usage.roll_up(DAY.date())
    first = list(DailyHistogram.objects.values_list("figure", "part", "bucket", "count"))
    usage.roll_up(DAY.date())
    assert list(DailyHistogram.objects.values_list("figure", "part", "bucket", "count")) == first


def test_a_percentile_is_right_to_six_percent():
    draw = random.Random(3)
    values = sorted(draw.lognormvariate(5, 1) for _ in range(3000))
    Response.objects.bulk_create(
        Response(**ASKED, model="m", end_state="completed", end_reason="stop", itl_p50_ms=value) for value in values
    )
    Response.objects.update(created_at=DAY)
    rows = histograms.counted(DAY.date())
    buckets = {bucket: count for _, figure, _, bucket, count in rows if figure == "itl"}
    for share in (0.5, 0.95, 0.99):
        exact = values[int(share * len(values)) - 1]
        assert histograms.percentile(buckets, share) == pytest.approx(exact, rel=0.06)
    assert histograms.percentile({}, 0.5) is None
