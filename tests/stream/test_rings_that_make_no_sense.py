"""Messages of another version, or of nobody's, in the channel of the doorbells: the next ring is heard all the same."""

import asyncio

import pytest
from channels.layers import get_channel_layer
from ulid import ULID

from streaming.notify import Doorbell


@pytest.mark.parametrize("garbage", [{"type": "ring"}, {"type": "ring", "look": 5, "leaving": None}, {"look": [[]]}])
async def test_after_garbage_the_next_ring_is_heard(garbage):
    heard = asyncio.get_running_loop().create_future()
    here = f"web_{ULID()}"

    def rung(look, leaving):
        assert all(response_id not in leaving for response_id in look)
        heard.set_result(look)

    hearing = asyncio.create_task(Doorbell(here, rung).hear())
    caller = Doorbell("elsewhere", rung)
    calling = asyncio.create_task(caller.send())
    await get_channel_layer().send(f"web.{here}", garbage)
    caller.ring(here, "resp_1")
    async with asyncio.timeout(60):
        assert await heard == ["resp_1"]
    for task in (hearing, calling):
        task.cancel()
