"""Owns web processes that share one PostgreSQL database. The server itself is in tests/databases.py."""

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.site import QUICK, Site


class ClusterSite(Site):
    """One web process of several on one PostgreSQL database."""

    def __init__(self, data_dir: Path, model_dir: Path, database_url: str, times: Mapping[str, str] = QUICK):
        data_dir.mkdir(exist_ok=True)
        super().__init__(data_dir, model_dir, DATABASE_URL=database_url, SECRET_KEY="cluster-" + "k" * 50, **times)
