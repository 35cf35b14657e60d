"""Owns the law of merging: text, ids and counts stay, only adjacent deltas of one kind join."""

from itertools import pairwise

from hypothesis import given

from streaming.protocol.events import CONTINUED, DELTAS, REASONING, STARTED, TEXT, Draft, merge, size_bytes
from tests.protocol.tape import inputs


def draft(tape):
    kind, text = tape.of([TEXT, TEXT, REASONING, STARTED, CONTINUED]), tape.text("abc", 3)
    ids = tuple(tape.many(lambda: tape.below(10), 3))
    return Draft(kind, {"text": text} if kind in DELTAS else {}, ids, len(ids))


@given(inputs(64, lambda tape: tape.many(lambda: draft(tape), 12)))
def test_merging_loses_nothing_and_leaves_no_two_deltas_of_one_kind_side_by_side(drafts):
    merged = merge(drafts)
    assert [i for d in merged for i in d.token_ids] == [i for d in drafts for i in d.token_ids]
    assert sum(d.token_count for d in merged) == sum(d.token_count for d in drafts)
    for kind in DELTAS:
        assert "".join(d.payload["text"] for d in merged if d.kind == kind) == "".join(
            d.payload["text"] for d in drafts if d.kind == kind
        )
    assert [d.kind for d in merged if d.kind not in DELTAS] == [d.kind for d in drafts if d.kind not in DELTAS]
    assert not any(a.kind == b.kind and a.kind in DELTAS for a, b in pairwise(merged))


def test_an_event_is_as_large_as_its_texts_and_a_little_more():
    small = size_bytes({})
    assert size_bytes({"text": "abc"}) == small + 3
    assert size_bytes({"index": 0, "arguments": "x" * 50}) == small + 50
    assert size_bytes({"call_id": "c", "output": "x" * 50, "error": None}) == small + 51
    assert size_bytes({"index": 0, "call_id": "c" * 9, "name": "n" * 8, "arguments": ""}) == small + 17
    assert size_bytes({"text": "ab☕"}) >= small + len("ab☕".encode())
    assert size_bytes({"text": None, "arguments": None}) == small > 0
