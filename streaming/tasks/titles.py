"""Owns the tasks that give conversations a title: a model's, asked through our own API, or the question's words."""

import logging

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from streaming.models import Response
from streaming.notify import TITLE, Change, tell
from streaming.store import erasure, titles
from streaming.store.titles import Exchange

from . import own_api
from .ticks import tick
from .title_text import title_of

logger = logging.getLogger(__name__)

#: A tick asks for no more: what is left has its turn at the next.
AT_ONCE = 10
SHOWN_CHARS = 600
MAX_TOKENS = 24
ORDER = (
    "Write a title for the conversation below: its topic, in two to six words, in its language."
    " Reply with the title only."
)


@tick("streaming.find_untitled", every_s=5)
def find_untitled() -> int:
    """One tick: have a title made for conversations whose first answer has ended. Returns for how many."""
    if not settings.TITLES:
        return 0
    claimed = titles.claim(timezone.now(), AT_ONCE)
    for conversation_id in claimed:
        make_title.delay(conversation_id)
    return len(claimed)


@shared_task(name="streaming.make_title", expires=3600)  # far more than clocks of workers differ
def make_title(conversation_id: str) -> bool:
    """Ask a model for a title; returns whether the conversation has it now. Of what it said nothing else is kept."""
    exchange = titles.exchange(conversation_id)
    if exchange is None:
        return False
    try:
        answer = own_api.ask(exchange.user_id, Response.Purpose.TITLE, _question(exchange))
    except own_api.Refused as refused:
        logger.info("no title for %s: %s", conversation_id, refused)
        if refused.is_final:
            titles.give_up(conversation_id)
        return False
    erasure.erase(Response.objects.filter(id=answer.response_id))
    # One that was cut off is none.
    title = title_of(answer.text, exchange.question, exchange.answer) if answer.finish_reason == "stop" else None
    if title is None:
        titles.give_up(conversation_id)
        return False
    is_set = titles.set_title(conversation_id, title)
    if is_set:
        tell(exchange.user_id, Change(TITLE, conversation_id))
    return is_set


def _question(exchange: Exchange) -> dict[str, object]:
    said = f"Question: {exchange.question[:SHOWN_CHARS]}\n\nAnswer: {exchange.answer[:SHOWN_CHARS]}"
    return {
        "model": exchange.model,
        "messages": [{"role": "system", "content": ORDER}, {"role": "user", "content": said}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "reasoning_effort": "none",
        "store": False,
    }
