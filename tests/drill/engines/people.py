"""Owns a person at the page in the engines' drill: a session, a conversation, messages in it. Judges nothing."""

from collections.abc import Mapping
from contextlib import closing

import aiohttp

from tests.drill.plan import Question
from tests.e2e.site import Site


def page_session(site: Site) -> Mapping[str, str]:
    """Headers of somebody who is logged in."""
    with closing(site.page("ann")) as client:
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        return {"Cookie": cookies, "X-CSRFToken": client.headers["X-CSRFToken"], "Authorization": ""}


class PagePerson:
    """Somebody at the page, in one conversation at a time."""

    def __init__(self, web: aiohttp.ClientSession, site: Site, headers: Mapping[str, str]):
        self._web = web
        self._site = site
        self._headers = headers
        self._conversation = ""

    async def ask_anew(self, question: Question) -> None:
        """Ask in a new conversation, and read to the end."""
        async with self._web.post(f"{self._site.url}/api/conversations", json={}, headers=self._headers) as answer:
            self._conversation = (await answer.json())["id"]
        await self.ask(question)

    async def ask(self, question: Question) -> None:
        """Ask in the same conversation, and read to the end."""
        body = {"text": question.text, "model": question.model, **question.fields}
        headers = {**self._headers, "Idempotency-Key": question.key}
        url = f"{self._site.url}/api/conversations/{self._conversation}/messages"
        async with self._web.post(url, json=body, headers=headers) as answer:
            answer.raise_for_status()
            await answer.read()
