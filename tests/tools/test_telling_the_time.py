"""The time is told by the clock that the tool was given, in zones from the list alone. Costs about 1 s."""

import json
from datetime import UTC, datetime

import pytest

from streaming.tools import current_time
from streaming.tools.tool import ToolFailed

NOON = datetime(2026, 3, 29, 12, 0, 0, 999_999, tzinfo=UTC)


async def told(**arguments):
    return json.loads(await current_time.tool(lambda: NOON).call(0, arguments))


async def test_without_a_zone_it_is_utc():
    assert await told() == {"time": "2026-03-29T12:00:00+00:00", "weekday": "Sunday", "time_zone": "UTC"}


@pytest.mark.parametrize(
    ("zone", "time", "weekday"),
    [
        ("Europe/Berlin", "2026-03-29T14:00:00+02:00", "Sunday"),
        ("Pacific/Kiritimati", "2026-03-30T02:00:00+14:00", "Monday"),
        ("Asia/Kathmandu", "2026-03-29T17:45:00+05:45", "Sunday"),
    ],
)
async def test_a_zone_has_its_own_day_and_its_summer(zone, time, weekday):
    assert await told(time_zone=zone) == {"time": time, "weekday": weekday, "time_zone": zone}


@pytest.mark.parametrize(
    "zone",
    [
        "../../etc/passwd", "/etc/passwd", "Europe/../Europe/Berlin", "Europe", "posix/Europe/Berlin", "right/UTC",
        "localtime", "Factory", "zone.tab", ".", "", "Europe/Berlin ", "europe/berlin", "Mars/Olympus", "UTC\0",
        "\ud800", "..",
    ],
)  # fmt: skip
async def test_what_is_not_on_the_list_is_no_zone_and_no_file(zone, monkeypatch):
    opened = []
    current_time._names()
    monkeypatch.setattr(current_time, "ZoneInfo", opened.append)
    with pytest.raises(ToolFailed, match="there is no IANA time zone"):
        await told(time_zone=zone)
    assert not opened


async def test_a_place_alone_is_answered_with_the_zones_that_have_its_name():
    with pytest.raises(ToolFailed, match=r"no IANA time zone 'berlin'; perhaps Europe/Berlin$"):
        await told(time_zone="berlin")
    with pytest.raises(ToolFailed, match=r"perhaps America/New_York$"):
        await told(time_zone="New York")


async def test_the_tool_on_offer_goes_by_the_clock_of_the_machine(called):
    before = datetime.now(UTC).replace(microsecond=0)
    at = datetime.fromisoformat(json.loads((await called("current_time", {})).output)["time"])
    assert before <= at <= datetime.now(UTC)
