"""Owns that on CI (CI=true) a skipped test is a failed one: there, nothing that a test needs may be missing."""

import os
from collections.abc import Generator
from typing import Any

import pytest

ON_CI = os.environ.get("CI", "").lower() in {"1", "true"}


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if ON_CI and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"CI skips nothing: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(report)
    return report
