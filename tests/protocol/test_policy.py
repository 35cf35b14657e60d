"""Owns the laws of disconnect policies: what is written reads back, what cannot be read is named."""

import pytest

from streaming.protocol.policy import Policy, PolicyError, parse_policy


@pytest.mark.parametrize(
    ("text", "patience_s", "survives"),
    [("abort", 0, False), ("background", None, True), ("grace=30", 30, True), ("grace=0.5", 0.5, True)],
)
def test_a_policy_reads_back_as_written(text, patience_s, survives):
    policy = parse_policy(text, max_grace_s=60)
    assert (policy.patience_s, policy.survives_owner) == (patience_s, survives)
    assert str(policy) == text
    assert parse_policy(str(policy), 60) == policy == Policy(policy.kind, policy.patience_s)


@pytest.mark.parametrize(
    "text", ["", "Abort", "grace", "grace=", "grace=0", "grace=61", "grace=-1", "grace=1e1", "grace=٣", "grace=."]
)
def test_anything_else_is_refused_with_what_was_seen(text):
    with pytest.raises(PolicyError, match="at most 60"):
        parse_policy(text, max_grace_s=60)


@pytest.mark.parametrize("seconds", ["0.001", "0.0049", "0.00051", "12.3456789", "59.9999", "1.", ".5", "007"])
def test_whatever_grace_was_taken_reads_back_from_its_row(seconds):
    policy = parse_policy(f"grace={seconds}", 60)
    assert parse_policy(str(policy), 60) == policy
    assert len(str(policy)) <= 16


def test_a_grace_below_a_millisecond_is_refused():
    with pytest.raises(PolicyError):
        parse_policy("grace=0.00001", 60)
