"""Owns the tables of the usage dashboard: which figures stand in which rows. The figures are usage_figures'."""

from decimal import Decimal
from typing import Any

from streaming.protocol.end_state import ERRORED, REJECTED, TIMED_OUT, TRUNCATED
from streaming.store.histograms import CANCEL_CLASSES, PROMPT_CLASSES
from streaming.store.prices import MILLION

from .charts import Lengths, lengths, number
from .drawing import span_text
from .usage_figures import CALLERS, PROBES, Figures, Span, Sums, names_of, output_prices, percentiles

SHOWN = 8
NOT_SAID = "not said"
BAD = (ERRORED, TIMED_OUT, TRUNCATED)
GROUP_NAMES = {
    "end_state": "end state", "model": "model", "purpose": "purpose", "engine": "engine", "user": "user",
    "key": "API key",
}  # fmt: skip


def tables(figures: Figures, models: dict[Any, Sums]) -> list[Lengths]:
    """All of them; ``models`` are the sums by model."""
    return [
        _by_length(figures),
        _waste(models, figures.span),
        _cancelled(figures),
        _errors(figures),
        _top(figures, "user", "Top users"),
        _top(figures, "key", "Top API keys"),
        _top(figures, "model", "Top models", models),
        _top(figures, "engine", "Engines"),
    ]


def share(part: float, whole: float) -> str:
    """In percent; a dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _by_length(figures: Figures) -> Lengths:
    parts = figures.counts_by_part("ttft")
    rows = []
    for _, name in PROMPT_CLASSES:
        if buckets := parts.get(name):
            p50, p95 = percentiles(buckets, (0.5, 0.95))
            cells = [number(sum(buckets.values())), time_text(p50), time_text(p95)]
            rows.append((name, [p50 or 0.0, (p95 or 0.0) - (p50 or 0.0)], cells))
    says = "The bar: median, and from there to the 95th percentile."
    title = "Time to first token of streamed answers by prompt length"
    return lengths(title, ["prompt tokens", "answers", "p50", "p95"], rows, says)


def time_text(ms: float | None) -> str:
    """A time for people; a dash where there is none."""
    return "–" if ms is None else span_text(ms)


def _waste(models: dict[Any, Sums], span: Span) -> Lengths:
    prices = output_prices(span)
    rows = []
    for name, sums in list(models.items())[:SHOWN]:
        cells = [
            number(sums.wasted_tokens),
            share(sums.wasted_tokens, sums.generated_tokens),
            _cost(prices.get(name), sums.wasted_tokens),
        ]
        if sums.generated_tokens:
            rows.append((name or NOT_SAID, [float(sums.wasted_tokens)], cells))
    says = "Tokens that an engine made and no reader's socket took, at the price of the last of these days."
    return lengths("Wasted tokens", ["model", "wasted", "of those made", "cost"], rows, says)


def _cost(price: tuple[str, Decimal] | None, tokens: int) -> str:
    """Of tokens of answers, by a price per million."""
    return "no price" if price is None else f"{price[0]} {price[1] * tokens / MILLION:,.2f}"


def _cancelled(figures: Figures) -> Lengths:
    counts = {part: sum(buckets.values()) for part, buckets in figures.counts_by_part("cancel").items()}
    total = sum(counts.values())
    rows = [
        (name, [float(counts.get(name, 0))], [number(counts.get(name, 0)), share(counts.get(name, 0), total)])
        for _, name in CANCEL_CLASSES
    ]
    return lengths("Where answers are cancelled", ["tokens made by then", "answers", "share"], rows if total else [])


def _errors(figures: Figures) -> Lengths:
    counts = {part: sum(buckets.values()) for part, buckets in figures.counts_by_part("end").items()}
    bad = [(part, count) for part, count in counts.items() if part.split("/")[0] in (*BAD, REJECTED)]
    bad.sort(key=lambda item: -item[1])
    rows = [(part.replace("/", ": ").replace("_", " "), [float(n)], [number(n)]) for part, n in bad[: 2 * SHOWN]]
    return lengths("Failures and refusals by reason", ["reason", "responses"], rows)


def _top(figures: Figures, group: str, title: str, totals: dict[Any, Sums] | None = None) -> Lengths:
    totals = totals or figures.totals(group)
    shown = [(value, sums) for value, sums in totals.items() if group not in CALLERS or value != PROBES][:SHOWN]
    names = names_of(group, [value for value, _ in shown])
    rows = [
        (names[value], [float(sums.generated_tokens)], [number(sums.requests), number(sums.generated_tokens)])
        for value, sums in shown if sums.generated_tokens
    ]  # fmt: skip
    return lengths(title, [GROUP_NAMES[group], "responses", "tokens made"], rows)
