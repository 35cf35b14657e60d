"""Owns the check list of `manage.py probe --prove`: each item is tried on the site and shown, failed or not."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import aiohttp

from streaming.hops import BUFFERED, Hop, Verdict, judge
from streaming.protocol.sse_parser import SSEParser

from .holding_relay import holding_relay
from .reading import plain, read_stream, read_trickle, refusal_of
from .site import SPARE_S, Site, words_of
from .words import verdict_words

SHOWN, FAILED, NOT_SHOWN = "shown", "failed", "not shown"
#: In this time an engine must be free after its reader has left, with the way there and back.
FREE_S = 3.0
HOLD_S = 1.0
LONG = "Count from one to a thousand, one number a line."


class NotShownError(Exception):
    """What had to happen for the proof did not; the text says what."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One item of the list."""

    name: str
    result: str
    detail: str


async def prove(site: Site, verdicts: Sequence[Verdict], model: str) -> list[Proof]:
    """The whole list; the verdicts are those of the hops, nearest first. What needs a model goes through the last."""
    urls = [verdict.url for verdict in verdicts]
    outermost = urls[-1]
    proofs = [_trickles(verdicts[0], "trickles from the server")]
    proofs += [_trickles(verdict, f"trickles through {verdict.url}") for verdict in verdicts[1:]]
    proofs.append(await _tried("a hop that buffers on purpose is detected", _detects(site, outermost)))
    proofs += [await _tried(f"an error in band arrives through {url}", _error_arrives(site, url)) for url in urls]
    with_model: list[tuple[str, Callable[[Site, str, str], Awaitable[str]]]] = [
        ("a disconnect stops the engine", _disconnect_stops),
        ("usage is captured", _usage_is_captured),
        ("stop works", _stop_works),
    ]
    return proofs + [await _tried(name, check(site, outermost, model)) for name, check in with_model]


def _trickles(verdict: Verdict, name: str) -> Proof:
    return Proof(name, SHOWN if verdict.streams else FAILED, verdict_words(verdict))


async def _tried(name: str, check: Awaitable[str]) -> Proof:
    try:
        return Proof(name, SHOWN, await check)
    except AssertionError as error:
        return Proof(name, FAILED, str(error))
    except NotShownError as error:
        return Proof(name, NOT_SHOWN, str(error))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return Proof(name, NOT_SHOWN, words_of(error))


async def _detects(site: Site, url: str) -> str:
    async with holding_relay(site, url, HOLD_S) as relay:
        (verdict,) = judge([Hop(relay, await read_trickle(site, relay, 20, 0.1))])
    found = [finding for finding in verdict.findings if finding.kind == BUFFERED]
    _require(found, f"a relay that holds everything for {HOLD_S:g} s was judged: {verdict_words(verdict)}")
    return verdict_words(verdict)


async def _error_arrives(site: Site, url: str) -> str:
    read = await read_stream(site, url, {"events": 3, "interval_ms": 50, "end": "error"}, within_s=SPARE_S)
    _require(len(read.arrivals) == 3, f"{len(read.arrivals)} of 3 events came before it: {read.trouble}")
    _require(read.error and read.error["code"] == "diagnostic", f"the error did not come: {read.trouble}")
    _require(not read.is_done, "after the error came an end as of a good stream")
    return "after three events, and nothing after it"


async def _disconnect_stops(site: Site, url: str, model: str) -> str:
    async with aclosing(_answer(site, url, model, LONG, max_tokens=1000)) as events:
        response_id = await _first_text(events)
    left_s = time.monotonic()
    while (body := await _response(site, url, response_id))["state"] != "ended":
        _require(time.monotonic() - left_s < FREE_S, f"{response_id} still ran {FREE_S:g} s after its reader had left")
        await asyncio.sleep(0.05)
    if body["end_state"] == "completed":
        raise NotShownError("the answer was over before the connection was closed; name a slower --model")
    _require(body["end_state"] == "abandoned", f"it ended {body['end_state']}, {body['end_reason']}")
    took_ms = (time.monotonic() - left_s) * 1000
    return f"ended {body['end_state']} at most {took_ms:.0f} ms after the socket was closed"


async def _usage_is_captured(site: Site, url: str, model: str) -> str:
    usage, response_id = None, ""
    options = {"max_tokens": 16, "stream_options": {"include_usage": True}}
    async with aclosing(_answer(site, url, model, "Say hello.", **options)) as events:
        async for event in events:
            response_id = event.get("id", response_id)
            usage = event.get("usage") or usage
    _require(usage, "the stream ended without usage")
    stored = (await _response(site, url, response_id))["usage"]
    counts = [(used["prompt_tokens"], used["completion_tokens"]) for used in (usage or {}, stored)]
    _require(counts[0] == counts[1], f"the stream said {counts[0]} prompt and answer tokens, the row {counts[1]}")
    return f"{counts[0][0]} prompt and {counts[0][1]} answer tokens, in the stream and in the row"


async def _stop_works(site: Site, url: str, model: str) -> str:
    async with aclosing(_answer(site, url, model, LONG, max_tokens=1000)) as events:
        response_id = await _first_text(events)
        async with site.ask("POST", url, f"/v1/responses/{response_id}/cancel") as answer:
            body = json.loads(await answer.read())
        last = [event async for event in events][-1:]
    if body["end_state"] == "completed":
        raise NotShownError("the answer was over before the stop; name a slower --model")
    _require(body["end_state"] == "cancelled", f"it ended {body['end_state']}, {body['end_reason']}")
    said = last[0].get("error", {}).get("end_state") if last else None
    _require(said == "cancelled", f"the stream's last words were {said}")
    stop = body["stop"]
    return f"cancelled, {stop['stop_ms']:.0f} ms to the engine's proof (proven: {stop['abort_proven']})"


def _require(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


async def _response(site: Site, url: str, response_id: str) -> dict[str, Any]:
    async with site.ask("GET", url, f"/v1/responses/{response_id}") as answer:
        if answer.status != 200:
            raise NotShownError(f"{response_id} could not be asked for: {await refusal_of(answer)}")
        body: dict[str, Any] = json.loads(await answer.read())
        return body


async def _first_text(events: AsyncIterator[dict[str, Any]]) -> str:
    """Read until there is text; the response's id."""
    async for event in events:
        if any(choice["delta"].get("content") for choice in event.get("choices", ())):
            return str(event["id"])
    raise NotShownError("the model said nothing")


async def _answer(site: Site, url: str, model: str, question: str, **options: Any) -> AsyncGenerator[dict[str, Any]]:
    """The events of a streamed answer. Left early, its connection is closed."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}], **options}
    async with site.ask("POST", url, "/v1/chat/completions", within_s=120, json=body) as answer:
        if answer.status != 200:
            raise NotShownError(await refusal_of(answer))
        parser = SSEParser()
        async for data in plain(answer):
            for event in parser.feed(data):
                if event.data != "[DONE]":
                    yield json.loads(event.data)


async def first_model(site: Site, url: str) -> str:
    """The first that the site offers, empty where it offers none."""
    try:
        async with site.ask("GET", url, "/v1/models") as answer:
            models = json.loads(await answer.read())["data"] if answer.status == 200 else []
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        models = []
    return str(models[0]["id"]) if models else ""
