"""Owns the table of shared links: which path of a conversation a link shows. Holds no text and no link."""

from django.db import models

from .conversation import Conversation, Message


class Share(models.Model):
    """A link to a conversation's path from its root down to ``leaf``. The link itself is shown once, never stored."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="shares")
    leaf = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"share {self.pk} of {self.conversation_id}"
