"""A Valkey in a shared network: TLS that is checked, one user with few rights, messages nobody else can read.

Doorbells, pages, the cache and a real Celery worker do their work with exactly the rights that operations.md names.
Costs about 20 s.
"""

import contextlib
import subprocess
import sys

import pytest
import redis
from cryptography.fernet import Fernet

from tests.child import ROOT, Child
from tests.cluster.postgres import ClusterSite
from tests.cluster.sealed_valkey import SealedValkey
from tests.cluster.test_doorbells import SELDOM, followed_and_stopped
from tests.e2e.reading import eventually
from tests.e2e.talking import said, talk

SEND = """
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.core.cache import cache
async_to_sync(get_channel_layer().send)("somebody", {"type": "ring", "look": ["resp_secret"], "leaving": []})
cache.set("a", 5)
assert cache.get("a") == 5
print("sent")
"""
ASK = 'from chatsite.celery import app; app.send_task("streaming.end_orphans")'


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    server = SealedValkey(tmp_path_factory.mktemp("sealed"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def settings(valkey):
    key = Fernet.generate_key().decode()
    return {"VALKEY_URL": valkey.url, "VALKEY_CA_FILE": valkey.ca_file, "VALKEY_ENCRYPTION_KEYS": key}


@pytest.fixture(scope="module")
def sealed(pair, tmp_path_factory, postgres, model_dir, settings):
    """Two more processes on the pair's database, with this Valkey."""
    sites = []
    for name in ("five", "six"):
        site = ClusterSite(tmp_path_factory.mktemp(name), model_dir, postgres)
        site.env.update({**settings, **SELDOM, "LIST_POLL_S": "60"})
        site.key = pair[0].key
        site.start()
        sites.append(site)
    yield sites
    for site in sites:
        site.stop()


def shell(site: ClusterSite, code: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    return subprocess.run(command, cwd=ROOT, env={**site.env, **env}, capture_output=True, text=True, check=False)


def test_doorbells_and_pages_work_with_few_rights_over_tls(sealed, valkey):
    one, two = sealed
    followed_and_stopped(one, two, ticks=60)
    with contextlib.closing(one.page("ann")) as ann, talk(two, ann) as page:
        said(page, "hello")
        eventually(lambda: valkey.client().keys("asgi:group:pages.*"))
        made = ann.post("/api/conversations", json={}).json()["id"]
        assert said(page, "conversations")["conversation"] == made


def test_what_waits_in_valkey_says_nothing_to_who_has_no_key(sealed, valkey, settings):
    one, _ = sealed
    done = shell(one, SEND)
    assert done.stdout.strip() == "sent", done.stderr
    (waiting,) = valkey.client().zrange("asgisomebody", 0, -1)
    assert b"secret" not in waiting
    assert b"ring" not in waiting
    assert 0 < valkey.client().ttl("asgisomebody") <= 10
    valkey.client().delete("asgisomebody")
    plain = shell(one, SEND, VALKEY_ENCRYPTION_KEYS="")
    assert plain.stdout.strip() == "sent", plain.stderr
    assert b"secret" in valkey.client().zrange("asgisomebody", 0, -1)[0]


def test_a_celery_worker_does_its_tasks_with_the_same_rights(sealed):
    one, _ = sealed
    argv = [sys.executable, "-m", "celery", "-A", "chatsite", "worker", "-P", "solo", "-l", "info"]
    worker = Child(argv, one.env, one.data_dir / "worker.log")
    try:
        worker.line_with(" ready.")
        assert shell(one, ASK).returncode == 0
        worker.line_with("streaming.end_orphans[")
        worker.line_with("succeeded")
    finally:
        worker.end()


def test_a_certificate_that_nobody_trusts_and_a_wrong_password_are_refused(sealed, settings, tmp_path):
    one, _ = sealed
    untrusted = shell(one, SEND, VALKEY_CA_FILE="")
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted.stderr
    wrong = shell(one, SEND, VALKEY_URL=settings["VALKEY_URL"].replace(":site@", ":guess@"))
    assert "invalid username-password pair" in wrong.stderr


def test_the_sites_user_may_neither_look_into_other_keys_nor_rule(valkey):
    mine = redis.Redis.from_url(valkey.url, ssl_ca_certs=valkey.ca_file)
    for command in ("GET other", "CONFIG GET *", "FLUSHALL", "KEYS *", "ACL LIST"):
        with pytest.raises(redis.ResponseError, match="permissions"):
            mine.execute_command(*command.split())
