"""The judge of hops against hops that are simulated: whatever the network's delays, a hop that holds back is found."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from streaming.hops import BROKEN, BUFFERED, COMPRESSED, CUT, Arrival, Hop, Silence, Trickle, judge

INTERVAL_S = 0.2
#: Clocks have nothing in common, and the way may be long.
OFFSETS = st.floats(-1e6, 1e6)
#: What is not held back comes a little late, in order.
JITTER = st.lists(st.floats(0, INTERVAL_S * 0.45), min_size=20, max_size=20)


def sent(jitter, offset_s: float = 0.0) -> Trickle:
    arrivals = [Arrival(n, n * INTERVAL_S, offset_s + n * INTERVAL_S + late) for n, late in enumerate(jitter)]
    return Trickle(INTERVAL_S, len(arrivals), arrivals)


def held(trickle: Trickle, lump: int) -> Trickle:
    """Through a hop that lets events go in lumps, each with the last of it."""
    arrivals = list(trickle.arrivals)
    last = len(arrivals) - 1
    goes = [arrivals[min(last, n // lump * lump + lump - 1)].read_s for n in range(len(arrivals))]
    return replace(trickle, arrivals=[replace(a, read_s=goes[n]) for n, a in enumerate(arrivals)])


def kinds(verdict) -> list[tuple[str, bool]]:
    return [(finding.kind, finding.is_here) for finding in verdict.findings]


@given(JITTER, OFFSETS)
def test_delays_below_half_an_interval_are_no_buffer_wherever_the_clocks_stand(jitter, offset_s):
    (verdict,) = judge([Hop("u", sent(jitter, offset_s))])
    assert verdict.streams
    assert verdict.lag_max_s <= INTERVAL_S * 0.45 + 1e-6


@given(st.integers(2, 40), OFFSETS, st.lists(st.floats(0, INTERVAL_S * 0.1), min_size=20, max_size=20))
def test_every_hop_that_lets_go_in_lumps_is_found_with_its_lump_and_for_how_long(lump, offset_s, jitter):
    (verdict,) = judge([Hop("u", held(sent(jitter, offset_s), lump))])
    assert kinds(verdict) == [(BUFFERED, True)]
    (finding,) = verdict.findings
    whole = min(lump, 20)
    assert finding.events == whole
    assert abs(finding.seconds - (whole - 1) * INTERVAL_S) <= INTERVAL_S * 0.25


@given(JITTER, st.floats(0.3, 30))
def test_one_pause_of_the_network_is_no_buffer(jitter, pause_s):
    trickle = sent(jitter)
    stop_s = trickle.arrivals[10].read_s + min(pause_s, 5 * INTERVAL_S)
    paused = [replace(a, read_s=max(a.read_s, stop_s)) if a.number >= 10 else a for a in trickle.arrivals]
    (verdict,) = judge([Hop("u", replace(trickle, arrivals=paused))])
    assert verdict.streams


@given(st.lists(st.sampled_from(["clean", "holds", "packs", "cuts"]), min_size=1, max_size=5))
def test_what_a_hop_does_is_found_there_and_only_inherited_behind_it(chain):
    trickle, silence, hops = sent([0.001] * 20), Silence(60, 60), []
    for does in chain:
        if does == "holds":
            trickle = held(trickle, 20)
        elif does == "packs":
            trickle = replace(trickle, encoding="gzip")
        elif does == "cuts":
            silence = Silence(60, 5, "closed")
        hops.append(Hop(does, trickle, silence))
    expected = {"holds": BUFFERED, "packs": COMPRESSED, "cuts": CUT}
    for at, verdict in enumerate(judge(hops)):
        here = {kind for kind, is_here in kinds(verdict) if is_here}
        everything = {kind for kind, _ in kinds(verdict)}
        assert here == ({expected[chain[at]]} if chain[at] != "clean" and chain[at] not in chain[:at] else set())
        assert everything == {expected[does] for does in chain[: at + 1] if does != "clean"}


@given(st.floats(1, 1000), st.floats(1, 1000))
def test_a_hop_that_cuts_sooner_than_the_one_before_it_is_named(first_s, second_s):
    assume(second_s < first_s - max(1.0, first_s * 0.25) - 0.01)
    trickle = sent([0.0] * 20)
    hops = [
        Hop("one", trickle, Silence(2000, first_s, "closed")),
        Hop("two", trickle, Silence(2000, second_s, "closed")),
    ]
    assert [kinds(verdict) for verdict in judge(hops)] == [[(CUT, True)], [(CUT, True)]]


@given(JITTER, st.integers(0, 19))
def test_an_event_that_is_missing_is_never_a_clean_stream(jitter, missing):
    trickle = sent(jitter)
    (verdict,) = judge([Hop("u", replace(trickle, arrivals=[a for a in trickle.arrivals if a.number != missing]))])
    assert (BROKEN, True) in kinds(verdict)
    assert verdict.came == 19


def test_nothing_at_all_is_broken_and_not_a_fault_of_arithmetic():
    (verdict,) = judge([Hop("u", Trickle(INTERVAL_S, 20, trouble="status 502"))])
    assert kinds(verdict) == [(BROKEN, True)]
    assert verdict.findings[0].detail == "status 502"
