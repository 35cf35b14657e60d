"""Owns what Django is told of its database: PostgreSQL by an address, else a SQLite file. Reads no environment."""

import os
import tempfile
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

# Connections are kept open: queries run on a few shared threads (SHARED_THREADS and those of
# streaming.store.threads), never on one of a request's own, so connections do not grow with requests.
CONNECTIONS = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}

#: What holds for each connection to PostgreSQL.
LIMITS = {
    # An owner that was paused inside a transaction must not keep its rows locked.
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    # What is not an event cannot be written again from memory, whatever the server's default is.
    "synchronous_commit": "on",
}


def databases(url: str, password: str, folder: Path, *, timeout_s: float, pooled: bool) -> dict[str, dict[str, Any]]:
    """As the setting DATABASES. ``timeout_s`` is how long SQLite, in ``folder``, waits for a lock.

    ``pooled`` says that PgBouncer is at the address. Raises ImproperlyConfigured for one that is not PostgreSQL's.
    """
    return {"default": (_postgresql(url, password, pooled) if url else _sqlite(folder, timeout_s)) | CONNECTIONS}


def _postgresql(url: str, password: str, pooled: bool) -> dict[str, Any]:
    parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    if parsed["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured("DATABASE_URL must be a postgresql:// URL; without it there is a SQLite file")
    # Between two statements a pooler may give the connection, with the cursor on it, to somebody else.
    parsed["DISABLE_SERVER_SIDE_CURSORS"] = pooled
    parsed["OPTIONS"] = {
        **({} if pooled else {"options": " ".join(f"-c {name}={value}" for name, value in LIMITS.items())}),
        # A host that is gone without a word: seconds, not the quarter of an hour that the kernel would try.
        "connect_timeout": "5",
        "tcp_user_timeout": "10000",
        **parsed.get("OPTIONS", {}),
    }
    if password:
        parsed["PASSWORD"] = password
    return parsed


def _sqlite(folder: Path, timeout_s: float) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": folder / "db.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": timeout_s,
            # A checkpoint waits for the disk, and a commit for it: four times as rarely as SQLite would.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=4000;"
            # What is deleted is overwritten, not only unlisted.
            " PRAGMA secure_delete=ON;",
        },
        # A file also in tests: threads with a connection each, as in production.
        "TEST": {"NAME": Path(tempfile.gettempdir()) / f"chatsite-test-{os.getpid()}.sqlite3"},
    }
