"""Every refusal on /v1 and /api is JSON in one shape, whoever made it."""

import json
import logging

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client

from streaming.models import Message

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.app.probe_urls")]


@pytest.fixture
def api(key1):
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key1}"})


@pytest.mark.parametrize(("status", "is_told"), [(500, True), (502, True), (503, False), (529, False)])
def test_the_log_is_not_told_of_each_request_that_is_asked_to_come_later(status, is_told):
    record = logging.makeLogRecord({"name": "django.request", "levelno": logging.ERROR, "status_code": status})
    assert bool(logging.getLogger("django.request").filter(record)) is is_told


def refused(response, status):
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    assert response["Content-Length"] == str(len(response.content))
    error = response.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error


def post(client, body, path="/v1/probe", content_type="application/json", headers=None):
    body = body if isinstance(body, bytes | str) else json.dumps(body)
    return client.post(path, body, content_type=content_type, headers=headers)


@pytest.mark.parametrize("path", ["/v1/nothing", "/api/nothing", "/v1/", "/v1/%00", "/api/%0a%e2%98%95"])
def test_an_unknown_path_is_a_json_404(api, path):
    assert refused(api.get(path), 404)["code"] == "not_found"


def test_a_wrong_method_is_a_json_405_that_names_the_right_one(api, page1):
    response = api.get("/v1/probe")
    assert "POST" in refused(response, 405)["message"]
    assert response["Allow"] == "POST"
    refused(page1.put("/api/conversations"), 405)


def test_an_oversized_body_is_a_json_413_that_names_limit_and_size(api, page1, settings):
    body = b'"' + b"x" * settings.MAX_BODY_BYTES + b'"'
    for response in (post(api, body), post(page1, body, "/api/conversations")):
        message = refused(response, 413)["message"]
        assert str(settings.MAX_BODY_BYTES) in message
        assert str(len(body)) in message


def test_an_oversized_body_without_a_length_is_refused_too(api, settings):
    settings.MAX_BODY_BYTES = 10
    assert refused(post(api, {"count": 1, "stop": "x" * 20}), 413)["code"] == "body_too_large"


def test_a_bug_is_a_json_500_that_tells_nothing(api):
    error = refused(api.get("/v1/broken"), 500)
    assert error["code"] == "internal"
    assert "secret" not in json.dumps(error)


def test_errors_stay_json_with_debug_on(api, settings):
    settings.DEBUG = True
    refused(api.get("/v1/nothing"), 404)
    refused(api.get("/v1/broken"), 500)
    refused(api.get("/v1/probe"), 405)
    refused(post(api, b"{"), 400)


@pytest.mark.parametrize("path", ["/v1/probe", "/api/me"])
def test_an_unknown_host_is_a_json_400(api, path):
    assert refused(api.get(path, headers={"host": "evil.example"}), 400)["code"] == "invalid_host"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_body_that_does_not_say_json_is_refused(api, page1, content_type):
    refused(post(api, {"count": 1}, content_type=content_type), 415)
    refused(post(page1, {}, "/api/conversations", content_type), 415)


def test_a_compressed_body_is_refused_in_words(api):
    for encoding in ("gzip", "br", "identity, gzip", "é"):
        error = refused(post(api, {"count": 2}, headers={"Content-Encoding": encoding}), 415)
        assert error["param"] == "Content-Encoding"
        assert error["message"].startswith("Content-Encoding: send the body as it is (got ")
    assert post(api, {"count": 2}, headers={"Content-Encoding": " Identity"}).status_code == 200


def test_a_charset_beside_json_is_fine(api):
    assert post(api, {"count": 2}, content_type="application/json; charset=utf-8").status_code == 200


