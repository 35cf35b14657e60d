"""Owns a real site for tests: the launcher's process, the llama.cpp worker, one database kept through the suite."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from chatsite.free_ports import free_port
from tests import databases
from tests.child import Child
from tests.e2e.commands import Commands
from tests.e2e.reading import eventually

#: A process that a test kills is gone to the others at once (`Site.kill`). One that only stands still for seconds, as
#: any may on a busy machine, is not.
QUICK = {"BEAT_S": "0.4", "DEAD_S": "20", "SWEEP_S": "0.5", "ENGINE_DRAIN_S": "1"}
#: Nor does an abort count as unproven because the engine stood still for seconds.
STOP_PROOF_S = 20


class Site:
    """The web process on one port and one data folder; it can be killed and started again."""

    def __init__(self, data_dir: Path, model_dir: Path, **env: str):
        self.data_dir = data_dir
        self.model_dir = model_dir
        self.port = free_port()
        self.web: Child | None = None
        self.engine: Child | None = None
        self.engine_url = ""
        self._commands: Commands | None = None
        self.env = {
            **os.environ,
            "DATA_DIR": str(data_dir),
            "DRAIN_S": "1",
            "PYTHONUNBUFFERED": "1",
            "CREDENTIAL_CHECK_S": "1",
            "STOP_PROOF_S": str(STOP_PROOF_S),
            **(QUICK if databases.ON_POSTGRES else {}),
            **databases.environment(),
            **env,
        }
        self.database = databases.at(self.env.get("DATABASE_URL", ""), data_dir / "db.sqlite3")

    def manage(self, *args: str) -> str:
        """Run a management command and return what it prints."""
        if self._commands is None or self._commands.env != self.env:
            self._end_commands()
            self._commands = Commands(self.env, self.data_dir)
        return self._commands.run(*args)

    def _end_commands(self) -> None:
        if self._commands:
            self._commands.close()
            self._commands = None

    def prepare(self) -> None:
        """Make the database, and lay out what the page is made of."""
        self.migrate()
        self.manage("collectstatic", "--noinput", "-v", "0")

    def migrate(self) -> None:
        """Make the tables."""
        databases.give_tables(self.database, lambda: self.manage("migrate", "-v", "0"))

    def start(self) -> None:
        """Start the web process and wait until it listens."""
        self.web = self._process("serve", "--port", str(self.port), log="web.log")
        self.web.line_with(f"listening on {self.url}")

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

    def _process(self, *args: str, log: str) -> Child:
        return Child([sys.executable, "manage.py", *args], self.env, self.data_dir / log)

    def kill(self) -> None:
        """kill -9 the web process; that it is dead the others need not find out by waiting for DEAD_S."""
        self.web.end(signal.SIGKILL)
        self.write("DELETE FROM streaming_webprocess WHERE pid = ?", self.web.popen.pid)

    @contextmanager
    def taken_for_dead(self) -> Iterator[None]:
        """The web process stands still, and no beat of it is found; both are over when the block is left."""
        process = self.web.popen
        process.send_signal(signal.SIGSTOP)
        self.write("UPDATE streaming_webprocess SET id = '-' || id WHERE pid = ?", process.pid)
        try:
            yield
        finally:
            self.write("UPDATE streaming_webprocess SET id = substr(id, 2) WHERE pid = ?", process.pid)
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End what runs."""
        self._end_commands()
        for process in (self.web, self.engine):
            if process:
                process.end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def scripted(
        self, model: str = "scripted", *, name: str = "", slots: int = 100, context_tokens: int = 100_000, **options
    ) -> None:
        """Register a scripted engine. It plays what it is asked to, or the ``script`` among its options."""
        self.manage(
            "add_engine", "--kind", "scripted", "--model", model, "--name", name or model, "--slots", str(slots),
            "--context", str(context_tokens), "--options", json.dumps(options),
        )  # fmt: skip

    def add_model(self, key: str, model: str, **options) -> str:
        """Register a scripted engine while the site runs, and wait until it is served; returns its model's name."""
        self.scripted(model, **options)
        with self.api(key) as client:
            eventually(lambda: model in {row["id"] for row in client.get("/v1/models").json()["data"]})
        return model

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
        """Read straight from the database."""
        return self.database.rows(sql, *parameters)

    def write(self, sql: str, *parameters) -> None:
        """Change the database behind the site's back."""
        self.database.write(sql, *parameters)

    def row(self, response_id: str) -> dict:
        """A response's row."""
        return self.database.row("SELECT * FROM streaming_response WHERE id = ?", response_id)

    def log_text(self, response_id: str) -> str:
        """The joined text of a response's log."""
        rows = self.rows(
            "SELECT payload ->> 'text' FROM streaming_responseevent"
            " WHERE response_id = ? AND kind = 'text' ORDER BY seq",
            response_id,
        )
        return "".join(text for (text,) in rows)

    def slots_busy(self) -> int:
        """How many slots of the llama.cpp worker are at work."""
        return sum(slot["is_processing"] for slot in httpx.get(f"{self.engine_url}/slots", timeout=60).json())
