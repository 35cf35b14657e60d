"""Owns reading the rows of engines. Knows no connection to any."""

from django.db.models import Min

from streaming.models import Engine


def enabled() -> list[Engine]:
    """All engines that may be used, oldest first."""
    return list(Engine.objects.filter(enabled=True).order_by("id"))


def served_models() -> list[tuple[str, int]]:
    """Names of the models of enabled engines with the context that all of a model's engines have."""
    rows = Engine.objects.filter(enabled=True).values("model").annotate(context_tokens=Min("context_tokens"))
    return [(row["model"], row["context_tokens"]) for row in rows.order_by("model")]
