"""Owns the Celery application. The tasks are in streaming.tasks; a web process imports this when it sends one."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")

app = Celery("chatsite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["streaming"])
app.conf.beat_schedule = {"end-orphans": {"task": "streaming.end_orphans", "schedule": 5.0}}
