"""Quotas against a real database: reserved before the stream, settled once by whatever ends it."""

import asyncio
import re

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError
from django.db.backends.utils import CursorWrapper

from streaming.admission import quota_book
from streaming.models import ApiKey, Conversation, ModelPrice, Quota, QuotaSettlement, Response, WebhookEndpoint
from streaming.ownership.ask import Refused
from streaming.ownership.stop import stop
from streaming.store import access, clock, orphans, threads
from tests.books.conftest import streams_in_use, tokens_in_use
from tests.stream.conftest import DEADLINE_S, until_stored

WAITING = {"outputs": [{"gate": "g"}, {"text": "a"}]}
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002}
FIVE = {"outputs": [{"text": "a"}], "repeat": 5}


#: Amid a minute, a day and a month.
NOON_S = 1_790_000_000 // 86400 * 86400 + 43230.0


@pytest.fixture(autouse=True)
def _quotas_are_seen_at_once(monkeypatch):
    monkeypatch.setattr(quota_book, "REFRESH_S", 0.0)


@pytest.fixture(autouse=True)
def _no_window_ends(monkeypatch):
    monkeypatch.setattr(clock, "now_s", lambda: NOON_S)


async def prompt_tokens_of(bench, script) -> int:
    """Of a response that no quota has seen."""
    response, _ = await bench.ask(script, max_tokens=1)
    return response.prompt_tokens


async def test_fifty_at_once_cannot_together_pass_the_last_tokens(bench, engine, row, limited):
    row.slots = 100
    await threads.write(row.save)
    each = await prompt_tokens_of(bench, WAITING) + 25
    quota = await threads.write(limited, tokens_per_day=4 * each + 20)
    asked = (bench.ask(WAITING, max_tokens=25) for _ in range(50))
    made = await asyncio.gather(*asked, return_exceptions=True)
    refused = [answer for answer in made if isinstance(answer, Refused)]
    running = [answer[0] for answer in made if isinstance(answer, tuple)]
    assert (len(running), len(refused)) == (4, 46)
    assert {(r.status, r.code) for r in refused} == {(429, "rate_limited")}
    assert f"tokens_per_day: limit {4 * each + 20}, in use {4 * each}, this request needs {each}" in refused[0].message
    assert 0 < refused[0].retry_after_s <= 86400
    assert await threads.run(tokens_in_use, quota) == 4 * each
    engine.open_gate("g")
    for response in running:
        await bench.ended(response)
    assert await threads.run(tokens_in_use, quota) == 4 * (each - 25 + 1)
    assert await threads.run(streams_in_use, quota) == 0


async def test_who_names_no_number_gets_what_is_left(bench, limited):
    prompt_tokens = await prompt_tokens_of(bench, FIVE)
    await threads.write(limited, tokens_per_day=prompt_tokens + 3)
    response, _ = await bench.ask(FIVE)
    ended = await bench.ended(response)
    assert ended.request["max_tokens"] == 3
    assert (ended.completion_tokens, ended.finish_reason) == (3, "length")
    with pytest.raises(Refused, match="tokens_per_day"):
        await bench.ask(FIVE)


async def test_streams_at_a_time_are_counted_until_they_end(bench, engine, limited):
    quota = await threads.write(limited, concurrent_streams=2)
    running = [(await bench.ask(WAITING))[0] for _ in range(2)]
    with pytest.raises(Refused, match="concurrent_streams: limit 2, in use 2"):
        await bench.ask(WAITING)
    engine.open_gate("g")
    await bench.ended(running[0])
    await bench.ended(running[1])
    await bench.ended((await bench.ask(FIVE))[0])
    assert await threads.run(streams_in_use, quota) == 0


async def test_the_most_restrictive_of_user_group_and_key_wins(bench, user):
    group = await threads.write(Group.objects.create, name="trial")
    await threads.write(user.groups.add, group)
    await threads.write(access.issue_key, user)
    key = await threads.run(ApiKey.objects.get)
    make = Quota.objects.create
    await threads.write(make, user=user, max_output_tokens=50, models_allowed=["scripted", "other"])
    await threads.write(make, group=group, max_output_tokens=20, requests_per_minute=1000)
    await threads.write(make, api_key=key, models_allowed=["scripted"], max_output_tokens=30)
    response, _ = await bench.ask(FIVE, api_key_id=key.pk)
    assert (await bench.ended(response)).request["max_tokens"] == 20
    with pytest.raises(Refused, match="max_tokens: your quota allows at most 20 \\(got 21\\)"):
        await bench.ask(FIVE, max_tokens=21)
    await threads.write(Quota.objects.filter(api_key=key).update, models_allowed=["other"])
    with pytest.raises(Refused, match="your quota allows other") as refused:
        await bench.ask(FIVE, api_key_id=key.pk)
    assert (refused.value.status, refused.value.code) == (403, "model_not_allowed")
    await bench.ended((await bench.ask(FIVE))[0])


@pytest.mark.parametrize(("is_shared", "second_is_refused"), [(False, False), (True, True)])
async def test_a_group_shares_its_quota_or_each_member_has_it(bench, user, is_shared, second_is_refused):
    group = await threads.write(Group.objects.create, name="g")
    other = await threads.write(User.objects.create_user, "u2")
    for member in (user, other):
        await threads.write(member.groups.add, group)
    await threads.write(Quota.objects.create, group=group, is_shared=is_shared, requests_per_minute=1)
    await bench.ended((await bench.ask(FIVE))[0])
    bench.user = other
    if second_is_refused:
        with pytest.raises(Refused, match="requests_per_minute"):
            await bench.ask(FIVE)
    else:
        await bench.ended((await bench.ask(FIVE))[0])


