"""Owns the admin page of engines: the one kind of row that is configured by hand."""

from django.contrib import admin

from streaming.models import Engine


@admin.register(Engine)
class EngineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Where models are served. Secrets stand in the environment, not here."""

    list_display = ["name", "kind", "model", "context_tokens", "slots", "enabled", "url"]
    list_filter = ["kind", "enabled"]
    search_fields = ["name", "model"]
    ordering = ["name"]
