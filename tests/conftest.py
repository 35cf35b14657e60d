"""Owns what every test of the suite stands on: a data folder of its own and settings that tests can rely on."""

import os
import tempfile
from pathlib import Path

DATA_DIR = Path(tempfile.mkdtemp(prefix="chatsite-test-"))
# Before Django reads its settings: no test may touch a developer's data.
os.environ.setdefault("MODEL_DIR", str(Path(__file__).resolve().parent.parent / "var" / "models"))
os.environ["DATA_DIR"] = str(DATA_DIR)

pytest_plugins = ["tests.plugins.no_skips", "tests.plugins.site"]
