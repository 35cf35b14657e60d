"""Owns that nothing of a socket stays in the process once it is over, however that comes. Says no words."""

from contextlib import ExitStack
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer


class Consumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """What a socket takes in the process is put on ``self._closing``."""

    # No channel of its own: the process hears for all its pages (streaming.notify.Changes).
    channel_layer_alias = "none"

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Until the socket is gone, or its application broke or was cut off: then nobody calls ``disconnect``."""
        with ExitStack() as self._closing:
            await super().__call__(scope, receive, send)
