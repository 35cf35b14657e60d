"""Where a conversation is scrolled to: after asking, after looking at another one, and with very many messages."""

import pytest
from playwright.sync_api import expect

LONG = [{"text": f"line {number}\n\n"} for number in range(60)]
#: How far the newest question is below the top of the log, in pixels.
BELOW_TOP = """
log => [...document.querySelectorAll('[data-testid=message-user]')].at(-1).getBoundingClientRect().top
  - log.getBoundingClientRect().top
"""


@pytest.fixture
def chat(open_chat, person):
    client = person("paula")
    for row in client.get("/api/conversations").json()["data"]:
        client.delete(f"/api/conversations/{row['id']}")
    return open_chat("paula")


def test_a_question_goes_to_the_top_and_a_place_is_kept_while_another_conversation_is_read(chat):
    chat.play(outputs=LONG)
    chat.ends()
    chat.play(outputs=[{"text": "short"}])
    chat.ends()
    expect(chat.page.get_by_test_id("jump")).to_have_count(0)
    chat.painted()
    assert 0 <= chat.log.evaluate(BELOW_TOP) < 40
    first = chat.path
    chat.log.hover()
    chat.page.mouse.wheel(0, -700)
    expect(chat.page.get_by_test_id("jump")).to_be_visible()
    chat.until("() => !document.querySelector('[data-testid=log]').matches(':active')")
    top = chat.log.evaluate("log => log.scrollTop")
    chat.page.get_by_test_id("new-chat").click()
    chat.play(outputs=LONG)
    chat.ends()
    assert chat.log.evaluate("log => log.scrollTop") > 0
    chat.page.locator(f"[href='{first}']").click()
    expect(chat.questions).to_have_count(2)
    expect(chat.page.get_by_test_id("jump")).to_be_visible()
    chat.painted()
    assert abs(chat.log.evaluate("log => log.scrollTop") - top) <= 2
    chat.play(outputs=[{"text": f"l{number}\n\n"} for number in range(80)], delay_s=0.01)
    chat.ends()
    chat.painted()
    assert chat.log.evaluate("log => log.scrollHeight - log.clientHeight - log.scrollTop") < 25


#: Run in the site: the conversation gets a hundred more questions and answers, each below the last.
MANY = """
from django.utils import timezone
from streaming.models import Conversation, Message, Response, ResponseEvent
TEXT = "A **bold** answer.\\n\\n```python\\nprint(1)\\n```\\n\\n| a | b |\\n|--|--|\\n| 1 | 2 |\\n" * 3
thread = Conversation.objects.get(id={id!r})
last = thread.messages.order_by("-id").first()
for number in range(100):
    asked = Message.objects.create(conversation=thread, parent=last, role="user", text=f"question {{number}}")
    last = Message.objects.create(conversation=thread, parent=asked, role="assistant")
    response = Response.objects.create(
        user=thread.user, conversation=thread, message=last, purpose="chat", dialect="openai-responses", model="m",
        state="ended", end_state="completed", end_reason="stop", finish_reason="stop",
        ended_at=timezone.now(), last_seq=2, output_text=TEXT,
    )
    log = {{"text": {{"text": TEXT}}, "ended": {{"end_state": "completed"}}}}
    for seq, (kind, payload) in enumerate(log.items(), 1):
        ResponseEvent.objects.create(response=response, seq=seq, epoch=1, kind=kind, payload=payload)
"""


def test_of_two_hundred_messages_only_those_in_sight_are_laid_out(site, chat):
    chat.play(outputs=[{"text": "seed"}])
    chat.ends()
    site.manage("shell", "-v0", "-c", MANY.format(id=chat.conversation_id))
    chat.reload()
    expect(chat.questions).to_have_count(101)
    expect(chat.newest).to_be_in_viewport()
    chat.painted()
    first = chat.answers.first.get_by_test_id("markdown")
    assert first.evaluate("node => node.checkVisibility({ contentVisibilityAuto: true })") is False
    assert chat.markdown.evaluate("node => node.checkVisibility({ contentVisibilityAuto: true })") is True
