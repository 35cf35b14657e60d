"""Owns how hard the laws of the pure core are tried: quickly, or thoroughly with HYPOTHESIS_PROFILE=thorough."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", deadline=None, max_examples=60)
# No database of earlier examples: 10,000 a law fill a disk, and what once failed belongs into a test of its own.
settings.register_profile(
    "thorough", deadline=None, max_examples=10_000, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
