"""Owns every budget of the bench: which figure may be how large, and where that limit comes from."""

from collections.abc import Collection

from bench.budget import (
    GROWTH,
    RATIO,
    TIMED,
    Budget,
    Measured,
    above,
    bounded,
    counted,
    failed,
    figure,
    in_time,
    quotient,
    timed,
    times,
)
from bench.parts import crowd, idle, latency, length, readers, replay, storm
from bench.sides import BARE, DIRECT, OURS


def many(name: str, side: str = OURS) -> Measured:
    return figure(latency.PART, latency.case(latency.MANY), name, side)


def few(name: str) -> Measured:
    return figure(latency.PART, latency.case(latency.FEW), name)


def added(name: str, value: str, limit_ms: float, source: str) -> Budget:
    measured = above(many(value), many(value, DIRECT))
    return timed(latency.PART, f"{name} added to the engine's", limit_ms, "ms", measured, source)


def waiting(streams: int, name: str) -> Measured:
    return figure(idle.PART, idle.case(streams), name)


def of_crowd(shape: crowd.Shape, name: str) -> Measured:
    return figure(crowd.PART, shape.name, name)


def at_token(token: int) -> Measured:
    return figure(length.PART, length.CASE, length.figure(token))


def read_by(readers_of_each: int, name: str) -> Measured:
    return figure(readers.PART, readers.case(readers_of_each), name)


def in_storm(name: str) -> Measured:
    return figure(storm.PART, storm.CASE, name)


def in_replay(name: str) -> Measured:
    return figure(replay.PART, replay.CASE, name)


NO_GROWTH_WITH_STREAMS = "the cost of a chunk must not grow with the number of streams"
NO_GROWTH_WITH_LENGTH = "nor with what has been said already"

IDLE = [
    failed(idle.PART),
    *bounded(idle.PART, idle.case(idle.THOUSAND)),
    counted(
        idle.PART, "threads that 1,000 added", 8, waiting(idle.THOUSAND, "threads_added"), "the pools may still fill"
    ),
    timed(
        idle.PART, "/healthz p99 beside 1,000", 50, "ms", waiting(idle.THOUSAND, "healthz_p99_ms"), "probes must pass"
    ),
    timed(idle.PART, "free after 200 closed", 1, "s", waiting(idle.MANY, "freed_s"), "what nobody reads costs no GPU"),
]
LATENCY = [
    failed(latency.PART),
    times(
        latency.PART,
        "CPU per chunk, ours / bare daphne relay, 200 streams",
        RATIO,
        quotient(many("cpu_us_per_chunk"), many("cpu_us_per_chunk", BARE)),
        "65 us beside 65-77 us, measured before the first line was written",
    ),
    Budget(
        latency.PART,
        "CPU per chunk, 200 streams",
        65,
        "us",
        TIMED,
        many("cpu_us_per_chunk"),
        "budget now; the aim is 40, below a bare uvicorn relay that stores nothing",
    ),
    times(
        latency.PART,
        "CPU per chunk, 200 streams / 50 streams",
        GROWTH,
        quotient(many("steady_us_per_chunk"), few("steady_us_per_chunk")),
        NO_GROWTH_WITH_STREAMS,
    ),
    added("latency p50", "latency_p50_ms", 3, "reading speed"),
    added("latency p99", "latency_p99_ms", 40, "one token's time at 25 tokens/s"),
    added("TTFT p50", "ttft_p50_ms", 25, "far below a prefill"),
    *bounded(latency.PART, latency.case(latency.MANY)),
]
CROWD = [
    failed(crowd.PART),
    *(
        in_time(crowd.PART, f"without text after 40 s, {shape.name}", of_crowd(shape, "without_text"), "all are served")
        for shape in crowd.SHAPES
    ),
    *bounded(crowd.PART, crowd.SLOW_1000.name),
    times(
        crowd.PART,
        "CPU per chunk, 1,000 streams / 500 streams, 5 chunks/s",
        GROWTH,
        quotient(of_crowd(crowd.SLOW_1000, "steady_us_per_chunk"), of_crowd(crowd.SLOW_500, "steady_us_per_chunk")),
        NO_GROWTH_WITH_STREAMS,
    ),
]
LENGTH = [
    failed(length.PART),
    times(
        length.PART,
        "CPU per chunk, token 2,000 / 100",
        GROWTH,
        quotient(at_token(2_000), at_token(100)),
        NO_GROWTH_WITH_LENGTH,
    ),
    times(
        length.PART,
        "CPU per chunk, token 8,000 / 100",
        GROWTH,
        quotient(at_token(8_000), at_token(100)),
        NO_GROWTH_WITH_LENGTH,
    ),
]
READERS = [
    failed(readers.PART),
    counted(
        readers.PART,
        "engine requests per response with 16 readers",
        1,
        read_by(16, "relays_per_response"),
        "16 readers cost one relay",
    ),
    times(
        readers.PART,
        "CPU per chunk, 16 readers / 1 reader",
        RATIO,
        quotient(read_by(16, "cpu_us_per_chunk"), read_by(1, "cpu_us_per_chunk")),
        "a quarter of what 16 relays would cost",
        limit=4,
    ),
]
STORM = [
    failed(storm.PART),
    in_time(storm.PART, "clients without text again", in_storm("not_again"), "everybody comes back"),
    *bounded(storm.PART, storm.CASE),
    times(
        storm.PART,
        "CPU to take a stream up again / to start one",
        RATIO,
        quotient(in_storm("cpu_ms_per_return"), in_storm("cpu_ms_per_start")),
        "a storm must not be worse than the load it interrupts",
    ),
]
REPLAY = [
    failed(replay.PART),
    timed(
        replay.PART,
        "latency p99 added for others by replays",
        40,
        "ms",
        above(in_replay("disturbed_p99_ms"), in_replay("calm_p99_ms")),
        "one token's time at 25 tokens/s",
    ),
]
BUDGETS = [*IDLE, *LATENCY, *CROWD, *LENGTH, *READERS, *STORM, *REPLAY]


def of_parts(parts: Collection[str]) -> list[Budget]:
    return [budget for budget in BUDGETS if budget.part in parts]
