"""Owns the tool that looks for a text in the user's own conversations. Whose they are is in the query of the store."""

import json
from collections.abc import Mapping
from typing import Any

from streaming.store import search, threads

from .tool import Tool, ToolFailed, parameters

QUERY_CHARS = 200
HITS_MAX = 8


async def _call(user_id: int, arguments: Mapping[str, Any]) -> str:
    query = arguments["query"].strip()
    if not query:
        # Every text holds it.
        raise ToolFailed("query: blanks are no word to search for")
    hits = await threads.run(search.search, user_id, query, HITS_MAX)
    found = [{"date": f"{hit.at:%Y-%m-%d}", "conversation": hit.title, "text": hit.passage} for hit in hits]
    return json.dumps({"found": found}, ensure_ascii=False)


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
