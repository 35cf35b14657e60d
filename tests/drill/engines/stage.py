"""Owns what the engines' drill plays on: two web processes on a PostgreSQL, engines as processes, people who ask."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from chatsite.free_ports import free_port
from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
from tests.child import Child
from tests.drill import books, client, laws
from tests.drill.plan import Question
from tests.drill.records import Record
from tests.drill.sites import complaints, end_child, register, sites_on_postgres
from tests.e2e.site import Site

#: A short queue, deaths that are noticed soon, and a SIGTERM that waits for nobody.
ENV = {
    "BEAT_S": "0.4", "DEAD_S": "2", "SWEEP_S": "0.5", "DRAIN_S": "0", "MAX_QUEUED_PER_ENGINE": "50",
    "REJECTED_ROWS_PER_MINUTE": "100000", "STOP_PROOF_S": "2",
}  # fmt: skip
ANSWER_S = 60.0
SILENCE_S = 20.0


@dataclass(slots=True)
class EngineProcess:
    """One that runs, and can be killed; ``model`` is what its row serves."""

    child: Child
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        self.child.end(signal.SIGKILL)


@dataclass(slots=True)
class Stage:
    """The first site is ``one``; ``two`` is what is stopped, paused, or started with other timers."""

    one: Site
    two: Site
    key: str
    folder: Path
    model_dir: Path
    seed: int
    two_env: Mapping[str, str] = field(default_factory=dict)
    _children: list[Child] = field(default_factory=list)
    _keys: int = 0

    def llama(self) -> EngineProcess:
        """One more real llama.cpp worker with four slots."""
        model = self.model_dir / "smollm2" / "model.gguf"
        command = [sys.executable, "manage.py", "run_engine", "--model-path", str(model), "--port", "0"]
        child = self.child(command, "llama")
        return EngineProcess(child, child.wait_for(r"ready on (\S+?),").group(1))

    def fault(self, *, rate: float, slots: int, port: int | None = None) -> EngineProcess:
        """One more fault server, on a port that it had before where one is given."""
        command = [sys.executable, "-m", "tests.fault_engine", "--port", str(port or free_port())]
        child = self.child([*command, "--rate", str(rate), "--slots", str(slots)], "fault")
        return EngineProcess(child, "http://127.0.0.1:" + child.wait_for(r"^(\d+)$").group(1))

    def child(self, command: Sequence[str], name: str, env: Mapping[str, str] | None = None) -> Child:
        """A process that ends with the stage."""
        log = self.folder / f"{name}-{len(self._children)}.log"
        child = Child(command, {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}, log)
        self._children.append(child)
        return child

    def register(
        self, model: str, kind: str, urls: Sequence[str], *, options: Sequence[Mapping] = (), **fields
    ) -> None:
        """Rows of engines that serve one model, in the order of the urls."""
        tokenizer = {} if kind == "scripted" else {"tokenizer": self.tokenizer(model)}
        rows = [
            {"name": f"{model}-{nth}", "model": model, "kind": kind, "url": url, "options": dict(given), **fields}
            for nth, (url, given) in enumerate(zip(urls, options or [{}] * len(urls), strict=True))
        ]
        register(self.one, [{**tokenizer, **row} for row in rows])

    def tokenizer(self, model: str) -> str:
        """The demo model's, or for the fault server one in which each byte is a token."""
        if model.startswith("smollm2"):
            return str(self.model_dir / "smollm2")
        folder = self.folder / "bytes"
        if not folder.exists():
            folder.mkdir()
            byte_tokenizer().save(str(folder / "tokenizer.json"))
            (folder / "chat_template.jinja").write_text(CHATML)
            (folder / "tokenizer_config.json").write_text("{}")
        return str(folder)

    def question(self, model: str, **fields: Any) -> Question:
        """A question of its own key."""
        self._keys += 1
        return Question(f"engines-{self.seed}-{self._keys}", model, seed=self.seed + self._keys, **fields)

    async def restart_two(self, env: Mapping[str, str] | None = None) -> None:
        """Have the second web process run, with these settings beside its own."""
        env = env or {}
        if self.two.web and self.two.web.popen.poll() is None:
            if env == self.two_env:
                return
            await asyncio.to_thread(end_child, self.two.web)
        for name in self.two_env:
            self.two.env.pop(name)
        self.two_env = env
        self.two.env.update(env)
        await asyncio.to_thread(self.two.start)

    @asynccontextmanager
    async def web(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with client.session(self.key) as session:
            yield session

    def person(self, web: aiohttp.ClientSession, question: Question, site: Site | None = None) -> client.Person:
        urls = [(site or self.one).url]
        return client.Person(web, urls, question, silence_s=SILENCE_S)

    async def read_all(self, people: Sequence[client.Person]) -> None:
        """All of them read to the end."""
        async with asyncio.TaskGroup() as group:
            for person in people:
                group.create_task(person.read(0, ANSWER_S))

    def made_tokens(self, question: Question) -> int:
        """Tokens of its answer that are stored by now."""
        ((count,),) = self.one.rows(
            "SELECT COALESCE(SUM(e.token_count), 0) FROM streaming_responseevent e"
            " JOIN streaming_response r ON r.id = e.response_id WHERE r.idempotency_key = ?",
            question.key,
        )
        return int(count)

    def least_made(self, questions: Sequence[Question]) -> int:
        """Tokens of the answer that has fewest."""
        rows = self.one.rows(
            "SELECT COALESCE(SUM(e.token_count), 0) FROM streaming_response r"
            " LEFT JOIN streaming_responseevent e ON r.id = e.response_id"
            " WHERE r.idempotency_key = ANY(?) GROUP BY r.id",
            [question.key for question in questions],
        )
        return min((int(count) for (count,) in rows), default=0) if len(rows) == len(questions) else 0

    def row_of(self, question: Question) -> dict[str, Any]:
        return self.one.row(self.ids_of(question)[0])

    def ids_of(self, question: Question) -> list[str]:
        """Its response, as soon as there is one."""
        rows = self.one.rows("SELECT id FROM streaming_response WHERE idempotency_key = ?", question.key)
        return [response_id for (response_id,) in rows]

    def broken_laws(self, records: Sequence[Record]) -> list[str]:
        """Of the whole database, and of what these people were told."""
        return laws.broken_laws(books.read(self.one), records, [])

    def complaints(self) -> list[str]:
        """What the web processes say of faults of ours."""
        logs = [site.data_dir / "web.log" for site in (self.one, self.two)]
        return [line for log in logs if log.exists() for line in complaints(log)]

    def end_engines(self) -> None:
        for child in self._children:
            end_child(child)
        self._children.clear()


@contextmanager
def stage(folder: Path, model_dir: Path, seed: int, **env: str) -> Iterator[Stage]:
    """Sites with an empty database, the first of them started; everything ends with the block."""
    with sites_on_postgres(folder, model_dir, ("one", "two"), ENV | env) as (one, two):
        one.migrate()
        key = one.manage("create_api_key", "dev")
        one.start()
        built = Stage(one, two, key, folder, model_dir, seed)
        try:
            yield built
        finally:
            built.end_engines()
