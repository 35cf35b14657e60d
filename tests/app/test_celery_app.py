"""The Celery application: JSON only, and not loaded by a web process that sends no task."""

import subprocess
import sys

from chatsite import celery_app


def test_only_json_is_taken():
    assert list(celery_app.conf.accept_content) == ["json"]
    assert celery_app.conf.task_serializer == "json"


def test_urls_and_views_load_without_celery():
    script = (
        "import os, sys, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'chatsite.settings'; django.setup();"
        "import chatsite.urls; sys.exit('celery' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
