"""What people think of answers: stored for their own alone, shown to the page again, and found by staff. Costs 1 s."""

import json

import pytest

from streaming.models import Response

pytestmark = pytest.mark.django_db(transaction=True)


def mark(client, response_id, body):
    return client.patch(f"/api/responses/{response_id}", data=json.dumps(body), content_type="application/json")


def marked(response) -> str | None:
    return Response.objects.get(id=response.id).mark


def test_a_mark_is_kept_shown_changed_and_taken_back(page1, conversation1):
    for value in ("good", "bad", None):
        assert mark(page1, conversation1.ended.id, {"mark": value}).status_code == 204
        messages = page1.get(f"/api/conversations/{conversation1.id}").json()["messages"]
        assert [m["response"]["mark"] for m in messages if m["response"]] == [value, None]


def test_nobody_marks_what_is_not_theirs_or_no_answer_to_a_person(page1, page2, u1, conversation1):
    api = Response.objects.create(user=u1, purpose="api", dialect="openai_chat", model="m", policy="abort")
    unknown = mark(page2, "resp_" + "0" * 26, {"mark": "bad"})
    assert unknown.status_code == 404
    for client, response in ((page2, conversation1.ended), (page1, api)):
        refused = mark(client, response.id, {"mark": "bad"})
        assert (refused.status_code, refused.content) == (404, unknown.content)
        assert marked(response) is None


@pytest.mark.parametrize("body", [{}, {"mark": "fine"}, {"mark": 1}, {"mark": "good", "text": "x"}, []])
def test_what_is_no_mark_is_refused_by_name(page1, conversation1, body):
    refused = mark(page1, conversation1.ended.id, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_request"
    assert marked(conversation1.ended) is None


def test_staff_find_what_was_marked(admin_client, page1, conversation1):
    mark(page1, conversation1.ended.id, {"mark": "bad"})
    for value, shown in (("bad", True), ("good", False)):
        html = admin_client.get(f"/admin/streaming/response/?mark={value}").content.decode()
        assert (conversation1.ended.id in html) is shown
        assert conversation1.live.id not in html
