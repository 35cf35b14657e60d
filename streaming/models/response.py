"""Owns the tables of responses and their logs, and the constraints that keep them honest."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from streaming.protocol import end_state

from .access import ApiKey
from .conversation import Conversation, Message
from .engine import Engine
from .ids import response_id


class Response(models.Model):
    """One model answer under one id, from its request to its one end state and its usage.

    The row outlives its text, its conversation and its user: what was used is not undone by a deletion
    (``store.erasure``). Every column that can hold somebody's words is one that erasure knows.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        ENDED = "ended"

    class Purpose(models.TextChoices):
        CHAT = "chat"
        API = "api", "API"
        TITLE = "title"
        BATCH = "batch"
        PROBE = "probe"

    #: Nobody waits for these: engines take others first, and they begin where there is room.
    UNHURRIED = (Purpose.TITLE, Purpose.BATCH)

    class Mark(models.TextChoices):
        GOOD = "good"
        BAD = "bad"

    id = models.CharField(primary_key=True, max_length=40, default=response_id, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="responses", null=True, db_index=False
    )
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.SET_NULL, verbose_name="API key", null=True, blank=True, db_index=False
    )
    conversation = models.ForeignKey(
        Conversation, on_delete=models.SET_NULL, null=True, blank=True, related_name="responses"
    )
    message = models.OneToOneField(Message, on_delete=models.SET_NULL, null=True, blank=True, related_name="response")
    purpose = models.CharField(max_length=8, choices=Purpose.choices)
    dialect = models.CharField(max_length=16)
    stream = models.BooleanField(default=True)
    model = models.CharField(max_length=200)
    engine = models.ForeignKey(Engine, on_delete=models.SET_NULL, null=True, blank=True, db_index=False)
    request = models.JSONField(default=dict, help_text="clamped parameters, without the prompt's text")
    prompt_ids = models.BinaryField(null=True, help_text="compressed; dropped at the end")
    policy = models.CharField(max_length=16, help_text="abort, grace=N (seconds) or background")
    idempotency_key = models.CharField(max_length=200, null=True, blank=True)
    request_sha256 = models.CharField(max_length=64, blank=True)

    state = models.CharField(max_length=8, choices=State.choices, default=State.QUEUED)
    owner = models.CharField(max_length=40, null=True, blank=True)
    epoch = models.PositiveIntegerField(default=1)
    attempts = models.JSONField(default=list, blank=True, help_text="what each engine that was asked made of it")
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_reason = models.CharField(max_length=24, blank=True, help_text="the end reason that a stop asked for")
    last_seq = models.PositiveIntegerField(default=0, help_text="written at the end; before it the log decides")

    created_at = models.DateTimeField(auto_now_add=True)
    admitted_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    queue_ms = models.FloatField("queue time (ms)", null=True, blank=True)
    ttft_ms = models.FloatField("TTFT (ms)", null=True, blank=True)
    itl_p50_ms = models.FloatField("ITL p50 (ms)", null=True, blank=True)
    itl_p95_ms = models.FloatField("ITL p95 (ms)", null=True, blank=True)
    itl_max_ms = models.FloatField("ITL max (ms)", null=True, blank=True)

    end_state = models.CharField(max_length=12, null=True, blank=True, choices=[(s, s) for s in end_state.END_STATES])
    end_reason = models.CharField(max_length=24, blank=True)
    finish_reason = models.CharField(max_length=16, null=True, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.TextField(blank=True)
    abort_proven = models.BooleanField(null=True)
    unproven_since = models.DateTimeField(
        null=True, blank=True, help_text="since when an engine that was left has not shown that it stopped"
    )
    stop_ms = models.FloatField(
        "stop took (ms)", null=True, blank=True, help_text="from the stop call to the engine's proof"
    )
    tokens_after_stop = models.PositiveIntegerField(null=True, blank=True)

    output_text = models.TextField(blank=True)
    reasoning_text = models.TextField(blank=True)
    remains = models.JSONField(null=True, help_text="what its log held beside the text, once that has expired")
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    cached_tokens = models.PositiveIntegerField(null=True, blank=True)
    generated_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    sent_tokens = models.PositiveIntegerField(default=0)
    delivered_tokens = models.PositiveIntegerField(default=0)
    usage_estimated = models.BooleanField(default=False)
    reserved = models.JSONField(null=True, help_text="what it took of quotas at its start; empty: no quota")
    cost = models.DecimalField(max_digits=20, decimal_places=12, null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)

    mark = models.CharField(
        max_length=4, choices=Mark.choices, null=True, blank=True, help_text="what its user thinks of it"
    )
    no_store = models.BooleanField(default=False, help_text="the text is erased soon after the end")
    erased_at = models.DateTimeField(null=True, blank=True, help_text="since then only numbers are left of it")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state="ended", end_state__isnull=False) | (~Q(state="ended") & Q(end_state__isnull=True)),
                name="ended_has_end_state",
            ),
            models.CheckConstraint(
                condition=Q(end_state__isnull=True) | Q(end_state__in=end_state.END_STATES), name="known_end_state"
            ),
            models.CheckConstraint(
                condition=Q(sent_tokens__lte=F("generated_tokens")) & Q(delivered_tokens__lte=F("sent_tokens")),
                name="delivered_le_sent_le_generated",
            ),
            models.UniqueConstraint(
                fields=["conversation"],
                condition=~Q(state="ended") & Q(purpose="chat"),
                name="one_running_chat_response",
            ),
            models.UniqueConstraint(fields=["user", "idempotency_key"], name="one_response_per_idempotency_key"),
        ]
        indexes = [
            models.Index(fields=["-created_at"]),
            models.Index(fields=["end_state", "-created_at"]),
            models.Index(fields=["user", "-created_at"]),
            models.Index(fields=["engine", "-created_at"]),
            # What the admin filters by: each walks from the newest, so that a page is read and nothing else.
            models.Index(fields=["end_reason", "-created_at"], name="response_end_reason"),
            models.Index(fields=["api_key", "-created_at"], name="response_api_key"),
            models.Index(fields=["model", "-created_at"], name="response_model"),
            models.Index(fields=["purpose", "-created_at"], name="response_purpose"),
            # Of all rows: PostgreSQL takes no estimates from an index of some, and would read the table.
            models.Index(F("generated_tokens") - F("delivered_tokens"), name="response_wasted_tokens"),
            models.Index(fields=["mark", "-created_at"], condition=Q(mark__isnull=False), name="response_marked"),
            models.Index(fields=["owner"], condition=~Q(state="ended"), name="response_unended_owner"),
            models.Index(
                fields=["unproven_since", "id"], condition=Q(unproven_since__isnull=False), name="response_unproven"
            ),
            models.Index(
                fields=["ended_at"], condition=Q(no_store=True, erased_at__isnull=True), name="response_to_erase"
            ),
        ]
        permissions = [("stop_response", "Can stop running responses")]

    def __str__(self) -> str:
        return self.id

    @property
    def options(self) -> dict[str, Any]:
        """What decides about its stream beside the sampling; nothing of a response that was erased."""
        options: dict[str, Any] = self.request.get("options", {})
        return options

    @property
    def run_tools(self) -> list[str]:
        """The names of our own tools that it may call."""
        names: list[str] = self.options.get("run_tools", [])
        return names

    @property
    def wasted_tokens(self) -> int:
        """Tokens the engine made that no reader's socket took."""
        return self.generated_tokens - self.delivered_tokens


class ResponseEvent(models.Model):
    """One stored event. Append-only; the primary key is the fence between two would-be owners."""

    pk = models.CompositePrimaryKey("response_id", "seq")
    # The primary key begins with it: a second index would double what an event costs to store.
    response = models.ForeignKey(Response, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    kind = models.CharField(max_length=16)
    payload = models.JSONField()
    token_ids = models.BinaryField(null=True)
    token_count = models.PositiveIntegerField(default=0)
    at_ms = models.IntegerField(null=True, help_text="since the request arrived")
