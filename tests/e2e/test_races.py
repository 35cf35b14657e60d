"""Who is faster: stops, ends, new messages, leaving and coming back at the same moment, over HTTP."""

import asyncio
import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from tests.e2e.crowd import Follower, question, running, session, true
from tests.e2e.reading import eventually, script
from tests.e2e.test_people_who_leave import posted
from tests.e2e.test_the_page_api import Background, ask, conversation, thread

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.02)
SHORT = script(outputs=[{"text": "x"}] * 20, delay_s=0.002)
SILENT = script(outputs=[{"gate": "never"}])
READERS_OF_ONE = 64


async def test_stop_by_key_against_start_and_finish_gives_one_end_each(site, key):
    chance = random.Random(70)
    ends = set()

    async def race(web, name: str, asked: str = SHORT, when=None) -> None:
        follower = Follower(web, site.url)
        asking = asyncio.create_task(follower.ask(question(asked), "background", **{"Idempotency-Key": name}))
        if when:
            await true(lambda: when(follower))
        else:
            await asyncio.sleep(chance.uniform(0, 0.12))
        async with web.post(f"{site.url}/v1/responses/cancel", headers={"Idempotency-Key": name}) as answer:
            told = await answer.json()
        await asking
        row = site.row(follower.response_id)
        assert follower.statuses == [200]
        assert (told["id"], told["end_state"], told["end_reason"]) == (row["id"], row["end_state"], row["end_reason"])
        assert told["output_text"] == row["output_text"] == follower.text == site.log_text(row["id"])
        for count in ("generated_tokens", "sent_tokens", "completion_tokens"):
            assert told["usage"][count] == row[count]
        assert site.rows("SELECT COUNT(*) FROM streaming_response WHERE idempotency_key = ?", name) == [(1,)]
        assert follower.is_done == (row["end_state"] == "completed")
        ends.add((row["end_state"], bool(row["output_text"])))

    async def racer(web, nth: int) -> None:
        for turn in range(20):
            await race(web, f"race-{nth}-{turn}")

    async with session(key) as web:
        await asyncio.gather(*(racer(web, nth) for nth in range(5)))
        # Who was first in those is chance; each order is seen for certain here.
        await race(web, "race-after-the-end", when=lambda follower: follower.is_done)
        await race(web, "race-amid", ENDLESS, lambda follower: follower.text)
        await race(web, "race-before-the-first-token", SILENT, lambda _: True)
    assert ends >= {("completed", True), ("cancelled", True), ("cancelled", False)}


async def test_stops_at_once_by_id_and_by_key_before_the_first_token_are_told_the_same(site, key):
    async with session(key) as web:
        follower = Follower(web, site.url)
        headers = {"Idempotency-Key": "three-stops"}
        asking = asyncio.create_task(follower.ask(question(SILENT), "background", **headers))
        await running(site, 1, "idempotency_key = 'three-stops' AND state = 'running'")
        ((response_id,),) = site.rows("SELECT id FROM streaming_response WHERE idempotency_key = 'three-stops'")

        async def stopped(path: str) -> dict:
            async with web.post(f"{site.url}/v1/responses/{path}", headers=headers) as answer:
                assert answer.status == 200
                return await answer.json()

        told = await asyncio.gather(*(stopped(path) for path in (f"{response_id}/cancel", "cancel") * 2))
        await asking
    assert told == [told[0]] * 4
    assert (told[0]["end_state"], told[0]["end_reason"], told[0]["output_text"]) == ("cancelled", "api", "")
    assert told[0]["usage"]["generated_tokens"] == 0
    assert (follower.statuses, follower.text, follower.is_done) == ([200], "", False)


async def test_a_stop_on_a_resumed_stream_is_like_one_on_the_first(site, key):
    async with session(key) as web:
        follower = Follower(web, site.url)
        await follower.ask(question(ENDLESS), "grace=30", frames=3)
        shown = follower.text
        again = asyncio.create_task(follower.come_back())
        await true(lambda: len(follower.text) > len(shown))
        async with web.post(f"{site.url}/v1/responses/{follower.response_id}/cancel") as answer:
            told = await answer.json()
        await again
    assert (told["end_state"], told["end_reason"], told["stop"]["abort_proven"]) == ("cancelled", "api", True)
    assert told["output_text"] == follower.text == site.log_text(follower.response_id)
    assert (follower.statuses, follower.is_done) == ([200, 200], False)


LAST_CHUNK = b"\r\n0\r\n\r\n"


