"""The OpenAPI document: whole, its examples true, and whatever schemathesis makes of it answered as it says."""

import json

import httpx
import pytest
import schemathesis
from anthropic.types import Message
from hypothesis import HealthCheck, given, settings
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from streaming.api.openapi_examples import BODIES

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="session")
def document(place):
    return httpx.get(f"{place.url}/openapi.json", timeout=60).json()


@pytest.fixture(scope="session")
def cases_of(document, place):
    """Requests of one operation. Anything goes but the model, for most requests would end at an unknown one."""
    text = json.dumps(document)
    for name in ("ChatRequest", "ResponsesRequest", "AnthropicRequest", "CountRequest"):
        assert name in document["components"]["schemas"]
        model = document["components"]["schemas"][name]["properties"]["model"]
        text = text.replace(json.dumps(model), json.dumps({"const": "scripted"}))
    made = schemathesis.openapi.from_dict(json.loads(text))
    made.config.update(base_url=place.site.url)
    return lambda method, path: made[path][method].as_strategy()


def operations(document):
    return [(method, path, op) for path, ops in document["paths"].items() for method, op in ops.items()]


def test_every_operation_and_every_error_has_an_example(document):
    assert document["openapi"].startswith("3.1")
    assert {(method, path) for method, path, _ in operations(document)} == BODIES.keys()
    for method, path, operation in operations(document):
        assert operation["description"], (method, path)
        for body in [operation.get("requestBody"), *operation["responses"].values()]:
            for content in (body or {}).get("content", {}).values():
                assert content["example"], (method, path)
        assert {"400", "401", "500"} <= operation["responses"].keys()


def test_the_examples_of_requests_are_answered_as_the_document_says(document, place):
    types = {"/v1/chat/completions": ChatCompletion, "/v1/responses": Response, "/v1/messages": Message}
    with place.site.api(place.key) as api:
        api.headers["anthropic-version"] = "2023-06-01"
        for method, path, operation in operations(document):
            if "requestBody" not in operation:
                continue
            [(kind, content)] = operation["requestBody"]["content"].items()
            example = content["example"]
            if "input_file_id" in example:
                example |= {"input_file_id": api.get("/v1/files").json()["first_id"]}  # the example's file, just sent
            answer = api.request(method, path, **sent(kind, example))
            assert answer.status_code == 200, (path, answer.text)
            said = operation["responses"]["200"]["content"]["application/json"]["example"]
            assert answer.json().keys() >= said.keys(), path
            if path in types:
                types[path].model_validate(said, strict=True)


def sent(kind, example):
    if kind == "application/json":
        return {"json": example}
    fields = {name: value for name, value in example.items() if name != "file"}
    return {"data": fields, "files": {"file": ("batch.jsonl", example["file"])}}


@pytest.mark.parametrize(("method", "path"), list(BODIES))
def test_no_request_gets_an_answer_that_the_document_does_not_know(cases_of, place, method, path):
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(cases_of(method, path))
    def answered(case):
        case.call_and_validate(headers={"Authorization": f"Bearer {place.key}"}, checks=CHECKS, timeout=60)

    answered()


def test_the_process_is_well_afterwards(place):
    assert place.site.web.popen.poll() is None
