"""Owns what the tests of the tools share: calls as the protocol makes them of what a model wrote."""

import pytest

from streaming import tools
from streaming.protocol.tool_calls import CompleteCall


@pytest.fixture
def called():
    """Runs one call for a user, by default of all tools that there are."""

    async def run(name, arguments, user_id=0, names=None):
        return await tools.run(
            user_id, tools.available() if names is None else names, CompleteCall("c1", name, arguments)
        )

    return run