def test_a_stop_and_a_new_message_at_once_never_stop_the_new_answer(site, page):
    chance = random.Random(74)
    with closing(site.page("ann")) as tab, closing(site.page("ann")) as phone, ThreadPoolExecutor(1) as pool:
        chat = conversation(page)
        for _ in range(10):
            running_answer = Background(tab, chat, ENDLESS)
            assert running_answer.shown.wait(60)
            live = page.get("/api/conversations").json()["data"][0]["running"]
            stop_s, ask_s = chance.choice([(0, 0), (0, 0.01), (0.01, 0), (0, 0.03), (0.03, 0)])
            stopping = pool.submit(
                lambda pause_s, path: (time.sleep(pause_s), phone.post(path))[1],
                stop_s,
                f"/api/responses/{live}/cancel",
            )
            time.sleep(ask_s)
            second = ask(page, chat, script(outputs=[{"text": "se"}, {"text": "cond"}], delay_s=0.02))
            told = stopping.result().json()
            assert (told["id"], told["end_state"]) == (live, "cancelled")
            assert told["end_reason"] in {"user", "superseded"}
            assert (second.status, second.text) == (200, "second")
            assert second.data[-1]["type"] == "response.completed"
            assert running_answer.result().data[-1]["response"]["end_reason"] == told["end_reason"]
        assert [m["response"]["end_state"] for m in thread(page, chat)[1::2]] == ["cancelled", "completed"] * 10


def read_bytes(connection: socket.socket, count: int) -> bytes:
    """So many, or all: of the same words, some may come in one frame."""
    data = b""
    while len(data) < count and not data.endswith(LAST_CHUNK) and (more := connection.recv(count - len(data))):
        data += more
    return data


def test_a_reset_in_the_instant_of_the_last_frame_changes_no_end(site, key):
    body = question(script(outputs=[{"text": "one "}, {"text": "two"}]))
    with posted(site, key, "/v1/chat/completions", body) as connection:
        connection.settimeout(20)
        whole = read_bytes_to(connection, LAST_CHUNK)
    newest = site.rows("SELECT MAX(id) FROM streaming_response")[0][0]
    seen = []
    for short in [0, 1, 5, 8, 12, 20, 40, 80, 200, 400] * 4:
        with posted(site, key, "/v1/chat/completions", body) as connection:
            connection.settimeout(20)
            data = read_bytes_to(connection, b"[DONE]") if short == 0 else read_bytes(connection, len(whole) - short)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        seen.append(b"[DONE]" in data)
    ended = "SELECT end_state, sent_tokens, delivered_tokens FROM streaming_response WHERE id > ? ORDER BY id"
    eventually(lambda: [bool(state) for state, _, _ in site.rows(ended, newest)] == [True] * len(seen))
    rows = site.rows(ended, newest)
    assert {state for state, _, _ in rows} <= {"completed", "abandoned"}
    assert all(delivered <= sent for _, sent, delivered in rows)
    assert all(state == "completed" for (state, _, _), saw_it in zip(rows, seen, strict=True) if saw_it)
    assert any(seen)


def read_bytes_to(connection: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        more = connection.recv(65536)
        assert more
        data += more
    return data


async def test_one_response_has_so_many_readers_and_one_relay_and_the_next_is_told_the_limit(site, key):
    async with session(key) as web:
        first = Follower(web, site.url)
        reading = [asyncio.create_task(first.ask(question(ENDLESS), "background"))]
        await true(lambda: first.last_id is not None)
        path = f"{site.url}/v1/responses/{first.response_id}"
        # The same reconnect, many times at once.
        places = {"response_id": first.response_id, "last_id": first.last_id, "text": first.text}
        others = [Follower(web, site.url, **places) for _ in range(READERS_OF_ONE + 9)]
        reading += [asyncio.create_task(other.come_back(tries=1)) for other in others]
        await true(lambda: all(other.statuses for other in others))
        let_in = [other for other in others if other.statuses == [200]]
        assert len(let_in) == READERS_OF_ONE - 1
        async with web.get(f"{path}/stream") as refused:
            assert refused.status == 429
            error = (await refused.json())["error"]
        assert (error["code"], error["type"]) == ("rate_limited", "rate_limit_error")
        assert error["message"].count("64") == 2
        assert int(refused.headers["Retry-After"]) >= 1
        # One leaves, and its place is free.
        reading[1 + others.index(let_in.pop())].cancel()
        latecomer = Follower(web, site.url, response_id=first.response_id)
        while latecomer.statuses != [200]:
            latecomer.statuses.clear()
            reading.append(asyncio.create_task(latecomer.come_back(tries=1)))
            await true(lambda: bool(latecomer.statuses))
        async with web.post(f"{path}/cancel") as answer:
            told = await answer.json()
        await asyncio.gather(*reading, return_exceptions=True)
    assert {reader.text for reader in [first, *let_in, latecomer]} == {told["output_text"]}
    row = site.row(told["id"])
    assert (row["epoch"], len(json.loads(row["attempts"])), row["end_state"]) == (1, 1, "cancelled")
    assert row["completion_tokens"] == len(told["output_text"])
