"""Owns the tables of threads and turns. The text of an answer stands in its response, not here."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from .ids import conversation_id, message_id


class Conversation(models.Model):
    """A thread of messages of one user."""

    class TitleBy(models.TextChoices):
        """Who made the title. A model's may replace the question's first words, never what the user wrote."""

        QUESTION = "question"
        MODEL = "model"
        USER = "user"

    id = models.CharField(primary_key=True, max_length=40, default=conversation_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversations")
    title = models.CharField(max_length=200, blank=True)
    title_by = models.CharField(max_length=8, blank=True, choices=TitleBy.choices)
    title_attempts = models.PositiveSmallIntegerField(default=0, help_text="how often a model was asked for one")
    title_due_at = models.DateTimeField(null=True, blank=True, help_text="when a model may be asked (again)")
    pinned = models.BooleanField(default=False, help_text="no time limit takes it away")
    model = models.CharField(max_length=200, blank=True)
    system_prompt = models.TextField(blank=True, help_text="what the model is told before the first message")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-updated_at"]),
            models.Index(fields=["-created_at"], name="conversation_created"),
            models.Index(
                fields=["title_due_at"], condition=Q(title_due_at__isnull=False), name="conversation_title_due"
            ),
        ]

    def __str__(self) -> str:
        # Not the title: that is what somebody asked, and this stands wherever the row is named.
        return self.id


class Message(models.Model):
    """One turn. ``text`` is the user's; an assistant's text is that of its response."""

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"

    id = models.CharField(primary_key=True, max_length=40, default=message_id, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")
    role = models.CharField(max_length=16, choices=Role.choices)
    text = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["conversation", "id"])]

    def __str__(self) -> str:
        return self.id
