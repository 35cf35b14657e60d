"""Owns how a message gets into and out of the channel layer, and how that fails. What a message means is not here."""

import asyncio
from typing import Any

from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

SEND_S = 2.0
#: How the layer fails while Valkey is away.
UNHEARD = (ChannelFull, RedisError, OSError, TimeoutError)


def layer() -> Any:
    """The channel layer of the settings."""
    return get_channel_layer()


async def send(channel: str, message: dict[str, Any]) -> None:
    """To one channel. Raises one of UNHEARD."""
    async with asyncio.timeout(SEND_S):
        await layer().send(channel, message)


async def send_to_group(group: str, message: dict[str, Any]) -> None:
    """To every channel of a group. Raises one of UNHEARD; a full channel is passed over in silence."""
    async with asyncio.timeout(SEND_S):
        await layer().group_send(group, message)


async def join(group: str, channel: str) -> None:
    """From now on the channel gets what is sent to the group. Raises one of UNHEARD."""
    async with asyncio.timeout(SEND_S):
        await layer().group_add(group, channel)


async def leave(group: str, channel: str) -> None:
    """The channel gets no more of the group. Raises one of UNHEARD."""
    async with asyncio.timeout(SEND_S):
        await layer().group_discard(group, channel)
