"""Owns charts as coordinates: bars, lines and lengths, each with its figures as a table. Pure; templates draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .drawing import Label, nice_ticks

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 22
X_LABELS_MAX = 8
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a chart; a value that is not known is None."""

    name: str
    values: Values


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle and what it says when pointed at."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    says: str


@dataclass(frozen=True, slots=True)
class Line:
    """A path, broken where a value is not known, and its points."""

    path: str
    dots: Sequence[tuple[float, float, str]]
    colour: int


@dataclass(slots=True)
class Chart:
    """What a template draws. ``rows`` are the figures in words, ``total`` sums of the legend's entries or none."""

    title: str
    unit: str
    series: Sequence[tuple[int, str]]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    y_ticks: Sequence[Label] = ()
    x_ticks: Sequence[Label] = ()
    bars: list[Bar] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see."""
        return not any(bar.height for bar in self.bars) and not any(line.dots for line in self.lines)


def number(value: float | None) -> str:
    """A figure as a table shows it."""
    if value is None:
        return "–"
    if value and abs(value) < 10 and value != int(value):
        return f"{value:,.2f}"
    return f"{value:,.0f}"


def short(value: float) -> str:
    """A figure as an axis shows it."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.1f}".rstrip("0").rstrip(".") + letter
    return f"{value:.2f}".rstrip("0").rstrip(".")


def stacked_bars(title: str, labels: Sequence[str], series: Sequence[Series], unit: str) -> Chart:
    """A bar for each label, of the series on top of each other."""
    highest = max((sum(s.values[n] or 0 for s in series) for n in range(len(labels))), default=0)
    chart, y = _axes(title, labels, series, unit, highest)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    for n, label in enumerate(labels):
        top = 0.0
        for colour, one in enumerate(series):
            value = one.values[n] or 0
            if value:
                height = y(top) - y(top + value)
                says = f"{label}, {one.name}: {number(value)} {unit}"
                x, width = LEFT + n * step + step * 0.12, step * 0.76
                chart.bars.append(Bar(_r(x), _r(y(top + value)), _r(width), _r(height), colour, says))
            top += value
    return chart


def lines(title: str, labels: Sequence[str], series: Sequence[Series], unit: str) -> Chart:
    """A line for each series over the labels."""
    highest = max((value for one in series for value in one.values if value is not None), default=0)
    chart, y = _axes(title, labels, series, unit, highest)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    for colour, one in enumerate(series):
        path, dots, is_open = "", [], False
        for n, value in enumerate(one.values):
            if value is None:
                is_open = False
                continue
            x = _r(LEFT + (n + 0.5) * step)
            path += f"{'L' if is_open else 'M'}{x} {_r(y(value))}"
            dots.append((x, _r(y(value)), f"{labels[n]}, {one.name}: {number(value)} {unit}"))
            is_open = True
        chart.lines.append(Line(path, dots, colour))
    return chart


@dataclass(frozen=True, slots=True)
class Length:
    """A row of a table of lengths; ``parts`` are widths of 200 with their colours."""

    label: str
    cells: Sequence[str]
    parts: Sequence[tuple[float, float, int]]


@dataclass(frozen=True, slots=True)
class Lengths:
    """A table whose first figure is also drawn: it is its own text."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Length]
    says: str = ""


def lengths(
    title: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[float], Sequence[str]]], says: str = ""
) -> Lengths:
    """Rows of a label, one or more values drawn behind each other, and what the cells say."""
    highest = max((sum(values) for _, values, _ in rows), default=0) or 1
    drawn = []
    for label, values, cells in rows:
        x, parts = 0.0, []
        for colour, value in enumerate(values):
            width = 200 * value / highest
            parts.append((_r(x), _r(width), colour))
            x += width
        drawn.append(Length(label, cells, parts))
    return Lengths(title, heads, drawn, says)


def _axes(
    title: str, labels: Sequence[str], series: Sequence[Series], unit: str, highest: float
) -> tuple[Chart, Callable[[float], float]]:
    """A chart without its marks, and where a value lies on it."""
    ticks = nice_ticks(highest)
    inner = HEIGHT - TOP - BOTTOM

    def y(value: float) -> float:
        return TOP + inner - inner * value / ticks[-1]

    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    every = -(-len(labels) // X_LABELS_MAX)
    chart = Chart(
        title,
        unit,
        [(n, one.name) for n, one in enumerate(series)],
        [one.name for one in series],
        [[label, *(number(one.values[n]) for one in series)] for n, label in enumerate(labels)],
        [Label(LEFT - 6, _r(y(tick)), short(tick)) for tick in ticks],
        [Label(_r(LEFT + (n + 0.5) * step), HEIGHT - 5, label) for n, label in enumerate(labels) if n % every == 0],
    )
    return chart, y


def _r(value: float) -> float:
    return round(value, 1)
