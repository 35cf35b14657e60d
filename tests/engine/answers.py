"""Owns one answer of the whole stack over engines of a test: their rows, what is asked, its row and log at the end."""

import asyncio

from streaming.engine.byte_tokenizer import CHATML, byte_tokenizer
from streaming.engine.registry import WITHOUT_TOKENIZER
from streaming.models import Engine
from streaming.ownership.ask import Ask
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT
from streaming.protocol.policy import parse_policy
from streaming.store import threads
from tests.engine.conftest import save

TOKENS = 100


async def added(tmp_path, kind, *urls, options=None):
    """Rows of engines of one model, named e0, e1 and so on."""
    tokenizer = str(save(byte_tokenizer(), tmp_path / "m", CHATML)) if kind not in WITHOUT_TOKENIZER else ""
    fields = {"kind": kind, "model": "m", "tokenizer": tokenizer, "context_tokens": 1000, "slots": 100}

    def create():
        for nth, url in enumerate(urls):
            Engine.objects.create(name=f"e{nth}", url=url, options=options or {}, **fields)

    await threads.write(create)


def ask_of(bench, text="hi", **fields):
    return Ask(
        user_id=bench.user.pk, purpose="api", dialect=OPENAI_CHAT, stream=True, model="m",
        messages=[{"role": "user", "content": text}], policy=parse_policy("background", 3600),
        **{"max_tokens": TOKENS} | fields,
    )  # fmt: skip


async def asked(bench, text="hi", **fields):
    """The row and the log of an answer that has ended, as every one of them has to be."""
    ask = ask_of(bench, text, **fields)
    response, _ = await start(bench.owner, ask, await check(bench.owner, ask), asyncio.get_running_loop().time())
    row = await bench.ended(response)
    events = await bench.log(response)
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "no gap"
    assert [event.kind for event in events].count("ended") == 1
    assert "".join(event.payload["text"] for event in events if event.kind == "text") == row.output_text
    return row, events
