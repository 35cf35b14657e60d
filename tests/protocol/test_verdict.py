"""Owns the laws of a client's verdict: the cases of the page as well, and what we send in each dialect."""

import json
from pathlib import Path

import pytest

from examples.verdict import FINISHED, TRUNCATED, Verdict, verdict
from streaming.protocol.dialects import ENCODERS, encoder_for
from tests.protocol.sample_events import ENDS, HEAD, encoded, log, parsed

TABLE = json.loads((Path(__file__).parent.parent / "cases" / "verdict.json").read_text())["cases"]


@pytest.mark.parametrize("case", TABLE, ids=[case["name"] for case in TABLE])
def test_the_verdict_of_every_case(case):
    assert verdict(case["data"])._asdict() == case["verdict"]


def data_of(dialect, end):
    frames = parsed(encoded(dialect, log(["a", "b"], end)))
    return [data if isinstance(data, str) else json.dumps(data) for _, data, _ in frames]


@pytest.mark.parametrize("dialect", ENCODERS)
@pytest.mark.parametrize("end", [end for end in ENDS if end != "tool_calls"])
def test_every_dialect_leads_to_the_verdict_that_the_end_state_asks_for(dialect, end):
    state, reason = ENDS[end].end_state, ENDS[end].end_reason
    whole = {
        "completed": Verdict(FINISHED, reason, parse_json=reason in ("stop", "tool_calls")),
        "cancelled": Verdict(TRUNCATED),
        "abandoned": Verdict(TRUNCATED),
        "truncated": Verdict(TRUNCATED),
    }.get(state, Verdict("errored"))
    assert verdict(data_of(dialect, end)) == whole


@pytest.mark.parametrize("dialect", ENCODERS)
@pytest.mark.parametrize("end", [end for end in ENDS if end != "tool_calls"])
def test_until_the_end_arrives_every_cut_is_a_lost_connection(dialect, end):
    data = data_of(dialect, end)
    verdicts = [verdict(data[:arrived]) for arrived in range(len(data) + 1)]
    first_other = next(index for index, one in enumerate(verdicts) if one != Verdict(TRUNCATED, resume=True))
    assert len(set(verdicts[first_other:])) == 1
    detached = encoder_for(dialect, HEAD).detached("resp_X:1.2").decode().partition("data: ")[2].strip()
    assert verdict([*data[: first_other - 1], detached]) == Verdict(TRUNCATED, resume=True)
