"""Owns the tables of API keys, accounts of programs, one-time logins and invitations. Stores hashes only."""

from django.conf import settings
from django.db import models

MODELS_READ = "models:read"
RESPONSES_READ = "responses:read"
RESPONSES_WRITE = "responses:write"
#: What a key may do. A new scope is in no key that was made before it.
SCOPES = (MODELS_READ, RESPONSES_READ, RESPONSES_WRITE)
EVERY_SCOPE = " ".join(SCOPES)


class ApiKey(models.Model):
    """A developer's key. The key itself is shown once and never stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=16, help_text="the first characters, to tell keys apart")
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=200, default=EVERY_SCOPE, help_text="separated by a space")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.user})"


class ServiceAccount(models.Model):
    """Marks a user that is a program: nobody logs in as it, it has only keys."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="service_account"
    )
    purpose = models.CharField(max_length=200, help_text="what it is for, and whom to ask about it")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.user.get_username()


class LoginToken(models.Model):
    """A link that logs one user in once."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)


class Invitation(models.Model):
    """A link by which one person makes an account, once."""

    note = models.CharField(max_length=200, blank=True, help_text="for whom it is")
    sha256 = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(editable=False)
    used_at = models.DateTimeField(null=True, editable=False)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, editable=False, related_name="+"
    )

    def __str__(self) -> str:
        return f"invitation {self.pk} ({self.note or 'for anybody'})"
