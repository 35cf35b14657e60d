"""Owns the table of batches: many requests in one file, answered one by one, with whatever rights their key has."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from .access import ApiKey
from .ids import batch_id


class Batch(models.Model):
    """One batch. Its files are named, not referred to: they may go before it. Times are empty until they come.

    Who works at it has its ``worker``, until ``lease_until``; there are as many ``slot``s as batches may be worked at
    at once. Nobody has to before ``due_at``.
    """

    class Status(models.TextChoices):
        """As OpenAI names them."""

        VALIDATING = "validating"
        FAILED = "failed"
        IN_PROGRESS = "in_progress"
        FINALIZING = "finalizing"
        COMPLETED = "completed"
        EXPIRED = "expired"
        CANCELLING = "cancelling"
        CANCELLED = "cancelled"

    #: Somebody has to work at these.
    UNFINISHED = (Status.VALIDATING, Status.IN_PROGRESS, Status.FINALIZING, Status.CANCELLING)

    id = models.CharField(primary_key=True, max_length=40, default=batch_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="batches", db_index=False)
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, verbose_name="API key", null=True, related_name="+")
    endpoint = models.CharField(max_length=40)
    metadata = models.JSONField(null=True)
    input_file_id = models.CharField(max_length=40)
    output_file_id = models.CharField(max_length=40, blank=True)
    error_file_id = models.CharField(max_length=40, blank=True)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.VALIDATING)
    errors = models.JSONField(default=list, blank=True)
    total = models.PositiveIntegerField(default=0)
    completed = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    output_ttl_s = models.PositiveIntegerField(
        null=True, blank=True, help_text="s after which what it writes goes, where the site keeps files no shorter"
    )
    no_store = models.BooleanField(default=False, help_text="a line says so: its files go soon after its end")

    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(help_text="the end of its window: what is not answered then never will be")
    in_progress_at = models.DateTimeField(null=True, blank=True)
    finalizing_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    expired_at = models.DateTimeField(null=True, blank=True)
    cancelling_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    worker = models.CharField(max_length=40, blank=True)
    slot = models.PositiveSmallIntegerField(null=True, blank=True, unique=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "batches"
        indexes = [
            models.Index(fields=["user", "-id"]),
            models.Index(fields=["-created_at"], name="batch_created"),
            models.Index(
                fields=["due_at"],
                condition=models.Q(status__in=("validating", "in_progress", "finalizing", "cancelling")),
                name="batch_unfinished",
            ),
        ]
        permissions = [("cancel_batch", "Can cancel batches")]

    def __str__(self) -> str:
        return self.id

    @property
    def is_unfinished(self) -> bool:
        return self.status in self.UNFINISHED
