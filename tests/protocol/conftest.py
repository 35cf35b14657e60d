"""Owns how the tests of the pure core run: no Django, no deadline per example."""

from hypothesis import settings

settings.register_profile("protocol", deadline=None, max_examples=80)
settings.load_profile("protocol")
