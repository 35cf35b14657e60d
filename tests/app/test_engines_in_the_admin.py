"""Engines in the admin: what a row may say, whose key goes where, draining, and a test that really generates."""

import re

import pytest
from django.contrib.auth.models import Permission, User

from streaming.models import Engine, Response

pytestmark = pytest.mark.django_db(transaction=True)

ENGINES = "/admin/streaming/engine/"


@pytest.fixture
def staff(page1):
    User.objects.filter(username="u1").update(is_staff=True, is_superuser=True)
    return page1


def form(**fields):
    whole = {
        "name": "e9", "kind": "openai", "url": "https://a.example/v1", "model": "demo", "tokenizer": "",
        "context_tokens": "2048", "slots": "4", "enabled": "on", "options": "{}",
    }  # fmt: skip
    return whole | fields


def errors_of(answer):
    assert answer.status_code == 200
    return {field: " ".join(said) for field, said in answer.context["adminform"].form.errors.items()}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"url": "ftp://x"}, "url", ["ftp://x", "http:// or https://"]),
        ({"url": "https://u:pa55@x/"}, "url", ["'x'", "password"]),
        ({"url": "https://ok.example\\@127.0.0.1/"}, "url", ["must not hold a user"]),
        ({"url": "https://ok.example\\127.0.0.1/"}, "url", ["http:// or https://"]),
        ({"url": "https://x/ y"}, "url", ["http:// or https://"]),
        ({"url": "https://x/?a=1"}, "url", ["query"]),
        ({"url": "https://x\u0430.example/"}, "url", ["ASCII"]),
        ({"url": ""}, "url", ["''"]),
        ({"options": '{"api_key_env": "SECRET_KEY"}'}, "options", ["api_key_env", "SECRET_KEY", "_API_KEY"]),
        ({"options": '{"headers": {"X": "y"}}'}, "options", ["headers", "api_key_env, upstream_model, cache_salt"]),
        ({"options": '{"cache_salt": "yes"}'}, "options", ["cache_salt", "'yes'", "true or false"]),
        ({"options": '{"upstream_model": ""}'}, "options", ["upstream_model", "''"]),
        ({"options": "[1]"}, "options", ["[1]", "not a JSON object"]),
        ({"kind": "vllm", "tokenizer": "/nowhere"}, "tokenizer", ["/nowhere"]),
        ({"kind": "vllm", "options": '{"cache_salt": true}'}, "options", ["cache_salt", "kind vllm"]),
        ({"kind": "scripted", "options": '{"script": {"x": 1}}'}, "options", ["script", "x"]),
        ({"slots": "0"}, "slots", ["1"]),
    ],
)
def test_what_a_row_may_not_say_is_named_with_its_field_and_its_value(staff, fields, field, words):
    errors = errors_of(staff.post(f"{ENGINES}add/", form(**fields)))
    assert list(errors) == [field]
    assert all(word in errors[field] for word in words), errors
    assert "pa55" not in errors[field]
    assert not Engine.objects.exists()


def test_a_key_goes_to_no_other_host_by_a_change_of_the_address(staff):
    """SB07: who may change a row cannot have somebody's key sent elsewhere without naming it."""
    key = '{"api_key_env": "A_API_KEY", "upstream_model": "m"}'
    assert staff.post(f"{ENGINES}add/", form(options=key)).status_code == 302
    row = Engine.objects.get()
    change = f"{ENGINES}{row.pk}/change/"
    Engine.objects.update(capabilities={"usage": True})
    staff.post(change, form(options=key, url="https://a.example/v2"))
    row.refresh_from_db()
    assert (row.options["api_key_env"], row.capabilities) == ("A_API_KEY", {}), "the same host"
    for url in ("https://b.example/v2", "http://b.example/v2", "http://b.example:99/v2"):
        answer = staff.post(change, form(options=key, url=url), follow=True)
        assert "api_key_env again" in answer.content.decode()
        row.refresh_from_db()
        assert (row.url, row.options) == (url, {"upstream_model": "m"})
        staff.post(change, form(options=key, url=url))
        row.refresh_from_db()
        assert row.options["api_key_env"] == "A_API_KEY", "named again, it is meant"
    other = '{"api_key_env": "B_API_KEY"}'
    staff.post(change, form(options=other, url="https://c.example/"))
    row.refresh_from_db()
    assert row.options == {"api_key_env": "B_API_KEY"}, "named with the new host"


