"""Owns the one site that the end-to-end and the browser tests share, and that the check of its database comes last."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.setup import places
from tests.e2e.site import Site


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests after all others, for Playwright leaves its event loop running; the books after everything."""
    items.sort(key=lambda item: ("test_the_books" in item.nodeid, "tests/browser/" in item.nodeid))


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The demo model's GGUF, with its tokenizer beside it; `make test` makes both."""
    model = places.demo_model()
    if not (model.gguf.is_file() and model.tokenizer.is_file()):
        pytest.skip(f"the demo model is not in {model.folder}; run `make test`")
    return model.gguf


@pytest.fixture(scope="session")
def model_dir(demo_model: Path) -> Path:
    """The folder of the folders of models."""
    return demo_model.parent.parent


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[Site]:
    """A site with a scripted engine and the real llama.cpp worker."""
    # All tests are one user: how many of their refusals are stored must not depend on who came in the same minute.
    site = Site(
        tmp_path_factory.mktemp("site"), model_dir, REJECTED_ROWS_PER_MINUTE="100000",
        DJANGO_SETTINGS_MODULE="tests.gates.settings",
    )  # fmt: skip
    site.prepare()
    site.scripted(slots=400)
    site.start_engine()
    site.start()
    yield site
    site.stop()


@pytest.fixture(scope="session")
def key(site: Site) -> str:
    return site.manage("create_api_key", "dev")


@pytest.fixture(autouse=True)
def _site_runs(request: pytest.FixtureRequest) -> None:
    """A test that failed while the server was down must not fail the next ones."""
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        if site.web.popen.poll() is not None:
            site.start()
