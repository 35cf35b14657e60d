"""Owns what the tests of the set-up share: the demo model's file and metadata, read once."""

import pytest

from deploy.setup import gguf


@pytest.fixture(scope="session")
def metadata(demo_model):
    return gguf.read_metadata(demo_model)
