"""Owns the tables of webhooks: who is told of ended responses, and what has yet to be told. Sends nothing."""

import re
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

SECRET_VARIABLE = r"WEBHOOK_SECRET(_[A-Z0-9_]+)?"


class WebhookEndpoint(models.Model):
    """An address that is told of every response that ends. Its secret stands in the environment."""

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField("URL", max_length=500)
    secret_env = models.CharField(max_length=100, help_text="the variable with the secret: WEBHOOK_SECRET_…")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    failed_rounds = models.PositiveIntegerField(default=0, editable=False, help_text="in a row")
    rests_until = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raises ValidationError for what could never be sent to."""
        if not re.fullmatch(SECRET_VARIABLE, self.secret_env):
            raise ValidationError({"secret_env": "a variable whose name begins with WEBHOOK_SECRET"})
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ValidationError({"url": "http:// or https:// and a host, without a user"})


class WebhookDelivery(models.Model):
    """One ended response to tell one endpoint of. Written in the transaction of the end; the payload holds no text."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        DEAD = "dead"

    # No constraint: an endpoint that is deleted at that moment must not break the commit in which responses end.
    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries", db_constraint=False
    )
    response_id = models.CharField(max_length=40)
    payload = models.JSONField()
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(default=timezone.now, help_text="the next attempt; while one runs, when it is lost")
    ended_at = models.DateTimeField(null=True, blank=True)
    last_status = models.PositiveIntegerField(null=True, blank=True)
    last_error = models.CharField(max_length=200, blank=True)

    class Meta:
        verbose_name_plural = "webhook deliveries"
        constraints = [models.UniqueConstraint(fields=["endpoint", "response_id"], name="one_delivery_per_response")]
        indexes = [
            models.Index(fields=["due_at"], condition=models.Q(state="pending"), name="delivery_due"),
            models.Index(fields=["state", "-created_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.response_id} to {self.endpoint_id}"
