"""Owns the registration of the one Django app."""

from django.apps import AppConfig


class StreamingConfig(AppConfig):
    name = "streaming"
    verbose_name = "Chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect what must happen whoever deletes a row."""
        from streaming.store import erasure  # noqa: F401
