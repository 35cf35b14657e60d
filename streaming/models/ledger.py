"""Owns the tables of the ledger: engines' counters as they stood, and what comparisons of the books found."""

from django.db import models
from django.utils import timezone

from .engine import Engine


class EngineReading(models.Model):
    """What an engine had counted since it began, at one moment."""

    engine = models.ForeignKey(Engine, on_delete=models.CASCADE, related_name="readings")
    read_at = models.DateTimeField(default=timezone.now)
    generated_tokens = models.BigIntegerField()
    prompt_tokens = models.BigIntegerField()
    life = models.BigIntegerField(null=True, help_text="another number whenever it was started, where it gives one")

    class Meta:
        indexes = [models.Index(fields=["engine", "-read_at"])]


class LedgerCheck(models.Model):
    """One comparison. ``seen`` should lie between ``low`` and ``high``; ``drift`` is by how much it does not.

    Above it is positive, below it negative. ``kind`` says what was compared: ``engine``, ``unended``, ``rollup``,
    ``quota``; ``subject`` of which engine, day or quota.
    """

    checked_at = models.DateTimeField(default=timezone.now, db_index=True)
    kind = models.CharField(max_length=24)
    subject = models.CharField(max_length=200, blank=True)
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    low = models.BigIntegerField(null=True)
    high = models.BigIntegerField(null=True)
    seen = models.BigIntegerField()
    drift = models.BigIntegerField(default=0)
    message = models.CharField(max_length=300, blank=True)
