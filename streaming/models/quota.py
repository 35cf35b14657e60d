"""Owns the tables of quotas: what a subject may use, what has been used of it, and what ended answers give back."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q

from .access import ApiKey

SUBJECTS = ("user", "group", "api_key")


def _limit(help_text: str) -> "models.PositiveBigIntegerField[int | None, int | None]":
    return models.PositiveBigIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text=f"{help_text}; empty: no limit"
    )


class Quota(models.Model):
    """What one user, group or API key may use. Of all that concern a caller the most restrictive wins."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="quota"
    )
    group = models.OneToOneField(Group, on_delete=models.CASCADE, null=True, blank=True, related_name="quota")
    api_key = models.OneToOneField(
        ApiKey, on_delete=models.CASCADE, verbose_name="API key", null=True, blank=True, related_name="quota"
    )
    is_shared = models.BooleanField(
        default=False, help_text="a group's members use it up together; otherwise each member has all of it"
    )
    concurrent_streams = _limit("answers at a time")
    requests_per_minute = _limit("requests in a minute of the clock")
    tokens_per_minute = _limit("tokens of prompts and answers in a minute of the clock")
    tokens_per_day = _limit("tokens of prompts and answers in a day of UTC")
    tokens_per_month = _limit("tokens of prompts and answers in a month of UTC")
    max_output_tokens = _limit("tokens of one answer")
    models_allowed = models.JSONField(null=True, blank=True, help_text='as ["model", "other"]; empty: every model')

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True, api_key__isnull=True)
                | Q(user__isnull=True, group__isnull=False, api_key__isnull=True)
                | Q(user__isnull=True, group__isnull=True, api_key__isnull=False),
                name="quota_has_one_subject",
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {getattr(self, self.subject)}"

    @property
    def subject(self) -> str:
        """``user``, ``group`` or ``api_key``."""
        return next((name for name in SUBJECTS if getattr(self, f"{name}_id") is not None), "user")

    def clean(self) -> None:
        """Raises ValidationError where the database would refuse the row, or a list of models is none."""
        given = [name for name in SUBJECTS if getattr(self, f"{name}_id") is not None]
        if len(given) != 1:
            raise ValidationError(f"choose one of user, group and API key (got {len(given)})")
        allowed = self.models_allowed
        if allowed is not None and not (isinstance(allowed, list) and all(isinstance(name, str) for name in allowed)):
            raise ValidationError({"models_allowed": "a list of names of models, or nothing"})


class QuotaUse(models.Model):
    """What has been used of a quota: the row that callers wait for each other at.

    ``member`` is the user's id where each of a group has the whole quota, else 0. ``windows`` are requests and tokens
    by kind of window and its start, in seconds since 1970.
    """

    quota = models.ForeignKey(Quota, on_delete=models.CASCADE, related_name="uses")
    member = models.BigIntegerField(default=0)
    streams = models.PositiveIntegerField(default=0)
    windows = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["quota", "member"], name="one_use_per_member")]


class QuotaSettlement(models.Model):
    """What the end of a response gives back to one QuotaUse. Added with the end, folded in by who reserves next.

    The end must never wait for a caller who reserves, so it adds a row and changes none.
    """

    use_id = models.BigIntegerField(db_index=True)
    at_s = models.BigIntegerField(help_text="when it was reserved")
    requests = models.SmallIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
