"""Owns the table of web processes and their signs of life."""

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
