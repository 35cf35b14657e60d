"""Owns `make drill-engines`: the parts one after another, SEED from the environment, a table, an exit code."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.child import Child
from tests.drill import command
from tests.drill.engines import coming_back, deaths, flood, freeing, on_vllm, one_of_many
from tests.drill.engines.findings import Finding, broken, table
from tests.drill.engines.stage import Stage, stage
from tests.engine import vllm_server

Part = Callable[[Stage], Awaitable[list[Finding]]]

#: One part may take so long; all of them together take four to five minutes.
PART_S = 180
PARTS: dict[str, Part] = {
    "a: llama.cpp is free, whatever way and phase an answer is left in": freeing.llama,
    "b: one of two llama.cpp workers is killed": deaths.llama_worker_dies,
    "c: one of two fault servers is killed, over ids": lambda on: deaths.fault_server_dies(on, "vllm"),
    "c: one of two fault servers is killed, over text": lambda on: deaths.fault_server_dies(on, "llamacpp"),
    "c: one of two scripted engines breaks off": deaths.scripted_engine_dies,
    "d: an engine is gone for ten seconds": coming_back.engine_comes_back,
    "e: more ask than there is room for": flood.too_many_ask,
    "f: each tenth of many is stopped": one_of_many.each_tenth_is_stopped,
}


def drill(seed: int, folder: Path) -> list[Finding]:
    """All parts on one pair of sites; a part that breaks off is a finding too."""
    with stage(folder, command.model_dir(), seed) as on:
        findings = [finding for name, part in PARTS.items() for finding in _played(on, name, part)]
        findings += _with_vllm(on)
        return [*findings, _of_the_sites(on)]


def _played(on: Stage, name: str, part: Part) -> list[Finding]:
    began_at = time.monotonic()
    print(f"drill-engines: {name} …", end=" ", flush=True)
    try:
        findings = asyncio.run(_bounded(on, part))
    except Exception as error:  # noqa: BLE001  whatever broke, the other parts are played too
        findings = [Finding(name[0], "", name, f"{type(error).__name__}: {error}", "to be played to its end", False)]
    faults = len(broken(findings))
    print(f"{time.monotonic() - began_at:.0f} s, {f'{faults} BROKEN' if faults else 'holds'}", flush=True)
    return findings


async def _bounded(on: Stage, part: Part) -> list[Finding]:
    async with asyncio.timeout(PART_S):
        return await part(on)


def _with_vllm(on: Stage) -> list[Finding]:
    """Its parts; where its environment is missing they are skipped, which only a user's machine may do."""
    if (folder := vllm_server.environment()) is None:
        why = "no vLLM here: `manage.py run_engine --kind vllm --cpu --install` puts it there"
        is_allowed = None if os.environ.get("CI") != "true" else False
        return [Finding("a g h", "vLLM", "everything", why, "", is_allowed)]
    print("drill-engines: vLLM starts …", end=" ", flush=True)
    began_at = time.monotonic()
    child, url = _vllm(on, folder)
    print(f"{time.monotonic() - began_at:.0f} s", flush=True)
    try:
        return _played(
            on, "a g h: vLLM is left, its owner paused, its tokens counted", lambda on: on_vllm.vllm(on, url)
        )
    finally:
        child.end()


def _vllm(on: Stage, folder: Path) -> tuple[Child, str]:
    gguf = on.model_dir / "smollm2" / "model.gguf"
    return vllm_server.start(vllm_server.demo_model(folder, gguf), on.folder / "vllm.log")


def _of_the_sites(on: Stage) -> Finding:
    lines = [*on.broken_laws([]), *on.complaints()]
    seen = "; ".join([f"{len(lines)} breaches", *lines[:5]])
    return Finding(
        "all", "", "the database at the end, the logs of the sites", seen, "every law, no error logged", not lines
    )


def main() -> int:
    seed, began_at = command.seed(), time.monotonic()
    print(f"drill-engines: SEED={seed}", flush=True)
    findings = drill(seed, command.folder())
    print(f"\n{table(findings)}\n\n{_summed_up(findings)} in {time.monotonic() - began_at:.0f} s")
    return int(bool(broken(findings)))


def _summed_up(findings: Sequence[Finding]) -> str:
    not_tried = sum(finding.holds is None for finding in findings)
    return f"{len(findings) - not_tried} promises tried, {len(broken(findings))} broken, {not_tried} not tried"


if __name__ == "__main__":
    command.run(main)
