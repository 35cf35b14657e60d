"""Owns the Celery application. The tasks are in streaming.tasks; a web process imports this when it sends one."""

import os

from celery import Celery
from celery.schedules import crontab
from celery.signals import setup_logging
from django.conf import settings
from kombu.entity import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")

app = Celery("chatsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
if settings.LOG_FORMAT == "json":
    # Celery would set up its own lines; Django has set up ours.
    setup_logging.connect(lambda **_: None, weak=False)
app.autodiscover_tasks(["streaming"])
# In this order: a title or a batch never goes before what keeps the site in order.
app.conf.task_queues = [Queue("tasks"), Queue("titles")]
app.conf.beat_scheduler = "chatsite.beat:Scheduler"
app.conf.beat_schedule = {
    "end-orphans": {"task": "streaming.end_orphans", "schedule": 5.0},
    "find-untitled": {"task": "streaming.find_untitled", "schedule": 5.0},
    "work-batches": {"task": "streaming.work_batches", "schedule": 2.0},
    "remove-files": {"task": "streaming.remove_files", "schedule": 60.0},
    "erase-unstored": {"task": "streaming.erase_unstored", "schedule": 15.0},
    "roll-up-usage": {"task": "streaming.roll_up_usage", "schedule": 300.0},
    "reconcile": {"task": "streaming.reconcile", "schedule": 900.0},
    "deliver-webhooks": {"task": "streaming.deliver_webhooks", "schedule": 5.0},
    "forget-webhooks": {"task": "streaming.forget_webhooks", "schedule": 3600.0},
    "roll-up-usage-again": {"task": "streaming.roll_up_usage_again", "schedule": crontab(hour="3", minute="30")},
    "expire": {"task": "streaming.expire", "schedule": 3600.0},
}
