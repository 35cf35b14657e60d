"""Owns the tables of web processes: their signs of life, and who reads at them what another one runs."""

from django.db import models

from .response import Response


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
    """How many readers a process has of a response that runs elsewhere, and how far any of them has come."""

    pk = models.CompositePrimaryKey("response_id", "process")
    response = models.ForeignKey(Response, on_delete=models.CASCADE, related_name="+", db_index=False)
    process = models.CharField(max_length=40)
    readers = models.PositiveIntegerField()
    delivered_tokens = models.PositiveIntegerField(default=0)
