"""Answers of JSON are judged one at a time, and no answer's end waits for that for long. Costs about 1 s."""

import asyncio
import threading

from streaming.engine.base import Sampling
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.policy import Policy
from streaming.relay import judging
from streaming.relay.job import Job

END = End(COMPLETED, "stop", "stop")
JOB = Job(
    "resp_" + "0" * 26, 1, "m", (1,), 1, Sampling(max_tokens=9, json_schema={"type": "object"}), Policy("abort", 0),
)  # fmt: skip


async def test_an_answer_behind_hard_schemas_ends_unjudged_and_takes_no_judges_time(monkeypatch, caplog):
    hard, judged = threading.Event(), []

    def judge(text, schema):
        judged.append(text)
        hard.wait(60)
        return {"code": "invalid_json"}

    monkeypatch.setattr(judging, "output_error", judge)
    first = asyncio.create_task(judging.judged(END, JOB, "hard"))
    async with asyncio.timeout(60):
        while not judged:
            await asyncio.sleep(0)
    monkeypatch.setattr(judging, "PATIENCE_S", 0.05)
    assert await asyncio.gather(*(judging.judged(END, JOB, "behind it") for _ in range(20))) == [None] * 20
    hard.set()
    monkeypatch.setattr(judging, "PATIENCE_S", 60.0)
    assert await first == {"code": "invalid_json"}
    assert await judging.judged(END, JOB, "later") == {"code": "invalid_json"}
    assert judged == ["hard", "later"], "what nobody waits for any more was judged"
    assert caplog.text.count("ends unjudged") == 20
