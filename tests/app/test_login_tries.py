"""Who guesses passwords is stopped by name and address, for a while; who owns the account is not kept out by it."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.test import Client, override_settings
from django.utils import timezone

from streaming.audit.address import limited_address
from streaming.store import access

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
PROXIED = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}


@pytest.fixture(autouse=True)
def quick_hashes(settings, u1):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    u1.set_password(PASSWORD)
    u1.save()


def knock(password="wrong", username="u1", address="192.0.2.1", path="/login/", **headers):
    client = Client(REMOTE_ADDR=address, headers=headers)
    return client.post(path, {"username": username, "password": password})


def test_after_five_wrong_tries_also_the_right_one_waits_and_is_told_how_long():
    assert [knock().status_code for _ in range(5)] == [200] * 4 + [429]
    refused = knock(PASSWORD)
    assert refused.status_code == 429
    assert 290 <= int(refused["Retry-After"]) <= 300
    assert "Wait 5 minutes" in refused.content.decode()
    assert "script-src" in refused["Content-Security-Policy"]


def test_the_owner_logs_in_from_elsewhere_all_the_while():
    [knock() for _ in range(9)]
    assert knock(PASSWORD, address="198.51.100.7").status_code == 302
    assert knock(PASSWORD).status_code == 429


def test_a_lock_ends_also_while_somebody_goes_on_trying():
    [knock() for _ in range(5)]
    newest = AccessAttempt.objects.latest("attempt_time").attempt_time
    [knock() for _ in range(20)]
    assert AccessAttempt.objects.latest("attempt_time").attempt_time == newest
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(seconds=301))
    assert knock(PASSWORD).status_code == 302


def test_tries_of_a_time_that_has_not_come_lock_nobody_out_for_as_long():
    """The clock was a day ahead and was set back. Half a minute is what clocks of two processes may differ by."""
    [knock() for _ in range(5)]
    AccessAttempt.objects.update(attempt_time=timezone.now() + timedelta(seconds=30))
    assert knock(PASSWORD).status_code == 429
    AccessAttempt.objects.update(attempt_time=timezone.now() + timedelta(days=1))
    assert knock(PASSWORD).status_code == 302


def test_a_success_forgets_what_that_name_did_wrong_and_nothing_else(u2):
    u2.set_password(PASSWORD)
    u2.save()
    [knock(username=f"guess{n}") for n in range(45)]
    [knock() for _ in range(4)]
    assert knock(PASSWORD).status_code == 302
    assert [knock().status_code for _ in range(4)] == [200] * 4
    # An account of one's own does not make the address innocent.
    assert knock(PASSWORD, "u2").status_code == 302
    assert knock(username="another").status_code == 429


def test_an_address_that_tries_many_names_is_stopped_whatever_it_calls_itself():
    codes = [knock(username=f"guess{n}", user_agent=f"browser {n}").status_code for n in range(51)]
    assert codes.index(429) == 49
    assert knock(PASSWORD).status_code == 429
    assert knock(PASSWORD, address="198.51.100.7").status_code == 302


def test_the_admins_login_counts_with_the_pages():
    [knock(path="/admin/login/") for _ in range(3)]
    [knock() for _ in range(2)]
    for path in ("/login/", "/admin/login/"):
        assert knock(PASSWORD, path=path).status_code == 429


def test_only_the_trusted_proxys_word_is_an_address():
    # Without a proxy the header is the client's own.
    codes = [knock(x_forwarded_for=f"203.0.113.{n}").status_code for n in range(6)]
    assert codes[-1] == 429
    with override_settings(**PROXIED):
        # Behind one its last entry counts: what the client wrote before it is nothing.
        codes = [knock(address="10.0.0.1", x_forwarded_for=f"203.0.113.{n}, 192.0.2.9").status_code for n in range(6)]
        assert codes[-1] == 429
        assert knock(PASSWORD, address="10.0.0.1", x_forwarded_for="192.0.2.10").status_code == 302


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", None),
    ],
)
def test_an_address_of_ipv6_counts_as_its_network(rf, address, counted):
    assert limited_address(rf.get("/", REMOTE_ADDR=address)) == counted


def test_links_are_not_guessed_either_and_a_good_one_is_not_used_up_meanwhile(u1):
    client = Client(REMOTE_ADDR="192.0.2.1")
    good = f"/login/{access.issue_login_token(u1, timedelta(minutes=5))}"
    assert [client.get(f"/login/{'k' * 42}%00").status_code for _ in range(5)] == [410] * 5
    assert "kkk" not in str(AccessAttempt.objects.values_list())
    refused = client.get(good)
    assert (refused.status_code, int(refused["Retry-After"]) > 290) == (429, True)
    assert Client(REMOTE_ADDR="198.51.100.7").get(good).status_code == 302


def test_nothing_that_was_typed_as_a_password_is_stored():
    knock("hunter2-typed-wrong")
    assert "hunter2" not in str(AccessAttempt.objects.values_list())


@pytest.mark.django_db(transaction=True)
async def test_it_works_on_an_event_loop(async_client):
    for _ in range(5):
        answer = await async_client.post("/login/", {"username": "u1", "password": "wrong"})
    assert (answer.status_code, "Retry-After" in answer) == (429, True)
