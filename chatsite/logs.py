"""Owns which log lines are written, and in which form. Reads no environment; JSON is made in chatsite.json_log."""

from typing import Any


def logging(form: str, level: str) -> dict[str, Any]:
    """As the setting LOGGING; ``form`` is line or json, ``level`` that of what has none of its own."""
    is_json = form == "json"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
            "json": {"()": "chatsite.json_log.JsonFormatter"},
        },
        # 503, and Anthropic's 529, is how the site says "later": no error of ours, and under load one a request.
        "filters": {
            "not_later": {
                "()": "django.utils.log.CallbackFilter",
                "callback": lambda record: getattr(record, "status_code", None) not in (503, 529),
            }
        },
        # What is below INFO may quote an engine.
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": form,
                "level": "INFO" if is_json else "NOTSET",
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.request": {"level": "ERROR", "filters": ["not_later"]},
            # Whoever knocks with a wrong name is answered 400: no error of ours either.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "httpx": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "streaming.ended": {"level": "INFO" if is_json else "WARNING"},
        },
    }
