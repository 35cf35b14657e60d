"""Owns the tool that tells the time, in any IANA zone. The clock is given to it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from .arguments import shown
from .tool import Tool, ToolFailed, parameters

ZONE_CHARS = 64
SUGGESTED_MAX = 5
#: Where this machine is set up is nobody's business; the other stands for a machine that is not.
NO_PLACES = {"localtime", "Factory"}


def tool(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Tool:
    """The tool, by this clock."""

    async def call(_user_id: int, arguments: Mapping[str, Any]) -> str:
        name = arguments.get("time_zone", "UTC")
        # Zones are files: they are not looked at on the event loop.
        zone = await asyncio.to_thread(_zone, name)
        return _told(now().astimezone(zone), name)

    return Tool(
        "current_time",
        "Tells the current date, weekday and time in a time zone; without one in UTC.",
        parameters(
            time_zone={
                "type": "string",
                "description": "an IANA name, for instance Europe/Berlin",
                "minLength": 1,
                "maxLength": ZONE_CHARS,
            }
        ),
        call,
    )


def _told(at: datetime, name: str) -> str:
    return json.dumps({"time": at.isoformat(timespec="seconds"), "weekday": f"{at:%A}", "time_zone": name})


def _zone(name: str) -> ZoneInfo:
    # Only names from the list: what else is in those folders is no zone, and a path could lead out of them.
    if name not in _names():
        raise ToolFailed(f"time_zone: there is no IANA time zone {shown(name)}{_suggested(name)}")
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - NO_PLACES


def _suggested(name: str) -> str:
    place = name.rpartition("/")[2].replace(" ", "_").lower()
    alike = sorted(known for known in _names() if len(place) > 2 and place in known.lower())
    return f"; perhaps {' or '.join(alike[:SUGGESTED_MAX])}" if alike else ""
