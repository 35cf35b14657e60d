"""Owns the command that serves a model: a GGUF with llama.cpp in this process, or any with vLLM. Touches no table."""

import ipaddress
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from streaming.management import vllm_worker

DEFAULT_PORT = 8001
SLOTS = 4
CONTEXT_TOKENS = 8192
#: A closed socket, and a new request, are noticed between two batches: small ones keep the engine responsive. Of 64
#: tokens two take a second on a busy machine; 16 cost a quarter more per token of a prompt.
BATCH_TOKENS = 16
#: Every waiting request holds a thread; questions about health and slots need one beside them.
HTTP_THREADS = 64
MAX_DEFAULT_THREADS = 8
LOG_ERRORS_ONLY = 1
HEALTH_POLL_S = 0.1
HEALTH_TIMEOUT_S = 5


class Command(BaseCommand):
    """``manage.py run_engine --model-path GGUF`` or ``--kind vllm MODEL``; options have ``ENGINE_…`` variables."""

    help = "Serve a model until SIGTERM or Ctrl-C: a GGUF with llama.cpp, without a GPU, or a folder with vLLM."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        environment = os.environ.get
        parser.add_argument("model", nargs="?", help="vLLM: a folder, or a name on the model hub")
        parser.add_argument("--kind", default="llamacpp", choices=["llamacpp", "vllm"])
        parser.add_argument("--model-path", default=environment("ENGINE_MODEL_PATH") or str(default_model()))
        parser.add_argument("--host", default=environment("ENGINE_HOST", "127.0.0.1"))
        parser.add_argument("--port", type=int, default=environment("ENGINE_PORT", DEFAULT_PORT), help="0: any free")
        parser.add_argument("--slots", type=int, default=environment("ENGINE_SLOTS"), help="answers at a time")
        parser.add_argument(
            "--context",
            type=int,
            default=environment("ENGINE_CONTEXT"),
            help="tokens; of llama.cpp shared by the slots, of vLLM for each, by default all the model has",
        )
        parser.add_argument("--threads", type=int, default=environment("ENGINE_THREADS", default_threads()))
        parser.add_argument("--allow-remote", action="store_true", help="serve beyond this machine; there is no login")
        parser.add_argument("--install", action="store_true", help="vLLM: only make its environment (gigabytes)")
        parser.add_argument("--cpu", action="store_true", default=not vllm_worker.has_gpu(), help="vLLM: its CPU build")
        parser.add_argument("--engine-args", default="", help='vLLM: more of its own, as "--tensor-parallel-size 2"')

    def handle(self, *args: Any, **options: Any) -> None:
        if options["kind"] == "vllm":
            if options["install"]:
                print(f"engine: vLLM is in {vllm_worker.install(options['cpu'])}")
                return
            check_address(options)
            vllm_worker.serve(options)
        options["slots"] = SLOTS if options["slots"] is None else options["slots"]
        options["context"] = CONTEXT_TOKENS if options["context"] is None else options["context"]
        options["model_path"] = options["model"] or options["model_path"]
        check(options)
        alarm = Alarm()
        worker = Worker(options, alarm)
        # Loading cannot be interrupted, so it has a thread that the process need not wait for.
        threading.Thread(target=worker.load, daemon=True).start()
        alarm.wait()
        if worker.failure is not None:
            raise CommandError(f"llama.cpp cannot serve {options['model_path']}: {worker.failure}")
        # Ends the answers that still run; the library would wait for them.
        sys.stdout.flush()
        os._exit(0)


class Alarm:
    """What ends the command: SIGTERM, Ctrl-C, or a call of ``ring`` from any thread.

    The kernel may hand a signal to any of the library's threads, and then wakes no other: a handler would run when the
    main thread wakes by itself. But in whatever thread it comes, it writes a byte that the main thread waits for.
    """

    def __init__(self) -> None:
        self._hears, self._rings = os.pipe()
        os.set_blocking(self._rings, False)
        signal.set_wakeup_fd(self._rings, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def ring(self) -> None:
        os.write(self._rings, b"!")

    def wait(self) -> None:
        os.read(self._hears, 1)


class Worker:
    """Loads the model and says when it answers; ``failure`` tells why it does not."""

    def __init__(self, options: dict[str, Any], alarm: Alarm):
        self.failure: str | None = None
        self._options = options
        self._alarm = alarm
        self._server: Any = None

    def load(self) -> None:
        try:
            self._server = serve(self._options)
            wait_until_healthy(self._server.listening_address)
        # Whatever the library raises, the command's main thread reports it.
        except Exception as error:  # noqa: BLE001
            self.failure = " ".join(str(error).split()) or type(error).__name__
            self._alarm.ring()
            return
        slots, context = self._options["slots"], self._options["context"]
        address = self._server.listening_address
        print(f"engine: ready on {address}, {slots} slots of {context // slots} tokens", flush=True)


def serve(options: dict[str, Any]) -> Any:
    """Start llama.cpp's own HTTP server; returns when the model is loaded."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["model_path"]
    params.hostnames = [options["host"]]
    params.port = options["port"]
    params.n_parallel = options["slots"]
    params.n_ctx = options["context"]
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.n_threads_http = HTTP_THREADS + options["slots"]
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = options["threads"]
        # Threads that spin while they wait take the processor from the web process beside them.
        threads.poll = 0
    params.endpoint_slots = params.endpoint_metrics = True
    params.ui = False
    # Pages from elsewhere, open in a browser on this machine, may not ask the engine.
    params.cors_origins = ""
    params.verbosity = LOG_ERRORS_ONLY
    return xllamacpp.Server(params)


def wait_until_healthy(address: str) -> None:
    """Return once /health answers ok; raises when it does not within HEALTH_TIMEOUT_S."""
    give_up_at = time.monotonic() + HEALTH_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=HEALTH_TIMEOUT_S):
                return
        except OSError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(HEALTH_POLL_S)


def check(options: dict[str, Any]) -> None:
    """One clear line for what would go wrong, before anything is loaded."""
    for name, low in (("slots", 1), ("threads", 1), ("context", 16 * max(1, options["slots"]))):
        if options[name] < low:
            raise CommandError(f"--{name} must be at least {low}, not {options[name]}")
    check_model(Path(options["model_path"]))
    check_address(options)


def check_address(options: dict[str, Any]) -> None:
    """That it may be listened on, and can."""
    host, port = options["host"], options["port"]
    if not options["allow_remote"] and not is_loopback(host):
        raise CommandError(
            f"--host {host} is not this machine alone and the engine has no login; --allow-remote insists"
        )
    if not 0 <= port <= 65535:
        raise CommandError(f"--port must be from 0 to 65535, not {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise CommandError(f"--port {port}: cannot listen on {host}: {reason}") from error


def check_model(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise CommandError(f"--model-path {path}: {error.strerror}") from error
    if magic != b"GGUF":
        raise CommandError(f"--model-path {path}: not a GGUF file")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def default_model() -> Path:
    """The demo model's place; MODEL_DIR lets several data folders share one download."""
    shared = os.environ.get("MODEL_DIR")
    return (Path(shared) if shared else settings.DATA_DIR / "models") / "smollm2" / "model.gguf"


def default_threads() -> int:
    """All processors but one, which the web process needs."""
    return max(1, min(MAX_DEFAULT_THREADS, len(os.sched_getaffinity(0)) - 1))
