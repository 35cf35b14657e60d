"""The project: settings, routing, servers and the Celery application."""

from typing import Any


def __getattr__(name: str) -> Any:
    """``chatsite.celery_app``, imported when first asked for: a web process starts without Celery."""
    if name != "celery_app":
        raise AttributeError(name)
    from chatsite.celery import app

    return app
