"""Owns the table of who an OpenID provider says somebody is. Decides nothing about who may come in."""

from django.conf import settings
from django.db import models


class Identity(models.Model):
    """One subject of one issuer is one user, whatever name or e-mail address it has by now."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255, help_text="what the provider calls the person, letter by letter")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_per_subject")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"
