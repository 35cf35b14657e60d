"""Owns the tables of web processes and of readers that sit in another process than the relay."""

from django.db import models


class WebProcess(models.Model):
    """A web process. Its ``beat`` rises while it lives; no wall clock decides whether it does."""

    id = models.CharField(primary_key=True, max_length=40)
    host = models.CharField(max_length=200)
    pid = models.PositiveIntegerField()
    beat = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class ReaderPresence(models.Model):
    """How many readers of a response sit in a process that does not own it."""

    response = models.ForeignKey("streaming.Response", on_delete=models.CASCADE, related_name="presences")
    process = models.ForeignKey(WebProcess, on_delete=models.CASCADE)
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["response", "process"], name="one_presence_per_process")]
