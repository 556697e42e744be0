"""A PostgreSQL server for the tests: a private directory, a free port, one per test process. No server, no passing test."""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_names = itertools.count()


def _program(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    assert found is not None, f"{name} is missing: make postgres installs it"
    return os.path.realpath(found)


def _run(*command: str) -> None:
    """Run as an ordinary user: PostgreSQL refuses root."""
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    done = subprocess.run([*user, *command], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running_server(settings: str = "") -> Iterator[str]:
    """The address of a fresh server's maintenance database; the server ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="dphist-postgres-", dir="/tmp"))  # a socket's path must be short
    if os.getuid() == 0:
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data, control = str(folder / "data"), _program("pg_ctl")
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    try:
        _run(_program("initdb"), "-D", data, "-U", user, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} {settings}"
        _run(control, "-D", data, "-w", "-t", "60", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://{user}@127.0.0.1:{port}/postgres"
        finally:
            _run(control, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """One server for the tests of a process. Clients are killed in them, not the server."""
    with running_server("-c shared_buffers=16MB -c fsync=off") as address:
        yield address


@pytest.fixture
def postgres_database(postgres: str) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"ledger_{next(_names)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.rsplit("/", 1)[0] + f"/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a ledger, on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    found: str = request.getfixturevalue("postgres_database")
    return found
