"""Owns the promise that the cluster's PostgreSQL starts in any folder, at an address that stays the same."""

import os

import psycopg
import pytest

from deploy.setup import postgres
from deploy.setup.console import SetupError


def test_a_folder_whose_name_is_too_long_for_a_socket_has_it_elsewhere(tmp_path, monkeypatch):
    folder = tmp_path / ("a long name " * 8)
    monkeypatch.setenv("DATA_DIR", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    del os.environ["XDG_RUNTIME_DIR"]  # which the server's set-up sets where there is none, for its process
    addresses = []
    for _ in range(2):
        with postgres.prepared(folder) as address, psycopg.connect(address) as connection:
            addresses.append(address)
            assert connection.execute("SHOW data_directory").fetchone() == (str(folder / "postgres"),)
    assert addresses[0] == addresses[1]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(addresses[0])


def test_a_folder_that_somebody_else_put_in_the_sockets_place_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    data = tmp_path / ("a long name " * 8) / "postgres"
    data.mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    sockets = tmp_path / "temporary" / postgres.socket_folder_name(data)
    sockets.parent.mkdir()
    sockets.symlink_to(tmp_path / "theirs")
    with pytest.raises(SetupError, match="belongs to somebody else"):
        postgres.socket_folder(data)
