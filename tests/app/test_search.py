"""Searching finds titles, questions and answers of the user, and nobody else's."""

import pytest

from streaming.models import Conversation, Message

pytestmark = pytest.mark.django_db


def found(page, text) -> list[dict]:
    return page.get("/api/search", {"q": text}).json()["data"]


def test_titles_questions_and_answers_are_found_with_what_stands_around(page1, conversation1):
    (title,) = found(page1, "LIGHT")
    assert (title["conversation"], title["message"]) == (conversation1.id, None)
    assert [title["before"], title["match"], title["after"]] == ["", "Light", "houses"]
    (question,) = found(page1, "then?")
    assert question["message"] == Message.objects.get(text="And then?").id
    (answer,) = found(page1, "cause o")
    assert answer["message"] == conversation1.ended.message_id
    assert [answer["before"], answer["match"], answer["after"]] == ["Be", "cause o", "f"]


def test_a_long_message_is_cut_around_the_match(page1, conversation1):
    Message.objects.create(conversation=conversation1, role="user", text="a " * 500 + "needle\n" + "b " * 500)
    (hit,) = found(page1, "needle")
    assert hit["match"] == "needle"
    assert len(hit["before"]) == len(hit["after"]) == 61
    assert "\n" not in hit["after"]


def test_nobody_finds_what_is_anothers(page2, conversation1):
    for text in ("Light", "then", "cause"):
        assert found(page2, text) == []


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "a\0b"])
def test_a_question_that_is_none_is_refused(page1, text):
    assert page1.get("/api/search", {"q": text}).status_code == 400


def test_percent_and_underscore_are_letters(page1, conversation1):
    assert found(page1, "%") == found(page1, "_") == []


def test_many_hits_take_two_queries_and_end(page1, u1, django_assert_max_num_queries):
    for n in range(50):
        conversation = Conversation.objects.create(user=u1, title=f"needle {n}")
        Message.objects.create(conversation=conversation, role="user", text="needle")
    with django_assert_max_num_queries(4):  # session, user, titles, messages
        assert len(found(page1, "needle")) == 30


@pytest.mark.parametrize(
    ("said", "sought"),
    [
        ("ÄRGER", "ärger"),
        ("ёлка", "ЁЛКА"),
        ("Σοφία", "σΟΦΊΑ"),
        ("100 %_\\ sure", "%_\\ SURE"),
        ("ﬁne ☕🙂", "FINE"),
        ("naïve", "NAIVE"),
    ],
)
def test_letters_of_any_script_are_found_in_either_case_on_either_database(page1, conversation1, said, sought):
    Message.objects.create(conversation=conversation1, role="user", text=said)
    hits = found(page1, sought)
    if sought in {"FINE", "NAIVE"}:  # a ligature and an accent are other letters
        assert hits == []
    else:
        assert [hit["match"] for hit in hits] == [said[-len(sought) :]]
