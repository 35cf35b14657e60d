"""What a response costs: computed with its end, exact, and by the price of its beginning."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from streaming.models import ModelPrice, Response
from streaming.ownership.stop import stop
from streaming.store import threads
from streaming.store.prices import Price, cost
from tests.stream.conftest import until_stored

FIVE = {"outputs": [{"text": "a"}], "repeat": 5}
ENDLESS = {"outputs": [{"text": "tick "}], "repeat": 0, "delay_s": 0.002}


def priced(valid_from=None, **amounts):
    fields = {"model": "scripted", "currency": "EUR", "input_price": "0.15", "cached_price": "0.015"}
    fields |= {"output_price": "0.6", "valid_from": valid_from or timezone.now() - timedelta(days=1)} | amounts
    return threads.write(lambda: ModelPrice.objects.create(**fields))


def test_cost_is_exact_and_cached_tokens_have_their_own_price():
    price = Price("EUR", Decimal("0.15"), Decimal("0.015"), Decimal("0.6"))
    assert cost(price, 1000, 400, 7) == Decimal("0.0001002")
    assert cost(price, 0, 0, 1) == Decimal("0.0000006")
    assert cost(price, 10, 400, 0) == Decimal("0.00000015")
    assert cost(price, 0, 0, 0) == 0


async def test_the_price_of_its_beginning_counts_and_a_model_without_one_costs_nothing_known(bench):
    now = timezone.now()
    ended = await bench.ended((await bench.ask(FIVE))[0])
    assert (ended.cost, ended.currency) == (None, "")
    await priced(now - timedelta(days=2), output_price="100")
    await priced(now - timedelta(days=1))
    await priced(now + timedelta(days=1), output_price="900")
    await priced(now - timedelta(hours=1), model="other", output_price="900")
    ended = await bench.ended((await bench.ask(FIVE))[0])
    assert ended.generated_tokens == 5
    assert ended.cost == (Decimal(ended.prompt_tokens) * Decimal("0.15") + 5 * Decimal("0.6")) / 10**6
    assert ended.currency == "EUR"


async def test_a_stopped_answer_costs_what_was_made_and_a_failed_one_nothing(bench):
    await priced()
    response, tail = await bench.ask(ENDLESS)
    await until_stored(tail, lambda tail: tail.last_seq >= 2)
    await stop(bench.owner, await bench.row(response), "api")
    ended = await bench.ended(response)
    assert ended.cost == (ended.prompt_tokens * Decimal("0.15") + ended.generated_tokens * Decimal("0.6")) / 10**6
    failed = await bench.ended((await bench.ask({"outputs": [{"error": "upstream_error"}]}))[0])
    assert (failed.end_state, failed.cost) == ("errored", 0)


@pytest.mark.parametrize("tokens", [1, 10**6, 2**31 - 1])
async def test_a_cost_comes_back_from_the_database_as_it_was(user, tokens):
    amount = cost(Price("EUR", Decimal(0), Decimal(0), Decimal("0.123457")), 0, 0, tokens)
    stored = await threads.write(
        Response.objects.create, user=user, purpose="api", dialect="openai_chat", model="m", policy="abort", cost=amount
    )
    assert (await threads.run(Response.objects.get, id=stored.id)).cost == amount
