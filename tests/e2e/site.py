"""Owns a real site for tests: the launcher's process, the llama.cpp worker, one database kept through the suite."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_S = 60


class Process:
    """A child whose log is kept, and whose lines can be waited for."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path):
        self.popen = subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._log = log
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with self._log.open("ab") as log:
            for line in self.popen.stdout:
                log.write(line)
                log.flush()
                with self._changed:
                    self.lines.append(line.decode(errors="replace").rstrip())
                    self._changed.notify_all()
        with self._changed:
            self.lines.append("(ended)")
            self._changed.notify_all()

    def line_with(self, text: str, timeout_s: float = START_S, after: int = 0) -> str:
        """The first line that holds the text, behind so many lines, waited for."""

        def found() -> str | None:
            return next((line for line in self.lines[after:] if text in line), None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() or "(ended)" in self.lines, timeout_s) or not found():
                raise AssertionError(f"no line with {text!r} in\n" + "\n".join(self.lines[-30:]))
            return found()

    def end(self, signum: int = signal.SIGTERM, timeout_s: float = 20) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signum)
        return self.popen.wait(timeout_s)


class Site:
    """The web process on one port and one data folder; it can be killed and started again."""

    def __init__(self, data_dir: Path, model_dir: Path, **env: str):
        self.data_dir = data_dir
        self.model_dir = model_dir
        self.port = 0
        self.web: Process | None = None
        self.engine: Process | None = None
        self.engine_url = ""
        self.env = {
            **os.environ,
            "DATA_DIR": str(data_dir),
            "DRAIN_S": "1",
            "PYTHONUNBUFFERED": "1",
            "CREDENTIAL_CHECK_S": "1",
            **env,
        }

    def manage(self, *args: str) -> str:
        """Run a management command and return what it prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *args], cwd=ROOT, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def prepare(self) -> None:
        """Make the database, and lay out what the page is made of."""
        self.manage("migrate", "-v", "0")
        self.manage("collectstatic", "--noinput", "-v", "0")

    def start(self) -> None:
        """Start the web process and wait until it listens."""
        self.web = self._process("serve", "--port", str(self.port), log="web.log")
        self.port = int(self.web.line_with("listening on").rsplit(":", 1)[1].rstrip("/"))

    def start_engine(self) -> None:
        """Start the llama.cpp worker with the demo model and register it."""
        model = self.model_dir / "smollm2" / "model.gguf"
        self.engine = self._process("run_engine", "--model-path", str(model), "--port", "0", log="engine.log")
        self.engine_url = self.engine.line_with("http://").split("http://", 1)[1].split()[0].rstrip("/.,")
        self.engine_url = f"http://{self.engine_url}"
        self.manage(
            "add_engine", "--kind", "llamacpp", "--url", self.engine_url, "--model", "smollm2",
            "--tokenizer", str(self.model_dir / "smollm2"), "--name", "llama",
        )  # fmt: skip

    def _process(self, *args: str, log: str) -> Process:
        return Process([sys.executable, "manage.py", *args], self.env, self.data_dir / log)

    def kill(self) -> None:
        """kill -9 the web process."""
        self.web.end(signal.SIGKILL)

    def stop(self) -> None:
        """End what runs."""
        for process in (self.web, self.engine):
            if process:
                process.end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def api(self, key: str, **options) -> httpx.Client:
        """A client of the REST API."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)

    def page(self, username: str) -> httpx.Client:
        """A client logged in by a one-time link, with its CSRF token."""
        client = httpx.Client(base_url=self.url, timeout=60, follow_redirects=True)
        client.get(self.manage("login_link", username))
        client.headers["X-CSRFToken"] = client.cookies["csrftoken"]
        return client

    def rows(self, sql: str, *parameters) -> list[tuple]:
        """Read straight from the database file."""
        with sqlite3.connect(self.data_dir / "db.sqlite3", timeout=20) as database:
            return database.execute(sql, parameters).fetchall()

    def write(self, sql: str, *parameters) -> None:
        """Change the database file behind the site's back."""
        with sqlite3.connect(self.data_dir / "db.sqlite3", timeout=20) as database:
            database.execute(sql, parameters)

    def row(self, response_id: str) -> dict:
        """A response's row."""
        with sqlite3.connect(self.data_dir / "db.sqlite3", timeout=20) as database:
            database.row_factory = sqlite3.Row
            return dict(database.execute("SELECT * FROM streaming_response WHERE id = ?", (response_id,)).fetchone())

    def log_text(self, response_id: str) -> str:
        """The joined text of a response's log."""
        rows = self.rows(
            "SELECT json_extract(payload, '$.text') FROM streaming_responseevent"
            " WHERE response_id = ? AND kind = 'text' ORDER BY seq",
            response_id,
        )
        return "".join(text for (text,) in rows)

    def slots_busy(self) -> int:
        """How many slots of the llama.cpp worker are at work."""
        return sum(slot["is_processing"] for slot in httpx.get(f"{self.engine_url}/slots").json())