@pytest.mark.parametrize(
    ("body", "param", "parts"),
    [
        ({"count": 0}, "count", ["count: ", "greater than or equal to 1", "(got 0)"]),
        ({"count": 10**30}, "count", ["less than or equal to 64"]),
        ({"count": True}, "count", ["integer", "(got true)"]),
        ({"count": "5"}, "count", ["integer", '(got "5")']),
        ({"heat": "hot" * 100}, "heat", ["number", "…"]),
        ({"parts": [{"text": "a"}, {"text": None}]}, "parts.1.text", ["parts.1.text: ", "string", "(got null)"]),
        ({"parts": [{}]}, "parts.0.text", ["parts.0.text: this field is required"]),
        ({"api_base": "http://x"}, "api_base", ["api_base: unknown field", '(got "http://x")']),
        ({"stop": ["a"] * 65}, "stop", ["at most 4", "65"]),
        ({"stop": [1]}, "stop.0", ["string"]),
        ([], None, ["body: must be a JSON object (got an array of 0 items)"]),
        ({"parts": ["x"]}, "parts.0", ['parts.0: must be a JSON object (got "x")']),
        (None, None, []),
        ("", None, ["required"]),
    ],
)
def test_a_body_that_does_not_fit_is_one_message_with_field_limit_and_value(api, body, param, parts):
    error = refused(post(api, body), 400)
    assert error["param"] == param
    assert all(part in error["message"] for part in parts), error["message"]
    assert len(error["message"]) < 300


@pytest.mark.parametrize("body", [{"k" * 100_000: 1}, {"parts": [{"text": "a", "k" * 100_000: 1}]}])
def test_a_field_with_a_very_long_name_is_not_repeated_whole(api, body):
    answer = post(api, body)
    assert refused(answer, 400)["param"].endswith("k" * 80)
    assert len(answer.content) < 1000


def test_a_refused_spelling_of_json_names_the_field(api):
    error = refused(post(api, b'{"parts": [{"text": "\\ud800"}]}'), 400)
    assert (error["code"], error["param"]) == ("invalid_json", "parts.0.text")


@pytest.mark.parametrize("before", ["x", "%00", "1.conv_x", "9" * 400, "1.conv_" + "A" * 26 + "%0a", "٣"])
def test_a_garbage_cursor_is_a_json_400(page1, before):
    assert refused(page1.get(f"/api/conversations?before={before}"), 400)["param"] == "before"


def test_the_openapi_document_is_served(api):
    assert api.get("/v1/openapi.json").json()["openapi"].startswith("3.")


FORMS = {
    "no boundary": ("multipart/form-data", b"x"),
    "a boundary that is no text": ("multipart/form-data; boundary=\xff", b"--x\r\n"),
    "another charset": ("application/x-www-form-urlencoded; charset=utf-16", b"a=1"),
    "3,000 fields": ("application/x-www-form-urlencoded", b"a=1&" * 3000),
}


@pytest.mark.parametrize(("content_type", "body"), FORMS.values(), ids=FORMS)
def test_a_form_that_cannot_be_read_is_a_json_400(u1, content_type, body):
    client = Client(raise_request_exception=False, enforce_csrf_checks=True)
    client.force_login(u1)
    client.cookies["csrftoken"] = "t" * 32
    refused(post(client, body, "/api/conversations", content_type), 400)


@pytest.mark.parametrize("trouble", [OperationalError, InterfaceError])
def test_a_database_that_is_not_there_is_a_json_503_that_says_when_to_come_again(page1, monkeypatch, trouble):
    def locked(*args):
        raise trouble("database is locked")

    monkeypatch.setattr("streaming.store.conversations.create", locked)
    response = post(page1, {}, "/api/conversations")
    assert refused(response, 503)["code"] == "storage"
    assert int(response["Retry-After"]) > 0
    assert "locked" not in response.content.decode()


def test_a_row_that_was_deleted_in_the_middle_of_a_request_is_a_json_404(page1, monkeypatch):
    def gone(*args):
        raise Message.DoesNotExist

    monkeypatch.setattr("streaming.store.conversations.create", gone)
    refused(post(page1, {}, "/api/conversations"), 404)
