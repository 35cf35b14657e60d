"""Owns the tables of files: what callers sent for batches, and what batches wrote. In pieces, so no disk is shared."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from .ids import file_id


class StoredFile(models.Model):
    """One file of one user. Nobody sees it before it ``is_whole``; its bytes are its pieces, in order."""

    class Purpose(models.TextChoices):
        """As OpenAI names them: what is sent, and what comes back."""

        BATCH = "batch"
        BATCH_OUTPUT = "batch_output"

    id = models.CharField(primary_key=True, max_length=40, default=file_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="files", db_index=False)
    purpose = models.CharField(max_length=12, choices=Purpose.choices)
    filename = models.CharField(max_length=255)
    size_bytes = models.PositiveBigIntegerField(default=0)
    is_whole = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="when it is removed; empty: never")

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"]),
            models.Index(fields=["expires_at"], condition=models.Q(expires_at__isnull=False), name="file_expires"),
        ]

    def __str__(self) -> str:
        # Not its name: that is somebody's words.
        return self.id


class FilePiece(models.Model):
    """Some bytes of a file. Of what a batch writes ``seq`` is the number of the input's line, so none comes twice."""

    pk = models.CompositePrimaryKey("file_id", "seq")
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="pieces", db_index=False)
    seq = models.PositiveIntegerField()
    data = models.BinaryField()
