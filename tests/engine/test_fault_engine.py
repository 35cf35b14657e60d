"""The fault engine as its own process, as the load bench runs it."""

import asyncio
import re
import signal
import sys
import time

import aiohttp

from streaming.engine.llamacpp import LlamaCppEngine
from tests.child import ROOT
from tests.engine.conftest import ask, broken, collect, shown


async def test_it_prints_its_port_paces_and_stamps_its_chunks_and_takes_faults_by_http():
    command = [
        sys.executable,
        "-m",
        "tests.fault_engine",
        "--port",
        "0",
        "--rate",
        "500",
        "--slots",
        "2",
        "--context",
        "50",
    ]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    url = f"http://127.0.0.1:{int(await process.stdout.readline())}"
    engine = LlamaCppEngine(url, {})
    asked_at = time.time()
    text = shown(await collect(engine, ask(max_tokens=41)))
    stamps = [float(stamp) for stamp in re.findall(r"<(\d+\.\d{4})>", text)]
    assert len(stamps) == 3
    assert stamps == sorted(stamps)
    # Counted from the question: a chunk that was late makes the next ones no later.
    assert stamps[1] - asked_at > 20 / 500
    assert stamps[2] - asked_at > 40 / 500
    assert text.count(" the") == 38
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/_control", json={"die_after": 2}) as answer:
            assert (await answer.json())["chunks_total"] == 41
        outputs, error = await broken(engine, ask())
        assert (sum(output.token_count for output in outputs), error.reason) == (2, "upstream_lost")
        async with session.get(f"{url}/_control") as answer:
            counts = await answer.json()
    assert counts == {
        "chunks_total": 43,
        "aborted_total": 0,
        "finished_total": 1,
        "requests_total": 2,
        "running": 0,
        "deferred": 0,
    }
    await engine.aclose()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
