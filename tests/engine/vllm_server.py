"""Owns the real vLLM of tests and drills: its environment, the demo model as it loads it, the server as a process."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.child import ROOT, Child

START_S = 400
SLOTS, CONTEXT_TOKENS = 4, 2048
#: A prompt is read in steps, as a long one is on a GPU: so there is a middle of it in which to leave.
STEP_TOKENS = 64


def environment() -> Path | None:
    """Where `manage.py run_engine --kind vllm --cpu --install` put it; None where it did not."""
    shared, data = os.environ.get("VLLM_ENV"), os.environ.get("DATA_DIR")
    folder = Path(shared) if shared else (Path(data) if data else ROOT / "var") / "vllm"
    return folder if (folder / "installed.txt").is_file() else None


def demo_model(folder: Path, gguf: Path) -> Path:
    """The demo model as vLLM loads it, made once for a machine."""
    made = folder / "demo-model"
    if not made.exists():
        python = folder / "bin" / "python"
        command = [str(python), "tests/engine/vllm_model.py", str(gguf), str(made)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return made


def start(model: Path, log: Path, env: Mapping[str, str] | None = None) -> tuple[Child, str]:
    """Start it by its command and wait until it generates; the process, and its URL."""
    command = [sys.executable, "manage.py", "run_engine", "--kind", "vllm", "--cpu", str(model), "--port", "0"]
    command += ["--context", str(CONTEXT_TOKENS), "--slots", str(SLOTS)]
    command += ["--engine-args", f"--max-num-batched-tokens {STEP_TOKENS}"]
    child = Child(command, {**os.environ, **(env or {})}, log)
    ready = child.wait_for(rf"engine: ready on (\S+), {SLOTS} slots of {CONTEXT_TOKENS} tokens", timeout_s=START_S)
    return child, ready.group(1)
