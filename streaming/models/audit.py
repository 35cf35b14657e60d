"""Owns the table of what staff did and saw: rows that are added and never changed. Decides nothing about who may."""

from typing import Any, NoReturn

from django.db import models
from django.utils import timezone


class AppendOnly(TypeError):
    """Somebody tried to change or delete what is only ever added to."""


class AuditEntries(models.QuerySet["AuditEntry"]):
    """Reading and adding."""

    def update(self, **values: Any) -> NoReturn:
        raise AppendOnly("audit entries are not changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("audit entries are not deleted")


class AuditEntry(models.Model):
    """Who did what to what, when and from where.

    Names and ids are copied, not referred to: the entry outlives the user and the row that it is about.
    """

    at = models.DateTimeField(default=timezone.now, editable=False)
    actor_id = models.BigIntegerField(null=True, help_text="the user's id")
    actor = models.CharField(max_length=150, help_text="the user's name then")
    action = models.CharField(max_length=40)
    target_kind = models.CharField(max_length=40, blank=True)
    target_id = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    address = models.CharField(max_length=45, blank=True, help_text="where the request came from")

    objects = AuditEntries.as_manager()

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["-at"], name="audit_at"),
            models.Index(fields=["actor", "-at"], name="audit_actor"),
            models.Index(fields=["target_kind", "target_id"], name="audit_target"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target_kind} {self.target_id}".strip()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("audit entries are not changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly("audit entries are not deleted")
