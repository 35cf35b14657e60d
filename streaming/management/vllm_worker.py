"""Owns a vLLM server in an environment of its own: making that, starting it, when it answers. Imports no vLLM."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import CommandError

from chatsite.free_ports import free_port
from streaming.engine.base import EngineError, GenerateRequest, Sampling
from streaming.engine.vllm import VllmEngine

POLL_S = 0.5
PROOF_TIMEOUT_S = 30.0
FETCHES = 3
#: Their builds do not load beside the CPU build's torch, and break the import of what vLLM needs.
UNWANTED_ON_CPU = ("torchvision", "torchaudio", "torchcodec")
SLOTS, SLOTS_ON_CPU = 64, 16
#: Text goes to nobody, and what people ask is not written into logs.
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
ON_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1"}


def environment() -> Path:
    """Where its packages are; VLLM_ENV lets several data folders share one."""
    shared = os.environ.get("VLLM_ENV")
    return Path(shared) if shared else settings.DATA_DIR / "vllm"


def has_gpu() -> bool:
    return any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))


def requirements(on_cpu: bool) -> Path:
    return Path(settings.BASE_DIR) / f"requirements-vllm{'-cpu' if on_cpu else ''}.txt"


def install(on_cpu: bool) -> Path:
    """Make the environment, unless it is there as these requirements want it. A half one is made anew."""
    folder, wanted = environment(), requirements(on_cpu)
    stamp = folder / "installed.txt"
    if stamp.is_file() and stamp.read_text() == wanted.read_text():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    fetch([*pip, "install", "--quiet", "--progress-bar", "off", "-r", str(wanted)])
    if on_cpu:
        run([*pip, "uninstall", "--quiet", "--yes", *UNWANTED_ON_CPU])
    stamp.write_text(wanted.read_text())
    return folder


def fetch(argv: Sequence[str]) -> None:
    """Some of gigabytes may break off. What came whole pip has kept."""
    for left in reversed(range(FETCHES)):
        try:
            run(argv)
            return
        except CommandError:
            if not left:
                raise


def run(argv: Sequence[str]) -> None:
    if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
        raise CommandError(f"this failed: {shlex.join(argv)}")


def serve(options: dict[str, Any]) -> NoReturn:
    """Become the server. A child stays behind until it can say that the server answers, or that it is gone."""
    folder = environment()
    if not (folder / "installed.txt").is_file():
        raise CommandError(f"no vLLM in {folder}: `manage.py run_engine --kind vllm --install` puts it there")
    if not options["model"]:
        raise CommandError("MODEL is missing: a folder, or a name on the model hub")
    port = options["port"] or free_port()
    argv = arguments(folder, {**options, "port": port})
    sys.stdout.flush()
    server = os.getpid()
    if os.fork() == 0:
        tell_when_ready(server, f"http://{bracketed(options['host'])}:{port}", slots(options))
    os.execve(argv[0], argv, os.environ | QUIET | (ON_CPU | os.environ if options["cpu"] else {}))


def arguments(folder: Path, options: dict[str, Any]) -> list[str]:
    """The server's command line. Requests are not logged, priorities count, ids go in and out, cached ones are told."""
    argv = [str(folder / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", "--model", options["model"]]
    argv += ["--served-model-name", Path(options["model"]).name, "--host", options["host"]]
    argv += ["--port", str(options["port"]), "--max-num-seqs", str(slots(options))]
    argv += ["--enable-scale-out", "--enable-prompt-tokens-details", "--scheduling-policy", "priority"]
    argv += ["--no-enable-log-requests", "--disable-uvicorn-access-log"]
    if options["context"]:
        argv += ["--max-model-len", str(options["context"])]
    if options["cpu"]:
        argv.append("--enforce-eager")
    return argv + shlex.split(options["engine_args"])


def slots(options: dict[str, Any]) -> int:
    return int(options["slots"] or (SLOTS_ON_CPU if options["cpu"] else SLOTS))


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def tell_when_ready(server: int, url: str, slots: int) -> NoReturn:
    """In the child: print the line that `make` and tests wait for, once one token was really generated."""
    # Its own session: a Ctrl-C is for the server alone.
    os.setsid()
    try:
        while os.getppid() == server:
            if (context_tokens := asyncio.run(proven(url))) is not None:
                print(f"engine: ready on {url}, {slots} slots of {context_tokens} tokens", flush=True)
                break
            time.sleep(POLL_S)
    finally:
        os._exit(0)


async def proven(url: str) -> int | None:
    """The server's context once it has generated a token; None as long as it does not."""
    engine = VllmEngine(url, {})
    try:
        if not await engine.healthy():
            return None
        async with asyncio.timeout(PROOF_TIMEOUT_S):
            request = GenerateRequest("ready-0", (1,), (), Sampling(max_tokens=1))
            async with aclosing(engine.generate(request)) as outputs:
                made = sum([len(output.token_ids) async for output in outputs])
        return (await engine.context_tokens() or 0) if made else None
    except (EngineError, TimeoutError):
        return None
    finally:
        await engine.aclose()
