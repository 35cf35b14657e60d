"""Owns the registration of the one Django app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class StreamingConfig(AppConfig):
    name = "streaming"
    verbose_name = "Chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # After auth's, which makes the permissions that roles are of.
        from streaming.admin.roles import make_roles

        # The one before the first connection is made; the other's receivers erase with whatever deletes a user.
        from streaming.store import erasure, letter_case, limits  # noqa: F401
        from streaming.tools import check_settings

        check_settings()
        post_migrate.connect(make_roles, sender=self, dispatch_uid="streaming.roles")
        post_migrate.connect(limits.keep_with_role, sender=self, dispatch_uid="streaming.limits")
