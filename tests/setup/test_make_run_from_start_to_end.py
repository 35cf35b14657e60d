"""Owns the promise of `make run` as a whole: Ready means that a question is answered; the end leaves nothing."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request

import psutil
import pytest

from deploy.setup import places
from tests.setup.family import still_running

pytestmark = [pytest.mark.engine, pytest.mark.slow]
#: The supervisor's own limit is 8 s; a busy machine needs its time to show the end.
STOP_WITHIN_S = 30
CLUSTER = ["web-1", "web-2", "web-3", "engine-1", "engine-2", "worker", "beat", "valkey", "postgres", "nginx"]


class Run:
    """`make run`, or another command like it, on a free port with a data folder of its own."""

    def __init__(self, data_dir, command):
        self.env = os.environ | {"DATA_DIR": str(data_dir), "PORT": "0", "HOST": "127.0.0.1"}
        argv = [sys.executable, "-m", "deploy.setup", command]
        self.process = subprocess.Popen(
            argv,
            cwd=places.ROOT,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.output = []
        for line in self.process.stdout:
            self.output.append(line)
            if line.startswith("Ready: "):
                break
        else:
            pytest.fail("".join(self.output))
        self.url, _, token = self.output[-1].removeprefix("Ready: ").strip().partition("/login/")
        self.login = f"{self.url}/login/{token}"
        for line in self.output:
            if "Commands for it: " in line:
                self.env |= dict(word.partition("=")[::2] for word in shlex.split(line) if "=" in word)
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    def manage(self, *args):
        argv = [sys.executable, "manage.py", *args]
        done = subprocess.run(argv, cwd=places.ROOT, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def pid_of(self, name):
        """Of a process of the Procfile, from honcho's line of its start."""
        (line,) = [line for line in self.output if f" {name} started (pid=" in line]
        return int(line.rpartition("=")[2].rstrip(")\n"))

    def end(self):
        output, _ = self.process.communicate(timeout=STOP_WITHIN_S)
        return output, self.process.returncode

    def left_over(self):
        return still_running(self.family, within_s=10)


@pytest.fixture
def make_run(demo_model, tmp_path, monkeypatch):
    """Starts `make run` with the model that is there; the data folder's name has a space."""
    monkeypatch.setenv("MODEL_DIR", str(demo_model.parent.parent))
    started = []

    def start(command="run"):
        started.append(Run(tmp_path / "data folder", command))
        return started[-1]

    yield start
    for one in started:
        for process in one.family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        one.process.kill()
        one.process.wait()


def static_file(page):
    return re.search(r'"(/static/assets/main-[^"]+)"', page)[1]


@pytest.mark.parametrize("command", ["run", "cluster"])
def test_ready_means_that_a_question_is_answered_and_ctrl_c_ends_everything_in_time(make_run, command):
    running = make_run(command)
    assert "warn" not in "".join(running.output).lower(), "nothing for a newcomer to wonder about"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
    with opener.open(running.login) as page:
        assert page.geturl() == f"{running.url}/"
        page_text = page.read().decode()
    question = {"model": "smollm2-135m-instruct", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
    if command == "cluster":
        assert {f" {name} started" in "".join(running.output) for name in CLUSTER} == {True}
        assert page.headers["Server"] == "nginx"
        with opener.open(running.url + static_file(page_text)) as file:
            assert file.headers["Cache-Control"].endswith("immutable")
    headers = {"Authorization": f"Bearer {running.manage('create_api_key', 'dev')}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{running.url}/v1/chat/completions", json.dumps(question).encode(), headers)
    with opener.open(asked) as answer:
        assert json.load(answer)["choices"][0]["message"]["content"]
    os.killpg(running.process.pid, signal.SIGINT)
    output, code = running.end()
    assert code == 130
    assert "Traceback" not in output
    assert running.left_over() == []


@pytest.mark.parametrize("name", ["web", "engine"])
def test_the_death_of_a_process_ends_everything_with_its_name(make_run, name):
    running = make_run()
    os.kill(running.pid_of(name), signal.SIGKILL)
    output, code = running.end()
    assert f"{name} ended with code -9: stopping everything" in output
    assert code == 137
    assert running.left_over() == []