def test_what_a_probe_found_is_shown_and_not_typed(staff):
    Engine.objects.create(name="e9", kind="scripted", model="demo", capabilities={"usage": True})
    row = Engine.objects.get()
    fields = form(kind="scripted", url="", capabilities='{"usage": false}')
    assert staff.post(f"{ENGINES}{row.pk}/change/", fields).status_code == 302
    row.refresh_from_db()
    assert row.capabilities == {"usage": True}


def test_an_engine_is_drained_and_comes_back_from_the_list_and_from_its_page(staff):
    row = Engine.objects.create(name="e9", kind="scripted", model="demo")
    page = f"{ENGINES}{row.pk}/change/"

    def acted(action):
        staff.post(ENGINES, {"action": action, "_selected_action": [row.pk]})
        row.refresh_from_db()
        return row.drain_started_at

    since = acted("drain")
    assert since is not None
    assert acted("drain") == since, "already"
    html = staff.get(page).content.decode()
    assert "drained since" in html
    assert "Return to service" in html
    assert acted("give_back") is None
    for what, drained in (("drain", True), ("give-back", False)):
        url = f"{ENGINES}{row.pk}/{what}/now/"
        assert url in staff.get(page).content.decode()
        assert staff.get(url).status_code == 405, "nothing happens by following a link"
        assert staff.post(url, follow=True).status_code == 200
        row.refresh_from_db()
        assert (row.drain_started_at is not None) is drained
    history = staff.get(f"{ENGINES}{row.pk}/history/").content.decode()
    assert history.count("back in service") == 2


def test_a_test_is_a_real_generation_with_a_row(staff):
    row = Engine.objects.create(name="e9", kind="scripted", model="demo")
    html = staff.post(f"{ENGINES}{row.pk}/test/now/", follow=True).content.decode()
    response = Response.objects.get()
    link = re.search(rf'Engine e9: a token after \d+ ms \(<a href="([^"]+)">{response.id}</a>', html)
    assert response.id in staff.get(link[1]).content.decode()
    assert (response.purpose, response.engine_id, response.end_state, response.finish_reason) == (
        "probe", row.pk, "completed", "length",
    )  # fmt: skip
    assert (response.completion_tokens, response.request["max_tokens"]) == (1, 1)
    [attempt] = response.attempts
    assert (attempt["engine"], attempt["generated_tokens"], attempt["count"]) == ("e9", 1, "exact")


@pytest.mark.parametrize("state", [{"enabled": False}, {"drain": True}])
def test_an_engine_out_of_service_can_be_tested(staff, state):
    row = Engine.objects.create(name="e9", kind="scripted", model="demo", enabled=state.get("enabled", True))
    if "drain" in state:
        staff.post(f"{ENGINES}{row.pk}/drain/now/")
    staff.post(ENGINES, {"action": "test", "_selected_action": [row.pk]})
    assert Response.objects.get().end_state == "completed"


def test_an_engine_that_is_not_there_fails_its_test_with_a_row(staff):
    row = Engine.objects.create(name="e9", kind="openai", model="demo", url="http://127.0.0.1:1/v1")
    html = staff.post(f"{ENGINES}{row.pk}/test/now/", follow=True).content.decode()
    assert "Engine e9: no token: the connection to the engine was lost" in html
    response = Response.objects.get()
    assert (response.end_state, response.purpose, response.generated_tokens) == ("truncated", "probe", 0)
    row = Engine.objects.create(name="e8", kind="vllm", model="demo", url="http://127.0.0.1:1", tokenizer="/nowhere")
    assert "no tokenizer.json at /nowhere" in staff.post(f"{ENGINES}{row.pk}/test/now/", follow=True).content.decode()


def test_not_many_are_tested_at_once(staff):
    rows = [Engine.objects.create(name=f"e{nth}", kind="scripted", model="demo") for nth in range(6)]
    form = {"action": "test", "_selected_action": [row.pk for row in rows]}
    assert "At most 5" in staff.post(ENGINES, form, follow=True).content.decode()
    assert not Response.objects.exists()


def test_who_may_only_look_at_engines_does_nothing_with_them(page1, u1):
    User.objects.filter(username="u1").update(is_staff=True)
    u1.user_permissions.add(Permission.objects.get(codename="view_engine"))
    row = Engine.objects.create(name="e9", kind="scripted", model="demo")
    assert "Test now" not in page1.get(f"{ENGINES}{row.pk}/change/").content.decode()
    for what in ("drain", "give-back", "test"):
        assert page1.post(f"{ENGINES}{row.pk}/{what}/now/").status_code == 403
    page1.post(ENGINES, {"action": "drain", "_selected_action": [row.pk]})
    row.refresh_from_db()
    assert row.drain_started_at is None
    assert not Response.objects.exists()
