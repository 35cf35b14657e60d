"""Owns daily histograms in the database, and percentiles out of them. Does not decide when they are made."""

import math
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from django.db import transaction
from django.db.models import Case, CharField, Count, F, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Concat, Floor, Greatest, Ln

from streaming.models import DailyHistogram, Response
from streaming.protocol.end_state import CANCELLED

from . import responses

#: Steps for each factor of ten: a percentile is right to 6 %.
STEPS = 20
SCALE = STEPS / math.log(10)
LEAST_MS = 0.1
#: (below so many, name), the last without a bound.
PROMPT_CLASSES = ((256, "0–255"), (1024, "256–1k"), (4096, "1k–4k"), (16384, "4k–16k"), (None, "16k and more"))
CANCEL_CLASSES = (
    (1, "before the first"), (16, "1–15"), (64, "16–63"), (256, "64–255"), (1024, "256–1023"), (None, "1024 and more"),
)  # fmt: skip
_Classes = tuple[tuple[int | None, str], ...]
#: model, figure, part, bucket, count.
Row = tuple[str, str, str, int, int]


def roll_up(day: date) -> None:
    """Count a day (UTC) anew."""
    rows = counted(day)
    with transaction.atomic():
        DailyHistogram.objects.filter(day=day).delete()
        DailyHistogram.objects.bulk_create(
            DailyHistogram(day=day, model=model, figure=figure, part=part, bucket=bucket, count=count)
            for model, figure, part, bucket, count in rows
        )


def counted(day: date) -> list[Row]:
    """What a day's responses are counted as, from the responses themselves."""
    rows = responses.begun_on(day)
    ended = rows.filter(end_state__isnull=False)
    # What is handed over whole has no first token: its time would be that of the whole answer.
    begun = rows.filter(ttft_ms__isnull=False, stream=True)
    return [
        *_count("ttft", begun, _class("prompt_tokens", PROMPT_CLASSES), _bucket("ttft_ms")),
        *_count("itl", rows.filter(itl_p50_ms__isnull=False), Value(""), _bucket("itl_p50_ms")),
        *_count("cancel", rows.filter(end_state=CANCELLED), _class("generated_tokens", CANCEL_CLASSES), Value(0)),
        *_count("end", ended, Concat("end_state", Value("/"), "end_reason"), Value(0)),
    ]


def _count(figure: str, rows: QuerySet[Response], part: Any, bucket: Any) -> Iterable[Row]:
    groups = rows.annotate(part=part, bucket=bucket).values_list("model", "part", "bucket")
    return [(model, figure, part, bucket, n) for model, part, bucket, n in groups.annotate(n=Count("id"))]


def _class(column: str, classes: _Classes) -> Case:
    *bounded, (_, last) = classes
    whens = [When(Q((f"{column}__lt", bound)), then=Value(name)) for bound, name in bounded]
    return Case(*whens, default=Value(last), output_field=CharField())


def _bucket(column: str) -> Cast:
    return Cast(Floor(Ln(Greatest(F(column), Value(LEAST_MS))) * Value(SCALE)), IntegerField())


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """The value in milliseconds below which that share of the counted lies; None of nothing."""
    left = share * sum(buckets.values())
    for bucket in sorted(buckets):
        count = buckets[bucket]
        if count and left <= count:
            return math.exp((bucket + left / count) / SCALE)
        left -= count
    return None
