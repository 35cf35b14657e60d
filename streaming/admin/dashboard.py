"""Owns the usage dashboard: which figures become which charts, and the page. The figures are usage_figures'."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from streaming.models import Engine
from streaming.protocol.end_state import ABANDONED, CANCELLED, COMPLETED, END_STATES, REJECTED

from .charts import Chart, Series, lines, number, stacked_bars
from .usage_figures import GROUPS, Days, Figures, Span, Sums, names_of, percentiles, span_of, summed
from .usage_tables import BAD, GROUP_NAMES, SHOWN, share, tables, time_text

SHARES = (0.5, 0.95, 0.99)
PRESETS = (("7 days", 7), ("30 days", 30), ("90 days", 90))


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
        "tables": tables(figures, summed(by_model)),
    }


def _together(days: dict[date, dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for buckets in days.values():
        for bucket, count in buckets.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def _tiles(states: dict[Any, Sums], ttft: dict[int, int]) -> list[tuple[str, str, str]]:
    total = Sums()
    for sums in states.values():
        total.add(sums)
    served = total.requests - states.get(REJECTED, Sums()).requests
    count = {state: states.get(state, Sums()).requests for state in END_STATES}
    p50, p95 = (time_text(ms) for ms in percentiles(ttft, (0.5, 0.95)))
    return [
        ("Responses", number(total.requests), f"{number(count[REJECTED])} refused before the stream"),
        ("Tokens made", number(total.generated_tokens), f"{number(total.prompt_tokens)} read in prompts"),
        ("Completed", share(count[COMPLETED], served), f"of {number(served)} that were answered"),
        ("Cancelled", share(count[CANCELLED], served), f"{share(count[ABANDONED], served)} more abandoned"),
        ("Failed", share(sum(count[state] for state in BAD), served), "errored, timed out or truncated"),
        ("Wasted tokens", share(total.wasted_tokens, total.generated_tokens), number(total.wasted_tokens)),
        ("First token", p50, f"p95 {p95}, of streamed answers"),
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
