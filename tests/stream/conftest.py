"""Owns what the tests of relay, journal, reader and ownership share: a real owner on a real database file."""

import asyncio
import json

import pytest
from django.contrib.auth.models import User

from streaming.engine.registry import close_engines, engine_for
from streaming.journal import Tail
from streaming.models import Engine, Response
from streaming.ownership import owner as owner_module
from streaming.ownership.ask import Ask
from streaming.ownership.owner import Owner
from streaming.ownership.start import check, start
from streaming.protocol.dialects import OPENAI_CHAT, encoder_for
from streaming.protocol.dialects.base import Head
from streaming.protocol.policy import parse_policy
from streaming.reader import Reader
from streaming.store import log, threads
from tests.stream.toolbox import toolbox  # noqa: F401  a fixture

DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _database(transactional_db):
    """Other threads write here, so a test's rows are really committed."""


@pytest.fixture
def user():
    return User.objects.create_user("u1")


@pytest.fixture
def row():
    return Engine.objects.create(name="s", kind="scripted", model="scripted", context_tokens=100_000, slots=4)


@pytest.fixture
def engine(row):
    return engine_for(row)


class Bench:
    """Starts responses and reads them, as views do, without HTTP."""

    def __init__(self, owner: Owner, user: User):
        self.owner = owner
        self.user = user

    async def ask(self, script: dict | str, policy: str = "background", **fields) -> tuple[Response, Tail]:
        question = script if isinstance(script, str) else json.dumps({"script": script})
        ask = Ask(
            user_id=self.user.pk,
            purpose=fields.pop("purpose", "api"),
            dialect=OPENAI_CHAT,
            stream=True,
            model="scripted",
            messages=[{"role": "user", "content": question}],
            policy=parse_policy(policy, 3600),
            **fields,
        )
        engine_row = await check(self.owner, ask)
        return await start(self.owner, ask, engine_row, asyncio.get_running_loop().time())

    def reader(self, response: Response, tail: Tail | None = None, **options) -> Reader:
        head = Head(response.id, response.model, int(response.created_at.timestamp()))
        options = {"heartbeat_s": 15, **options}
        return Reader(response.id, encoder_for(OPENAI_CHAT, head), tail=tail, journal=self.owner.journal, **options)

    async def ended(self, response: Response) -> Response:
        async with asyncio.timeout(DEADLINE_S):
            await self.owner.ended(response.id)
        return await self.row(response)

    async def row(self, response: Response) -> Response:
        return await threads.run(Response.objects.get, id=response.id)

    async def log(self, response: Response):
        return await threads.run(log.read, response.id)


@pytest.fixture
async def bench(user, row, settings):
    """A started owner; what it left behind is taken away at the end."""
    settings.UNATTENDED_TOKENS = 10**9
    owner_module.current.cache_clear()
    owner = owner_module.current()
    await owner.start()
    yield Bench(owner, user)
    if not owner.draining:
        await owner.drain(0)
    await close_engines()
    owner_module.current.cache_clear()


class Waker:
    """Listens to a tail without counting as its reader."""

    def __init__(self):
        self.woken = asyncio.Event()

    def wake(self) -> None:
        self.woken.set()


@pytest.fixture
async def successor(bench, user):
    """Another process, so to speak: an owner of its own beside the bench's."""
    owner = Owner()
    await owner.start()
    yield Bench(owner, user)
    await owner.drain(0)


async def until_stored(tail: Tail, reached) -> None:
    """Wait until something is true of what the tail holds."""
    waker = Waker()
    tail.attach(waker, counts=False)
    async with asyncio.timeout(DEADLINE_S):
        while not reached(tail):
            waker.woken.clear()
            await waker.woken.wait()
    tail.detach(waker)


def text_of(events) -> str:
    return "".join(event.payload["text"] for event in events if event.kind == "text")


def frames_text(data: bytes) -> str:
    """The joined content of chat chunks."""
    parts = []
    for line in data.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:]).get("choices", ()):
                parts.append(choice["delta"].get("content") or "")
    return "".join(parts)


def ids_of(data: bytes) -> list[int]:
    """The seqs of the frames that carry an id."""
    return [int(line.rsplit(".", 1)[1]) for line in data.decode().splitlines() if line.startswith("id: ")]
