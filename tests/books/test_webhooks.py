"""Webhooks end to end: written with the end, sent to a real receiver that fails in every way, never lost."""

import asyncio
import itertools
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.cache import cache
from django.db import connection
from django.utils import timezone

from streaming.models import ModelPrice, Response, WebhookDelivery, WebhookEndpoint
from streaming.ownership.stop import stop
from streaming.protocol.end_state import REFUSED, decide
from streaming.store import creation, orphans, outbox, threads
from streaming.store.creation import NewResponse
from streaming.tasks import webhooks
from streaming.tasks.webhook_request import NotAllowed, PublicResolver, check_url, is_public, key_of, signature
from tests.books.receiver import SECRET, Receiver
from tests.child import ROOT, START_S

ENDLESS = {"outputs": [{"text": "secret words "}], "repeat": 0, "delay_s": 0.002}
FIVE = {"outputs": [{"text": "secret words "}], "repeat": 5}


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def endpoint(receiver, settings, monkeypatch):
    settings.WEBHOOKS_TO_PRIVATE = True
    monkeypatch.setenv("WEBHOOK_SECRET_A", SECRET)
    cache.delete(webhooks.TURN)
    return WebhookEndpoint.objects.create(name="a", url=receiver.url, secret_env="WEBHOOK_SECRET_A")


def deliver() -> int:
    """One run, as if the time of everything that waits had come."""
    WebhookDelivery.objects.filter(state="pending").update(due_at=timezone.now())
    WebhookEndpoint.objects.update(rests_until=None)
    return webhooks.deliver_webhooks()


def pending(endpoint, response_id="resp_1", **fields) -> WebhookDelivery:
    payload = {"type": "response.ended", "data": {"id": response_id}}
    return WebhookDelivery.objects.create(endpoint=endpoint, response_id=response_id, payload=payload, **fields)


