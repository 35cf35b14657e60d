"""Owns the table of daily histograms: how many responses of a day fell where. Computed from them, not counted up."""

from django.db import models


class DailyHistogram(models.Model):
    """Responses created on one day (UTC) of one model, by a figure.

    ``figure`` says what is counted and ``part`` of what: ``ttft`` of what was streamed, by prompt length, ``itl``,
    ``cancel`` by how many tokens had been made, ``end`` by end state and reason. ``bucket`` is a step of a logarithmic
    scale of milliseconds (``streaming.store.histograms``), 0 where the figure is no time. Percentiles of days cannot be
    averaged; these can be added up.
    """

    day = models.DateField()
    model = models.CharField(max_length=200)
    figure = models.CharField(max_length=8)
    part = models.CharField(max_length=40, blank=True)
    bucket = models.IntegerField()
    count = models.PositiveBigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["day", "figure"], name="daily_histogram_day")]
