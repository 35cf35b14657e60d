"""Owns the site's settings with a channel layer that loses a part of the doorbells; for tests only."""

import os
import random
from typing import Any

from channels_redis.core import RedisChannelLayer

from chatsite.settings import *  # noqa: F403
from chatsite.settings import CHANNEL_LAYERS


class LossyLayer(RedisChannelLayer):
    """Loses DOORBELLS_LOST of all messages, as a full or a restarted Valkey would."""

    _lost = float(os.environ["DOORBELLS_LOST"])
    _random = random.Random(6)

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        if self._random.random() >= self._lost:
            await super().send(channel, message)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        if self._random.random() >= self._lost:
            await super().group_send(group, message)


CHANNEL_LAYERS["default"]["BACKEND"] = "tests.cluster.lossy_settings.LossyLayer"
