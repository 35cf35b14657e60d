"""Owns the table of daily usage: sums over responses for dashboards and bills; computed from them, not counted up."""

from django.conf import settings
from django.db import models

from .access import ApiKey
from .engine import Engine

#: What tells two rollups of a day apart, as columns of Response have it. Last what may be any text.
DIMENSIONS = ("user_id", "api_key_id", "engine_id", "purpose", "end_state", "model")


class DailyUsage(models.Model):
    """The responses that were created on one day (UTC) and agree in all DIMENSIONS.

    ``end_state`` is empty for those that had not ended when it was computed. An average is a sum divided by its count:
    a figure that a response does not have (no stop; no first token, as where it was handed over whole) is in neither.
    ``wasted_tokens`` is generated minus delivered. ``key`` spells the dimensions of the time it was computed: users and
    keys may be deleted, sums stay.
    """

    day = models.DateField()
    key = models.CharField(max_length=300, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, related_name="+")
    model = models.CharField(max_length=200, blank=True)
    engine = models.ForeignKey(Engine, on_delete=models.SET_NULL, null=True, related_name="+")
    purpose = models.CharField(max_length=8)
    end_state = models.CharField(max_length=12, blank=True)

    requests = models.PositiveBigIntegerField()
    estimated_requests = models.PositiveBigIntegerField(help_text="whose counts are a lower bound or an estimate")
    unproven_aborts = models.PositiveBigIntegerField()
    prompt_tokens = models.PositiveBigIntegerField()
    cached_tokens = models.PositiveBigIntegerField()
    generated_tokens = models.PositiveBigIntegerField()
    completion_tokens = models.PositiveBigIntegerField()
    sent_tokens = models.PositiveBigIntegerField()
    delivered_tokens = models.PositiveBigIntegerField()
    wasted_tokens = models.PositiveBigIntegerField()

    queue_ms_sum = models.FloatField()
    queue_ms_count = models.PositiveBigIntegerField()
    ttft_ms_sum = models.FloatField()
    ttft_ms_count = models.PositiveBigIntegerField()
    itl_p50_ms_sum = models.FloatField(help_text="the sum of the responses' medians")
    itl_p50_ms_count = models.PositiveBigIntegerField()
    stop_ms_sum = models.FloatField()
    stop_ms_count = models.PositiveBigIntegerField()
    duration_ms_sum = models.FloatField(help_text="from creation to end")
    duration_ms_count = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "key"], name="one_rollup_per_day_and_key")]
        indexes = [
            models.Index(fields=["user", "-day"]),
            models.Index(fields=["day"], condition=models.Q(end_state=""), name="daily_usage_unended"),
        ]
