"""Owns what the tests of the set-up share: the demo model's file and metadata, read once."""

import pytest

from deploy.setup import gguf, places


@pytest.fixture(scope="session")
def model_file():
    """The GGUF that `make test` fetched."""
    gguf_file = places.demo_model().gguf
    if not gguf_file.exists():
        pytest.skip("the demo model is not there: `make test` fetches it")
    return gguf_file


@pytest.fixture(scope="session")
def metadata(model_file):
    return gguf.read_metadata(model_file)