def test_the_signature_is_that_of_the_published_example():
    """The example of the Standard Webhooks specification."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )
    for wrong in ("", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%"):
        with pytest.raises(ValueError, match="whsec_"):
            key_of(wrong)


async def test_every_way_to_end_is_told_once_with_usage_and_without_text(bench, user, endpoint, receiver):
    price = {"input_price": 1, "cached_price": 1, "output_price": 2}
    price |= {"model": "scripted", "currency": "EUR", "valid_from": timezone.now() - timedelta(hours=1)}
    await threads.write(lambda: ModelPrice.objects.create(**price))
    ended = [await bench.ended((await bench.ask(FIVE))[0])]
    response, _ = await bench.ask(ENDLESS)
    await stop(bench.owner, await bench.row(response), "api")
    ended.append(await bench.ended(response))
    response, _ = await bench.ask(ENDLESS)
    await threads.write(orphans.end_orphan, await bench.row(response), orphans.LOST)
    await bench.owner.ended(response.id)
    ended.append(await bench.row(response))
    refused = NewResponse(user.pk, "api", "openai_chat", "scripted", "abort", False, {}, (), "")
    ended.append(await threads.write(creation.reject, refused, decide(None, REFUSED, "over_quota", "over")))
    assert {row.end_state for row in ended} == {"completed", "cancelled", "truncated", "rejected"}
    assert await asyncio.to_thread(deliver) == 4
    told = {message.data["id"]: message for message in receiver.messages}
    assert sorted(told) == sorted(row.id for row in ended)
    for row in ended:
        message, data = told[row.id], told[row.id].data
        assert message.is_signed
        assert message.headers["webhook-id"] == row.id
        assert (data["end_state"], data["end_reason"], data["user_id"]) == (row.end_state, row.end_reason, user.pk)
        if row.end_state == "truncated":  # what its owner still knew of it came after its end
            assert data["usage"]["generated_tokens"] <= row.generated_tokens
        else:
            assert data["usage"]["generated_tokens"] == row.generated_tokens
        assert data["usage"]["prompt_tokens"] == row.prompt_tokens
        assert b"secret words" not in message.body
    completed = told[ended[0].id].data
    assert completed["cost"] == format(Decimal(ended[0].prompt_tokens + 2 * ended[0].generated_tokens) / 10**6, "f")
    assert completed["currency"] == "EUR"
    assert await asyncio.to_thread(deliver) == 0, "and never again"


async def test_an_end_that_loses_leaves_no_second_message_and_an_end_that_is_rolled_back_none(bench, endpoint):
    response, _ = await bench.ask(ENDLESS)
    row = await bench.row(response)
    ends = (threads.write(orphans.end_orphan, row, orphans.LOST) for _ in range(3))
    await asyncio.gather(*ends, bench.owner.ended(response.id))
    assert await threads.run(WebhookDelivery.objects.count) == 1
    assert await threads.run(Response.objects.count) == 1


@pytest.mark.parametrize("answer", [500, 404, 307])
def test_what_is_not_taken_is_sent_again_under_the_same_id_and_a_redirect_is_not_followed(endpoint, receiver, answer):
    pending(endpoint)
    receiver.answers = [answer, answer]
    assert [deliver(), deliver(), deliver()] == [0, 0, 1]
    assert {message.headers["webhook-id"] for message in receiver.messages} == {"resp_1"}
    assert {message.path for message in receiver.messages} == {"/hook"}
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.last_status) == ("delivered", 3, 204)


def test_a_receiver_that_hangs_is_not_waited_for_longer_than_the_limit(endpoint, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.1)
    receiver.answers = ["hang"]
    pending(endpoint)
    assert deliver() == 0
    delivery = WebhookDelivery.objects.get()
    assert (delivery.state, delivery.last_error) == ("pending", "no answer in time")


def test_who_hangs_holds_up_no_other_and_is_given_up_for_now(endpoint, receiver, monkeypatch):
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 60.0)
    quick = Receiver()
    other = WebhookEndpoint.objects.create(name="b", url=quick.url, secret_env="WEBHOOK_SECRET_A")
    receiver.answers = ["hang"] * 100
    receiver.released = quick.came  # they hang until the other has got its message
    for n in range(60):
        pending(endpoint, f"resp_{n}")
    pending(other)
    assert webhooks.deliver_webhooks() == 1
    assert len(quick.messages) == 1
    assert len(receiver.messages) == webhooks.PER_ROUND, "then it rests"
    failed = WebhookDelivery.objects.filter(last_error="ServerDisconnectedError: Server disconnected")
    assert failed.count() == webhooks.PER_ROUND
    endpoint.refresh_from_db()
    assert endpoint.rests_until > timezone.now()
    assert webhooks.deliver_webhooks() == 0
    assert len(receiver.messages) == webhooks.PER_ROUND
    quick.close()


def test_after_the_last_attempt_it_is_dead_until_somebody_sends_it_again(endpoint, receiver):
    delivery = pending(endpoint, attempts=webhooks.ATTEMPTS_MAX - 1)
    receiver.answers = [500]
    deliver()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_status, delivery.last_error) == ("dead", 500, "answered 500")
    assert deliver() == 0
    assert outbox.send_again([delivery.pk]) == 1
    assert deliver() == 1


def test_pauses_grow_and_differ(monkeypatch):
    seconds = [webhooks.pause(attempt).total_seconds() for attempt in range(1, webhooks.ATTEMPTS_MAX)]
    assert 4 <= seconds[0] <= 6
    assert all(later > earlier for earlier, later in itertools.pairwise(seconds[:6]))
    assert max(seconds) <= 1.2 * webhooks.LONGEST_PAUSE_S
    assert sum(seconds) > 86400
    assert len({webhooks.pause(3) for _ in range(9)}) > 1


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(endpoint, receiver):
    pending(endpoint)
    receiver.answers = ["hang"]
    code = (
        "from django.conf import settings; settings.WEBHOOKS_TO_PRIVATE = True;"
        f"settings.DATABASES['default']['NAME'] = {str(connection.settings_dict['NAME'])!r};"
        "import django; django.setup(); from streaming.tasks import webhooks; webhooks.deliver_webhooks()"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    try:
        assert receiver.came.wait(START_S)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert webhooks.deliver_webhooks() == 0, "it is leased"
    delivery = WebhookDelivery.objects.get()
    assert timezone.now() < delivery.due_at < timezone.now() + webhooks.LEASE
    assert deliver() == 1
    assert [message.headers["webhook-id"] for message in receiver.messages] == ["resp_1"] * 2


def test_an_answer_that_comes_after_the_lease_does_not_undo_what_another_worker_did(endpoint, receiver):
    pending(endpoint)
    [slow] = outbox.take_due(1, timedelta(0))
    [quick] = outbox.take_due(1, timedelta(seconds=60))
    outbox.failed(slow, "late", None, None)
    outbox.told(quick, 204)
    outbox.failed(slow, "late", None, None)
    assert WebhookDelivery.objects.get().state == "delivered"


def test_a_clock_that_is_ahead_where_the_end_was_written_or_is_set_back_afterwards_keeps_no_delivery_waiting(
    endpoint, receiver, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(hours=1))
        row = Response.objects.create(purpose="api", dialect="openai_chat", model="m", policy="abort", state="queued")
        outbox.note_ended(row.id)
    WebhookEndpoint.objects.update(rests_until=timezone.now() + timedelta(hours=1), failed_rounds=1)
    assert webhooks.deliver_webhooks() == 1
    assert WebhookDelivery.objects.get().state == "delivered"


def test_without_its_secret_nothing_is_sent(endpoint, receiver, monkeypatch):
    pending(endpoint)
    monkeypatch.delenv("WEBHOOK_SECRET_A")
    deliver()
    assert "the environment has no WEBHOOK_SECRET_A" in WebhookDelivery.objects.get().last_error
    WebhookEndpoint.objects.update(secret_env="SECRET_KEY")
    deliver()
    assert receiver.messages == []


PRIVATE = [
    "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::7f00:1", "2002:7f00:1::", "ff02::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_of_ours_is_public(address):
    assert not is_public(address)
    host = f"[{address}]" if ":" in address else address
    if "%" not in address:
        with pytest.raises(NotAllowed):
            check_url(f"https://{host}/hook", may_be_private=False)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"])
def test_addresses_of_the_internet_are(address):
    assert is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "017700000001"])
async def test_a_name_that_means_this_machine_is_refused_however_it_is_spelled(host):
    check_url(f"https://{host}/", may_be_private=False)
    with pytest.raises(NotAllowed):
        await PublicResolver().resolve(host, 443)


def test_by_default_nothing_is_sent_to_this_machine_or_unencrypted(endpoint, receiver, settings):
    settings.WEBHOOKS_TO_PRIVATE = False
    pending(endpoint)
    encrypted = receiver.url.replace("http:", "https:")
    for url in (receiver.url, encrypted, encrypted.replace("127.0.0.1", "localhost")):
        WebhookEndpoint.objects.update(url=url)
        assert deliver() == 0
    assert receiver.messages == []
    assert "not an address of the open internet" in WebhookDelivery.objects.get().last_error


def test_what_was_delivered_is_forgotten_after_a_while_and_what_was_given_up_is_not(endpoint):
    old = timezone.now() - webhooks.KEEP - timedelta(days=1)
    for n, state in enumerate(("delivered", "dead", "pending")):
        pending(endpoint, f"resp_{n}", state=state, ended_at=None if state == "pending" else old)
    pending(endpoint, "resp_9", state="delivered", ended_at=timezone.now())
    assert webhooks.forget_webhooks() == 1
    assert set(WebhookDelivery.objects.values_list("response_id", flat=True)) == {"resp_1", "resp_2", "resp_9"}


async def test_a_probe_is_nobodys(bench, endpoint):
    new = NewResponse(None, "probe", "openai_chat", "scripted", "background", False, {"max_tokens": 1}, [1], "")
    row = await threads.write(creation.create, new)
    await threads.write(orphans.end_orphan, row, orphans.LOST)
    assert await threads.run(WebhookDelivery.objects.count) == 0
