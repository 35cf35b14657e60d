"""Owns what a drill of the cluster runs on: the stack with Celery, two engine workers and the scripted models."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chatsite.free_ports import free_port
from tests.child import Child
from tests.cluster.postgres import ClusterSite
from tests.cluster.stack import Stack, stack
from tests.drill.plan import LLAMA, SCRIPTS, TEXT_MODEL
from tests.drill.sites import QUICK, load_models
from tests.e2e.reading import eventually

#: Beside the models of the plan: a stream that goes on until it is stopped, and one that is as long for everybody.
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.04}
STEADY_TOKENS = 200
STEADY = {"outputs": [{"text": "word "}], "repeat": STEADY_TOKENS, "delay_s": 0.04}
MODELS: Mapping[str, Mapping[str, object]] = {"endless": ENDLESS, "steady": STEADY}


class Worker:
    """One llama.cpp worker on one port through kills and starts."""

    def __init__(self, site: ClusterSite, name: str):
        self._port = free_port()
        self._site = site
        self.name = name
        self.url = f"http://127.0.0.1:{self._port}"
        self._model = site.model_dir / LLAMA
        self.process = self._start()
        site.manage(
            "add_engine", "--kind", "llamacpp", "--url", self.url, "--model", LLAMA,
            "--tokenizer", str(self._model), "--name", name,
        )  # fmt: skip

    def start(self) -> None:
        self.process = self._start()

    def _start(self) -> Child:
        path = str(self._model / "model.gguf")
        argv = [sys.executable, "manage.py", "run_engine", "--model-path", path, "--port", str(self._port)]
        child = Child(argv, self._site.env, self._site.data_dir / f"{self.name}.log")
        child.line_with("http://")
        return child


@dataclass
class Up:
    """Everything that can be killed."""

    stack: Stack
    engines: list[Worker]


@contextmanager
def up(folder: Path, model_dir: Path) -> Iterator[Up]:
    """All of it, ready to answer with every model."""
    with stack(folder, model_dir, QUICK) as running:
        first = running.sites[0]
        load_models(first, {**SCRIPTS, **MODELS}, texts=[TEXT_MODEL, *MODELS])
        engines: list[Worker] = []
        try:
            engines += [Worker(first, "llama-1"), Worker(first, "llama-2")]
            first.engine_url = engines[0].url
            for name in ("worker", "beat"):
                running.tasks.start(name)
            with running.api(running.key) as client:
                eventually(lambda: LLAMA in client.get("/v1/models").text)
            yield Up(running, engines)
        finally:
            for engine in engines:
                engine.process.end()
