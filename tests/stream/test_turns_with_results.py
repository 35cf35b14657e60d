"""What a later answer reads of tools that were run for earlier ones: calls with their results. Costs about 3 s."""

from datetime import timedelta

import pytest
from django.utils import timezone

from streaming.models import Conversation, Message, Response, ResponseEvent
from streaming.protocol.events import ENDED, REASONING, STARTED, TEXT, TOOL_CALL, TOOL_RESULT, Event
from streaming.store import erasure, expiry, history, log, shares

RAN = {"options": {"tools": True, "run_tools": ["calculate"]}}


def call(index: int, arguments: str = '{"expression": "6*7"}') -> list[tuple[str, dict]]:
    """A call as a log has it, in pieces."""
    part = {"index": index, "call_id": f"c{index}", "complete": False}
    pieces = [{**part, "name": "calculate", "arguments": arguments[:5]}, {**part, "arguments": arguments[5:]}]
    return [(TOOL_CALL, payload) for payload in (*pieces, {**part, "arguments": "", "complete": True})]


def result(index: int, output: str = "42", error: str | None = None) -> tuple[str, dict]:
    return TOOL_RESULT, {"call_id": f"c{index}", "output": output, "error": error}


def called(*indexes: int) -> list[dict]:
    function = {"name": "calculate", "arguments": '{"expression": "6*7"}'}
    return [{"id": f"c{index}", "type": "function", "function": function} for index in indexes]


class Thread:
    """A conversation that grows by questions and ended answers with their logs."""

    def __init__(self, user):
        self.user = user
        self.conversation = Conversation.objects.create(user=user, system_prompt="Be kind.")
        self.leaf: Message | None = None

    def says(self, role: str, text: str = "") -> Message:
        self.leaf = Message.objects.create(conversation=self.conversation, role=role, parent=self.leaf, text=text)
        return self.leaf

    def answers(self, *said: tuple[str, dict], request: dict | None = None, end_state: str = "completed") -> Response:
        text = "".join(payload["text"] for kind, payload in said if kind == TEXT)
        response = Response.objects.create(
            user=self.user, conversation=self.conversation, message=self.says("assistant"), purpose="chat",
            dialect="openai_responses", model="m", policy="abort", state="ended", end_state=end_state,
            output_text=text, request=RAN if request is None else request, ended_at=timezone.now(),
        )  # fmt: skip
        events = [(STARTED, {}), *said, (ENDED, {"end_state": end_state})]
        log.insert((response.id, Event(seq, 1, *event)) for seq, event in enumerate(events, 1))
        Response.objects.filter(id=response.id).update(last_seq=len(events))
        return response

    def turns(self, with_results: bool = True) -> list[dict]:
        return history.thread(self.conversation.id, self.leaf.id, with_results)[1:]

    def expires(self) -> None:
        while expiry.expire_logs(timezone.now() + timedelta(days=1)):
            pass
        assert not ResponseEvent.objects.exists()


@pytest.fixture
def thread(user):
    return Thread(user)


@pytest.fixture
def two_rounds(thread):
    thread.says("user", "6*7?")
    thread.answers(
        (REASONING, {"text": "Hm."}), (TEXT, {"text": "Let me "}), (TEXT, {"text": "see. "}), *call(0), *call(1),
        result(0), result(1, "no", "failed"), *call(2), result(2), (TEXT, {"text": "It is 42."}),
    )  # fmt: skip
    thread.says("user", "And more?")
    return thread


TOLD = [
    {"role": "user", "content": "6*7?"},
    {"role": "assistant", "content": "Let me see. ", "tool_calls": called(0, 1)},
    {"role": "tool", "tool_call_id": "c0", "content": "42"},
    {"role": "tool", "tool_call_id": "c1", "content": "no"},
    {"role": "assistant", "content": "", "tool_calls": called(2)},
    {"role": "tool", "tool_call_id": "c2", "content": "42"},
    {"role": "assistant", "content": "It is 42."},
    {"role": "user", "content": "And more?"},
]


def test_a_follow_up_reads_each_round_with_its_calls_and_results(two_rounds):
    assert two_rounds.turns() == TOLD


def test_a_log_that_expired_tells_the_same(two_rounds):
    two_rounds.expires()
    assert two_rounds.turns() == TOLD


def test_who_may_not_call_reads_the_text_alone(two_rounds):
    assert two_rounds.turns(with_results=False) == [
        {"role": "user", "content": "6*7?"},
        {"role": "assistant", "content": "Let me see. It is 42."},
        {"role": "user", "content": "And more?"},
    ]


def test_a_shared_link_shows_the_text_alone(two_rounds, user):
    _, token = shares.create(user, two_rounds.conversation.id, two_rounds.leaf.id)
    shown = shares.read(token)
    assert shown.turns == two_rounds.turns(with_results=False)


def test_a_call_that_a_stop_left_without_a_result_is_left_out(thread):
    thread.says("user", "?")
    thread.answers((TEXT, {"text": "See: "}), *call(0), *call(1), result(0), end_state="cancelled")
    assert thread.turns()[1:] == [
        {"role": "assistant", "content": "See: ", "tool_calls": called(0)},
        {"role": "tool", "tool_call_id": "c0", "content": "42"},
    ]


def test_an_answer_that_was_stopped_before_its_first_result_is_its_text(thread):
    thread.says("user", "?")
    thread.answers((TEXT, {"text": "See: "}), *call(0), end_state="cancelled")
    assert thread.turns()[1:] == [{"role": "assistant", "content": "See: "}]


def test_calls_that_were_only_shown_are_not_told(thread):
    thread.says("user", "?")
    thread.answers((TEXT, {"text": "See: "}), *call(0), request={"options": {"tools": True}})
    assert thread.turns()[1:] == [{"role": "assistant", "content": "See: "}]


def test_what_was_written_on_from_an_answer_is_one_turn_with_its_last(thread):
    thread.says("user", "?")
    thread.answers(*call(0), result(0), (TEXT, {"text": "It is"}), end_state="truncated")
    thread.answers((TEXT, {"text": " 42."}), request={})
    assert thread.turns()[2:] == [
        {"role": "tool", "tool_call_id": "c0", "content": "42"},
        {"role": "assistant", "content": "It is 42."},
    ]


def test_another_branch_has_no_part_in_it(thread):
    question = thread.says("user", "?")
    thread.answers(*call(0), result(0, "other"), (TEXT, {"text": "A"}))
    thread.leaf = question
    thread.answers(*call(0), result(0), (TEXT, {"text": "B"}))
    assert "other" not in str(thread.turns())
    assert thread.turns()[-1] == {"role": "assistant", "content": "B"}


def test_an_answer_that_was_erased_tells_nothing(two_rounds):
    erasure.erase(Response.objects.all())
    assert two_rounds.turns() == [{"role": "user", "content": text} for text in ("6*7?", "And more?")]


@pytest.mark.parametrize("answers", [1, 40])
def test_it_takes_three_queries_however_long_the_thread(thread, answers, django_assert_num_queries):
    for _ in range(answers):
        thread.says("user", "?")
        thread.answers(*call(0), result(0), (TEXT, {"text": "A"}))
    with django_assert_num_queries(3):
        assert len(thread.turns()) == 4 * answers
    with django_assert_num_queries(2):
        assert len(thread.turns(with_results=False)) == 2 * answers
