"""Owns the tool that looks for a text in the user's own conversations. Whose they are is in the query of the store."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from streaming.store import search, threads

from .tool import Tool, ToolFailed, parameters

QUERY_CHARS = 200
HITS_MAX = 8
#: One search at a time in a process: it may be long, and readers and relays read on the same few threads.
_turn = asyncio.Lock()


async def _call(user_id: int, arguments: Mapping[str, Any]) -> str:
    query = arguments["query"].strip()
    if not query:
        # Every text holds it.
        raise ToolFailed("query: blanks are no word to search for")
    hits = await _hits(user_id, query)
    found = [{"date": f"{hit.at:%Y-%m-%d}", "conversation": hit.title, "text": hit.passage} for hit in hits]
    return json.dumps({"found": found}, ensure_ascii=False)


async def _hits(user_id: int, query: str) -> list[search.Hit]:
    """A search whose caller goes on or is cancelled has its turn until the database is done with it.

    The conversation that asks is left out: its words stand in the prompt, and the question would find itself.
    """
    await _turn.acquire()
    looking = asyncio.ensure_future(threads.run(search.search, user_id, query, HITS_MAX, resting=True))
    looking.add_done_callback(_is_over)
    return await asyncio.shield(looking)


def _is_over(looked: asyncio.Future[list[search.Hit]]) -> None:
    """Who asked may be gone: then nobody is told of an error, and none is to be logged with the words it quotes."""
    _turn.release()
    if not looked.cancelled():
        looked.exception()


TOOL = Tool(
    "search_conversations",
    "Searches the user's earlier conversations in this chat for a text and returns short passages, newest first. "
    "It finds letters, not meanings: search for one telling word.",
    parameters(
        ("query",),
        query={
            "type": "string",
            "description": "a word, or words exactly as they were written",
            "minLength": 1,
            "maxLength": QUERY_CHARS,
        },
    ),
    _call,
)
