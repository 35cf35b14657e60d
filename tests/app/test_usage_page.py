"""The usage dashboard: its figures are those of the rows, in few queries, and what is taken away runs nowhere."""

import csv
import io
import re
from datetime import UTC, date, timedelta
from itertools import count

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db.models import Count, F, Sum
from django.utils import timezone

from streaming.admin.charts import Series, lines, stacked_bars
from streaming.admin.drawing import nice_ticks
from streaming.admin.exports import cell
from streaming.admin.usage_figures import CALLERS, PROBES, Figures, Span, span_of, today
from streaming.models import DailyUsage, ModelPrice, Response
from streaming.store import usage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("noon")]
PAGE = "/admin/usage/"


@pytest.fixture
def viewer(page1):
    """Somebody who may see responses and nothing else."""
    user = User.objects.get(username="u1")
    user.is_staff = True
    user.save()
    user.user_permissions.add(Permission.objects.get(codename="view_response"))
    return page1


@pytest.fixture
def past(db):
    call_command("seed_demo", responses=800, days=6, logs=0, yes=True)
    # Some of today too, that no rollup has seen. They may have been all of the first day, which begins at any hour.
    oldest = dict(Response.objects.order_by("created_at").values_list("id", "created_at")[:40])
    Response.objects.filter(id__in=oldest).update(created_at=timezone.now())
    for day in {at.astimezone(UTC).date() for at in oldest.values()}:
        usage.roll_up(day)


@pytest.mark.parametrize("group", ["end_state", "model", "user", "key", "engine", "purpose"])
def test_figures_are_those_of_the_rows_also_of_today(past, group):
    column = {"user": "user_id", "key": "api_key_id", "engine": "engine_id"}.get(group, group)
    for some in (Response.objects.all()[:9], Response.objects.order_by("-created_at")[:9]):
        probes = Response.objects.filter(id__in=list(some.values_list("id", flat=True)))
        probes.update(purpose="probe", user=None, api_key=None)
    for day in {at.astimezone(UTC).date() for at in Response.objects.values_list("created_at", flat=True)} - {today()}:
        usage.roll_up(day)
    figures = Figures(Span(today() - timedelta(days=9), today()))
    shown = {value: (s.requests, s.generated_tokens, s.wasted_tokens) for value, s in figures.totals(group).items()}
    rows = Response.objects.values_list(column).annotate(
        n=Count("id"), made=Sum("generated_tokens"), wasted=Sum(F("generated_tokens") - F("delivered_tokens"))
    )
    counted = {value: sums for value, *_sums in rows.order_by(column) for sums in [tuple(_sums)]}
    probes = shown.pop(PROBES, (0, 0, 0))
    if group in CALLERS:
        assert probes == tuple(
            rows.filter(purpose="probe", **{column: None})
            .aggregate(
                n=Count("id"),
                m=Sum("generated_tokens", default=0),
                w=Sum(F("generated_tokens") - F("delivered_tokens"), default=0),
            )
            .values()
        )
        counted[None] = tuple(a - b for a, b in zip(counted[None], probes, strict=True))
    assert {value: sums for value, sums in shown.items() if any(sums)} == {
        value: sums for value, sums in counted.items() if any(sums)
    }


@pytest.mark.parametrize("looks_before", range(4))
def test_a_day_that_ends_while_its_figures_are_read_counts_once(monkeypatch, looks_before):
    Response.objects.create(purpose="api", dialect="d", model="m", policy="abort")
    usage.roll_up(today())
    figures, now = Figures(Span(today() - timedelta(days=9), today())), timezone.now()
    looks = count(1)
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(days=next(looks) > looks_before))
    assert [sum(sums.requests for sums in figures.totals(group).values()) for group in ("model", "purpose")] == [1, 1]


@pytest.mark.parametrize("is_rolled_up", [True, False])
def test_tests_of_engines_are_no_callers(viewer, is_rolled_up):
    day = timezone.now() - timedelta(days=3 if is_rolled_up else 0)
    for purpose in ("probe", "title"):
        Response.objects.create(purpose=purpose, dialect="d", model="m", policy="abort", generated_tokens=5)
    Response.objects.update(created_at=day)
    usage.roll_up(day.date())
    html = viewer.get(PAGE).content.decode()
    for title, name in (("Top users", "nobody"), ("Top API keys", "the page")):
        table = html.split(title)[1].split("</table>")[0]
        assert "tests of engines" not in table
        assert re.findall(rf"{name}.*?>(\d+)<", table, re.DOTALL)[0] == "1"
    for group in CALLERS:
        rows = viewer.get(f"{PAGE}export.json?group={group}").json()["rows"]
        assert {row[group]: row["requests"] for row in rows}["tests of engines"] == 1


def test_one_model_can_be_looked_at(past):
    name = Response.objects.values_list("model", flat=True).first()
    figures = Figures(Span(today() - timedelta(days=9), today(), name))
    assert list(figures.totals("model")) == [name]
    counted = sum(sum(buckets.values()) for buckets in figures.counts_by_part("end").values())
    everything = Figures(Span(today() - timedelta(days=9), today()))
    assert 0 < counted < sum(sum(buckets.values()) for buckets in everything.counts_by_part("end").values())


