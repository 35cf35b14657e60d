"""Owns how hard the laws of the pure core are tried, and that none is tried less: 60 examples, thoroughly 10,000."""

import functools
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

#: How long an example takes, or its drawing, says something of the machine alone.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, **PATIENT)
# No database of earlier examples: 10,000 a law fill a disk, and what once failed belongs into a test of its own.
settings.register_profile("thorough", max_examples=10_000, database=None, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A law has to pass as many drawn examples as its profile says: one that runs out of them is a list of cases."""
    law = getattr(pyfuncitem.obj, "hypothesis", None)
    if law is None:
        return (yield)
    inner, passed = law.inner_test, 0

    @functools.wraps(inner)
    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal passed
        inner(*args, **kwargs)
        passed += 1

    law.inner_test = counted
    try:
        result = yield
    finally:
        law.inner_test = inner
    drawn = passed - len(getattr(pyfuncitem.obj, "hypothesis_explicit_examples", ()))
    assert drawn >= settings.default.max_examples, f"only {drawn} examples: fewer than {settings.default.max_examples}"
    return result
