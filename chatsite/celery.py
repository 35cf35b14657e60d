"""Owns the Celery application. The tasks are in streaming.tasks; a web process imports this when it sends one."""

import os

from celery import Celery
from celery.schedules import crontab

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")

app = Celery("chatsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["streaming"])
app.conf.beat_schedule = {
    "erase-unstored": {"task": "streaming.erase_unstored", "schedule": 15.0},
    "expire": {"task": "streaming.expire", "schedule": 3600.0},
    "end-orphans": {"task": "streaming.end_orphans", "schedule": 5.0},
    "roll-up-usage": {"task": "streaming.roll_up_usage", "schedule": 300.0},
    "reconcile": {"task": "streaming.reconcile", "schedule": 900.0},
    "deliver-webhooks": {"task": "streaming.deliver_webhooks", "schedule": 5.0},
    "forget-webhooks": {"task": "streaming.forget_webhooks", "schedule": 3600.0},
    # Once more at night: figures of a closed day can still rise, as when an old answer is read again.
    "roll-up-usage-again": {
        "task": "streaming.roll_up_usage",
        "schedule": crontab(hour="3", minute="30"),
        "kwargs": {"days_back": 8},
    },
}
