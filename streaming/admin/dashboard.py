"""Owns the usage dashboard: which figures become which charts, and the page. The figures are usage_figures'."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from streaming.models import Engine
from streaming.protocol.end_state import (
    ABANDONED,
    CANCELLED,
    COMPLETED,
    END_STATES,
    ERRORED,
    REJECTED,
    TIMED_OUT,
    TRUNCATED,
)
from streaming.store.histograms import CANCEL_CLASSES, PROMPT_CLASSES
from streaming.store.prices import MILLION

from .charts import Chart, Lengths, Series, lengths, lines, number, stacked_bars
from .drawing import span_text
from .usage_figures import (
    CALLERS,
    GROUPS,
    PROBES,
    Days,
    Figures,
    Span,
    Sums,
    names_of,
    output_prices,
    percentiles,
    span_of,
    summed,
)

SHOWN = 8
NOT_SAID = "not said"
BAD = (ERRORED, TIMED_OUT, TRUNCATED)
SHARES = (0.5, 0.95, 0.99)
PRESETS = (("7 days", 7), ("30 days", 30), ("90 days", 90))
GROUP_NAMES = {
    "end_state": "end state", "model": "model", "purpose": "purpose", "engine": "engine", "user": "user",
    "key": "API key",
}  # fmt: skip


def view(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """The page."""
    span = span_of(request.GET)
    group = request.GET.get("group", "")
    group = group if group in GROUPS else "end_state"
    context = {
        **site.each_context(request),
        "title": "Usage",
        "span": span,
        "group": group,
        "groups": GROUP_NAMES.items(),
        "models": Engine.objects.order_by("model").values_list("model", flat=True).distinct()[:200],
        "presets": [(label, days, len(span.days) == days) for label, days in PRESETS],
        "exports": [(kind.upper(), f"{reverse('admin:chat_usage_export', args=[kind])}?{_query(span, group)}")
                    for kind in ("csv", "json")],
        **_content(Figures(span), group),
    }  # fmt: skip
    return render(request, "admin/chat/usage.html", context)


def _query(span: Span, group: str) -> str:
    return f"since={span.first}&until={span.last}&group={group}&model={span.model}"


def _content(figures: Figures, group: str) -> dict[str, Any]:
    by_state = figures.by_day("end_state")
    by_model = figures.by_day("model")
    states = summed(by_state)
    ttft, itl = figures.counts_by_day("ttft"), figures.counts_by_day("itl")
    grouped = by_state if group == "end_state" else by_model if group == "model" else figures.by_day(group)
    return {
        "tiles": _tiles(states, _together(ttft)),
        "charts": [
            _tokens(grouped, group),
            _rates(by_state),
            _times("Time to first token of streamed answers", ttft, SHARES),
            _times("Time between tokens (of each answer the median)", itl, (0.5, 0.95)),
        ],
        "tables": [
            _by_length(figures),
            _waste(summed(by_model), figures.span),
            _cancelled(figures),
            _errors(figures),
            _top(figures, "user", "Top users"),
            _top(figures, "key", "Top API keys"),
            _top(figures, "model", "Top models", summed(by_model)),
            _top(figures, "engine", "Engines"),
        ],
    }


def _together(days: dict[date, dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for buckets in days.values():
        for bucket, count in buckets.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _tiles(states: dict[Any, Sums], ttft: dict[int, int]) -> list[tuple[str, str, str]]:
    total = Sums()
    for sums in states.values():
        total.add(sums)
    served = total.requests - states.get(REJECTED, Sums()).requests
    count = {state: states.get(state, Sums()).requests for state in END_STATES}
    p50, p95 = (_time(ms) for ms in percentiles(ttft, (0.5, 0.95)))
    return [
        ("Responses", number(total.requests), f"{number(count[REJECTED])} refused before the stream"),
        ("Tokens made", number(total.generated_tokens), f"{number(total.prompt_tokens)} read in prompts"),
        ("Completed", _share(count[COMPLETED], served), f"of {number(served)} that were answered"),
        ("Cancelled", _share(count[CANCELLED], served), f"{_share(count[ABANDONED], served)} more abandoned"),
        ("Failed", _share(sum(count[state] for state in BAD), served), "errored, timed out or truncated"),
        ("Wasted tokens", _share(total.wasted_tokens, total.generated_tokens), number(total.wasted_tokens)),
        ("First token", p50, f"p95 {p95}"),
    ]


def _labels(days: Sequence[date]) -> list[str]:
    return [f"{day:%b} {day.day}" for day in days]


def _tokens(days: Days, group: str) -> Chart:
    """The largest values of the group on top of each other, the rest as one."""
    totals = summed(days)
    if group == "end_state":
        shown = [state for state in END_STATES if state in totals and state != REJECTED]
    else:
        shown = list(totals)[: SHOWN - 1]
    names = names_of(group, shown)
    series = [Series(names[value], [_made(days[day], value) for day in days]) for value in shown]
    if rest := [value for value in totals if value not in shown]:
        others = [sum(_made(days[day], value) for value in rest) for day in days]
        if any(others):
            series.append(Series("others", others))
    title = f"Tokens made by day and {GROUP_NAMES[group]}"
    return stacked_bars(title, _labels(list(days)), series, "tokens")


def _made(day: dict[Any, Sums], value: Any) -> int:
    return day[value].generated_tokens if value in day else 0


def _rates(days: Days) -> Chart:
    """Shares of the responses that were answered at all."""
    shares: dict[str, list[float | None]] = {"cancelled": [], "abandoned": [], "failed": []}
    parts = {"cancelled": (CANCELLED,), "abandoned": (ABANDONED,), "failed": BAD}
    for day in days.values():
        served = sum(sums.requests for state, sums in day.items() if state != REJECTED)
        for name, states in parts.items():
            count = sum(day[state].requests for state in states if state in day)
            shares[name].append(round(100 * count / served, 2) if served else None)
    series = [Series(name, values) for name, values in shares.items()]
    return lines("Cancelled, abandoned and failed, of each day's answers", _labels(list(days)), series, "%")


def _times(title: str, days: dict[date, dict[int, int]], shares: tuple[float, ...]) -> Chart:
    values = [percentiles(buckets, shares) for buckets in days.values()]
    series = [
        Series(f"p{share * 100:.0f}", [None if day[n] is None else round(day[n] or 0, 1) for day in values])
        for n, share in enumerate(shares)
    ]
    return lines(f"{title}, ms", _labels(list(days)), series, "ms")


def _by_length(figures: Figures) -> Lengths:
    parts = figures.counts_by_part("ttft")
    rows = []
    for _, name in PROMPT_CLASSES:
        if buckets := parts.get(name):
            p50, p95 = percentiles(buckets, (0.5, 0.95))
            cells = [number(sum(buckets.values())), _time(p50), _time(p95)]
            rows.append((name, [p50 or 0.0, (p95 or 0.0) - (p50 or 0.0)], cells))
    says = "The bar: median, and from there to the 95th percentile."
    title = "Time to first token of streamed answers by prompt length"
    return lengths(title, ["prompt tokens", "answers", "p50", "p95"], rows, says)


def _time(ms: float | None) -> str:
    return "–" if ms is None else span_text(ms)


def _waste(models: dict[Any, Sums], span: Span) -> Lengths:
    prices = output_prices(span)
    rows = []
    for name, sums in list(models.items())[:SHOWN]:
        share = _share(sums.wasted_tokens, sums.generated_tokens)
        cells = [number(sums.wasted_tokens), share, _cost(prices.get(name), sums.wasted_tokens)]
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
        (name, [float(counts.get(name, 0))], [number(counts.get(name, 0)), _share(counts.get(name, 0), total)])
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
