"""Owns how times and figures become coordinates of a drawing, and how axes are divided. Pure; templates draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .timeline import Timeline

WIDTH, LEFT, RIGHT = 960, 46, 12
CURVE_TOP, CURVE_HEIGHT = 58, 118
STEPS_MAX = 1500


def nice_ticks(highest: float, count: int = 4) -> list[float]:
    """0 and about ``count`` round numbers up to at least ``highest``."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / count
    power: float = 10 ** len(str(int(rough))) / 10 if rough >= 1 else 0.1
    while power > rough:
        power /= 10
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    ticks = [0.0]
    while ticks[-1] < highest:
        ticks.append(round(ticks[-1] + step, 6))
    return ticks


def span_text(ms: float) -> str:
    """A length of time as a person reads it."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 100_000:
        return f"{ms / 1000:.2f}".rstrip("0").rstrip(".") + " s"
    return f"{int(ms // 60_000)} min {int(ms % 60_000 // 1000)} s"


@dataclass(slots=True)
class Label:
    """A text at a place."""

    x: float
    y: float
    text: str


def draw_timeline(course: Timeline) -> dict[str, Any]:
    """What the template of the timeline draws: bars of phases, the curve of tokens, gaps behind it, moments above."""
    total = course.total_ms * 1.01
    inner = WIDTH - LEFT - RIGHT

    def x(ms: float) -> float:
        return round(LEFT + inner * min(ms, total) / total, 1)

    tokens = course.steps[-1][1] if course.steps else 0
    ticks = nice_ticks(tokens)
    bottom = CURVE_TOP + CURVE_HEIGHT

    def y(count: float) -> float:
        return round(bottom - CURVE_HEIGHT * count / ticks[-1], 1)

    def box(start_ms: float, end_ms: float) -> dict[str, Any]:
        width = round(x(end_ms) - x(start_ms), 1)
        return {"x": x(start_ms), "width": max(1.5, width), "span": span_text(end_ms - start_ms)}

    return {
        "width": WIDTH,
        "bottom": bottom,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "phases": [{**box(p.start_ms, p.end_ms), "kind": p.kind, "name": p.name} for p in course.phases],
        "gaps": [{**box(g.start_ms, g.end_ms), "seq": g.seq} for g in course.gaps],
        "moments": [
            {"x": x(m.at_ms), "kind": m.kind, "name": m.name, "at": span_text(m.at_ms)} for m in course.moments
        ],
        "curve": _steps(course.steps, x, y),
        "y_ticks": [Label(LEFT - 6, y(tick), f"{tick:.0f}") for tick in ticks] if tokens else [],
        "x_ticks": [
            Label(x(tick), bottom + 16, span_text(tick)) for tick in nice_ticks(course.total_ms, 6) if tick <= total
        ],
    }


def _steps(steps: Sequence[tuple[float, int]], x: Any, y: Any) -> str:
    """A path of stairs; of very long answers only so many steps as can be seen."""
    if not steps:
        return ""
    thin = steps[:: max(1, len(steps) // STEPS_MAX)]
    shown = thin if thin[-1] == steps[-1] else [*thin, steps[-1]]
    path = [f"M{x(shown[0][0])} {y(0)}"]
    for at_ms, tokens in shown:
        path.append(f"H{x(at_ms)}V{y(tokens)}")
    return "".join(path)