async def started(bench, script, **fields):
    response, tail = await bench.ask(script, **fields)
    await until_stored(tail, lambda tail: tail.last_seq >= 2)
    return response


async def completes(bench, engine):
    response, _ = await bench.ask(FIVE, max_tokens=900)
    return await bench.ended(response)


async def is_stopped(bench, engine):
    response = await started(bench, ENDLESS, max_tokens=90_000)
    await stop(bench.owner, await bench.row(response), "api")
    return await bench.ended(response)


async def is_stopped_in_the_queue(bench, engine):
    rows = [await bench.ask(WAITING) for _ in range(4)]
    response, _ = await bench.ask(WAITING, max_tokens=90_000)
    await stop(bench.owner, await bench.row(response), "api")
    row = await bench.ended(response)
    engine.open_gate("g")
    for waiting, _ in rows:
        await bench.ended(waiting)
    return row


async def fails_before_the_first_token(bench, engine):
    response, _ = await bench.ask({"outputs": [{"error": "upstream_error"}]}, max_tokens=900)
    return await bench.ended(response)


async def is_an_orphan(bench, engine):
    response = await started(bench, ENDLESS, max_tokens=90_000)
    await threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST)
    await bench.owner.ended(response.id)
    return await bench.row(response)


async def loses_two_races(bench, engine):
    """The orphan's end and the relay's own come together; a third asks once more."""
    response, _ = await bench.ask(WAITING, max_tokens=900)
    row = await bench.row(response)
    engine.open_gate("g")
    ends = (threads.write(orphans.end_orphan, row, orphans.LOST) for _ in range(2))
    await asyncio.gather(*ends, bench.owner.ended(response.id))
    await threads.write(orphans.end_owned, response.id, row.epoch, orphans.LOST)
    return await bench.row(response)


def made(row):
    """As the end was stored: who was taken over adds to the row what its engine made besides, and nobody pays that."""
    usage = row.events.get(kind="ended").payload["usage"]
    return row.prompt_tokens + usage["generated_tokens"] if usage["generated_tokens"] else 0


@pytest.mark.parametrize(
    ("ends", "pays"),
    [
        (completes, lambda row: row.prompt_tokens + 5),
        (is_stopped, made),
        (is_stopped_in_the_queue, lambda row: 0),
        (fails_before_the_first_token, lambda row: 0),
        (is_an_orphan, made),
        (loses_two_races, made),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
async def test_every_end_settles_once_and_by_what_was_made(bench, engine, limited, ends, pays):
    quota = await threads.write(limited, concurrent_streams=100, tokens_per_day=10**9)
    async with asyncio.timeout(DEADLINE_S):
        row = await ends(bench, engine)
        await bench.owner.journal.settled()
    given_back = await threads.run(lambda: list(QuotaSettlement.objects.values_list("tokens", flat=True)))
    assert len(given_back) == await threads.run(Response.objects.count), "one for each response"
    reserved = row.reserved["tokens"]
    assert reserved - await threads.run(pays, row) in given_back
    assert await threads.run(streams_in_use, quota) == 0


async def test_a_row_that_cannot_be_stored_has_reserved_nothing(bench, limited, monkeypatch):
    from streaming.store import creation

    quota = await threads.write(limited, tokens_per_day=10**9)
    await bench.ended((await bench.ask(FIVE))[0])
    before = await threads.run(tokens_in_use, quota)

    def refused(*_):
        raise IntegrityError("its user is gone")

    monkeypatch.setattr(creation, "insert", refused)
    with pytest.raises(Conversation.DoesNotExist):
        await bench.ask(FIVE)
    assert await threads.run(tokens_in_use, quota) == before


async def test_who_is_under_no_quota_pays_no_statement_for_those_of_others(bench, user, monkeypatch):
    """Neither at the start nor at the end, whatever else is configured."""
    other = await threads.write(User.objects.create_user, "u2")
    await threads.write(Quota.objects.create, user=other, requests_per_minute=1)
    price = {"input_price": 1, "cached_price": 1, "output_price": 1}
    await threads.write(lambda: ModelPrice.objects.create(model="other", currency="EUR", **price))
    await threads.write(WebhookEndpoint.objects.create, name="off", url="https://a.example", enabled=False)
    monkeypatch.setattr(quota_book, "REFRESH_S", 3600)
    await bench.ended((await bench.ask(FIVE))[0])
    seen = []
    for name in ("execute", "executemany"):
        method = getattr(CursorWrapper, name)

        def recorded(cursor, sql, *parameters, method=method):
            if "webprocess" not in sql:
                seen.append(" ".join(sql.split()))
            return method(cursor, sql, *parameters)

        monkeypatch.setattr(CursorWrapper, name, recorded)
    response, _ = await bench.ask(FIVE)
    await bench.owner.ended(response.id)
    of_books = [sql for sql in seen if re.search("quota|price|webhook", sql) and "RETURNING" not in sql]
    assert of_books == []
    assert [sql.split()[0] for sql in seen if "INTO streaming_response " in sql or "UPDATE" in sql] == [
        "INSERT", "UPDATE", "UPDATE",
    ]  # fmt: skip


async def test_what_was_given_back_is_folded_in_by_the_next_and_not_kept(bench, limited):
    quota = await threads.write(limited, tokens_per_minute=10**9)
    for _ in range(3):
        await bench.ended((await bench.ask(FIVE))[0])
    assert await threads.run(QuotaSettlement.objects.count) == 1
    await threads.write(quota.delete)
    await bench.ended((await bench.ask(FIVE))[0])