def test_the_page_shows_every_chart_with_its_figures_in_few_queries(viewer, past, django_assert_max_num_queries):
    with django_assert_max_num_queries(30):
        html = viewer.get(PAGE).content.decode()
    for title in (
        "Tokens made by day and end state", "Cancelled, abandoned and failed",
        "Time to first token of streamed answers, ms",
        "Time between tokens", "Time to first token of streamed answers by prompt length", "Wasted tokens",
        "Where answers are cancelled",
        "Failures and refusals by reason", "Top users", "Top API keys", "Top models", "Engines",
    ):  # fmt: skip
        assert title in html
    assert html.count('<svg class="chart"') == html.count("<summary>Figures</summary>") == 4
    assert "<script>" not in html
    assert "style=" not in html.split("<main")[1]


def test_a_site_without_a_past_has_a_dashboard_too(viewer):
    html = viewer.get(PAGE).content.decode()
    assert html.count("Nothing in these days.") >= 4
    assert not DailyUsage.objects.exists()


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ({}, -29, 0),
        ({"days": "7"}, -6, 0),
        ({"days": "100000"}, -29, 0),
        ({"days": "x", "group": "password"}, -29, 0),
        ({"since": "2026-01-01", "until": "2026-01-31"}, date(2026, 1, 1), date(2026, 1, 31)),
        ({"since": "2026-01-31", "until": "2026-01-01"}, date(2026, 1, 1), date(2026, 1, 1)),
        ({"since": "1900-01-01", "until": "9999-12-31"}, -365, 0),
        ({"since": "'; DROP"}, -29, 0),
    ],
)
def test_days_in_an_address_are_bounded_and_nonsense_is_the_usual(viewer, query, first, last):
    span = span_of(query)
    days = [d if isinstance(d, date) else today() + timedelta(days=d) for d in (first, last)]
    assert [span.first, span.last] == days
    assert viewer.get(PAGE, query).status_code == 200


def test_waste_has_its_cost_where_there_is_a_price(viewer):
    for model in ("dear", "free of price"):
        Response.objects.create(
            purpose="api", dialect="d", model=model, policy="abort", generated_tokens=3_000_000, sent_tokens=10
        )
    for price, valid_from in (("1.5", timezone.now() - timedelta(days=9)), ("2.5", timezone.now() - timedelta(days=1))):
        ModelPrice.objects.create(
            model="dear", valid_from=valid_from, currency="EUR", input_price=1, cached_price=1, output_price=price
        )
    html = viewer.get(PAGE).content.decode()
    assert "EUR 7.50" in html
    assert "no price" in html


def test_what_is_exported_is_what_is_shown(viewer, past):
    rows = viewer.get(PAGE + "export.json?days=10&group=user").json()["rows"]
    text = viewer.get(PAGE + "export.csv?days=10&group=user").content.decode("utf-8-sig")
    read = list(csv.DictReader(io.StringIO(text)))
    assert [{name: str(value) for name, value in row.items()} for row in rows] == read
    assert sum(row["requests"] for row in rows) > 0
    for wrong in ("export.xls", "export.csv?group=password"):
        assert viewer.get(PAGE + wrong).status_code == 404


def test_no_cell_is_a_formula(viewer):
    hostile = '=HYPERLINK("http://evil.example","x")'
    user = User.objects.create(username=hostile)
    Response.objects.create(user=user, purpose="api", dialect="d", model="@m", policy="abort")
    text = viewer.get(PAGE + "export.csv?group=user").content.decode("utf-8-sig")
    assert [row["user"] for row in csv.DictReader(io.StringIO(text))] == [f"'{hostile}"]
    for start in "=+-@\t\r\n":
        assert cell(f"{start}x").startswith("'")
    assert (cell("x=1"), cell(-5)) == ("x=1", -5)


def test_names_are_shown_as_text(viewer):
    User.objects.create(username="<img src=x onerror=alert(1)>")
    user = User.objects.get(username__startswith="<img")
    Response.objects.create(user=user, purpose="api", dialect="d", model="<script>", policy="abort", generated_tokens=5)
    html = viewer.get(PAGE + "?group=user").content.decode()
    assert "&lt;img" in html
    assert "&lt;script&gt;" in html
    assert not re.search(r"<img src=x|<script>", html)


def test_only_staff_who_may_see_responses_see_figures(anon, page2, viewer):
    User.objects.filter(username="u2").update(is_staff=True)
    for path in (PAGE, PAGE + "export.csv"):
        assert anon.get(path).status_code == 302
        assert page2.get(path).status_code == 403
        assert viewer.get(path).status_code == 200
    assert "Usage" not in page2.get("/admin/").content.decode()


def test_axes_end_at_round_numbers_above_the_highest():
    for highest in (0, 0.003, 0.7, 1, 3, 9.99, 10, 11, 99, 100, 2500, 7_654_321):
        ticks = nice_ticks(highest)
        assert ticks[0] == 0
        assert ticks[-1] >= highest
        assert 2 <= len(ticks) <= 7
        assert len(ticks) < 3 or ticks[-2] < highest


def test_bars_stand_on_each_other_and_lines_break_where_nothing_is_known():
    chart = stacked_bars("t", ["a", "b"], [Series("x", [1, 0]), Series("y", [3, 2])], "n")
    first, second, third = chart.bars
    assert first.y == pytest.approx(second.y + second.height, abs=0.2)
    assert second.height == pytest.approx(3 * first.height, abs=0.3)
    assert third.x > first.x
    line = lines("t", ["a", "b", "c"], [Series("x", [1, None, 2])], "ms").lines[0]
    assert line.path.count("M") == 2
    assert len(line.dots) == 2
