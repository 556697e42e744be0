"""The database behind a ledger: SQLite or PostgreSQL through SQLAlchemy Core, its schema, and errors people can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, exc

from dphist.errors import MissingExtra, UnusableLedger
from dphist.version import __version__

SCHEMA: Final = 2
"""The version this code writes. 1: the tables. 2: triggers that refuse to change or delete entries."""

WAIT: Final = 60
"""Seconds a charge waits for others before it gives up."""

_ADVISORY = 0x6470_6869  # "dphi": one lock for making and migrating the schema

metadata = sa.MetaData()
schema_table = sa.Table("dphist_schema", metadata, sa.Column("version", sa.Integer, nullable=False))
datasets = sa.Table("dphist_datasets", metadata, sa.Column("name", sa.Text, primary_key=True))
entries = sa.Table(
    "dphist_entries",
    metadata,
    sa.Column("dataset", sa.Text, sa.ForeignKey("dphist_datasets.name"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("noise_total", sa.Text, nullable=False),
    sa.Column("delta_total", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)


_VERSION = sa.select(schema_table.c.version)
_LOCK = (  # the version again, with the row of a data set locked
    sa.select(schema_table.c.version)
    .join_from(datasets, schema_table, sa.true())
    .where(datasets.c.name == sa.bindparam("dataset"))
    .with_for_update(of=datasets)
)


class Database:
    """An address, and transactions on it."""

    def __init__(self, address: str | Path, *, create: bool = False) -> None:
        self._url = _parse(address, create=create)
        self.shown = self._url.database if self.is_sqlite else self._url.render_as_string(hide_password=True)
        arguments: dict[str, Any]
        if self.is_sqlite:
            arguments = {"timeout": WAIT}
        else:
            settings = (
                f"-c lock_timeout={WAIT}s -c synchronous_commit=on -c idle_in_transaction_session_timeout={WAIT}s"
            )
            arguments = {"connect_timeout": 10, "options": settings}
        with self._translated():
            self._engine = sa.create_engine(self._url, connect_args=arguments)
        if self.is_sqlite:
            event.listen(self._engine, "connect", _configure_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self._url.get_backend_name() == "sqlite"

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state."""
        with self._translated(), self._engine.connect() as connection, connection.begin():
            self._check_version(connection)
            yield connection

    @contextmanager
    def write(self, dataset: str) -> Iterator[sa.Connection]:
        """A transaction that is alone on this data set until it ends: SQLite locks the file, PostgreSQL its row."""
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(dphist_begin="BEGIN IMMEDIATE")
            with connection.begin():
                if self._check_version(connection, dataset) < SCHEMA:
                    self._lock_schema(connection)
                    _migrate(connection, self._check_version(connection))
                yield connection

    def prepare(self) -> None:
        """Make the tables if there are none, and bring older ones up to date."""
        if self.is_sqlite:
            with self._translated(), self._engine.connect() as plain:  # the mode cannot change inside a transaction
                bare = plain.execution_options(dphist_begin="")
                mode = bare.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
                if mode != "wal":
                    raise UnusableLedger(
                        "a file system with write-ahead logging", mode, "put the ledger on a local disk."
                    )
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(dphist_begin="BEGIN IMMEDIATE")
            with connection.begin():
                self._lock_schema(connection)
                if not sa.inspect(connection).has_table(schema_table.name):
                    metadata.create_all(connection)
                    connection.execute(sa.insert(schema_table).values(version=1))
                _migrate(connection, self._check_version(connection))

    def _lock_schema(self, connection: sa.Connection) -> None:
        if not self.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY)))

    def _check_version(self, connection: sa.Connection, lock: str | None = None) -> int:
        """The version of the schema, if this code can use it; `lock` names a data set to be locked."""
        try:
            version = None
            if lock is not None:
                version = connection.execute(_LOCK, {"dataset": lock}).scalar_one_or_none()
            if version is None:
                version = connection.execute(_VERSION).scalar_one_or_none()
        except (exc.OperationalError, exc.ProgrammingError):
            if sa.inspect(self._engine).has_table(schema_table.name):
                raise
            raise UnusableLedger(f"a ledger at {self.shown}", "a database without one", _CREATE) from None
        if version is None or not 1 <= version <= SCHEMA:
            raise UnusableLedger(
                f"a ledger of version {SCHEMA} or older",
                f"version {version}",
                f"it was written by a newer dphist than {__version__}; nothing was changed.",
            )
        return int(version)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of drivers as errors of the ledger; their first line, which holds no password."""
        try:
            yield
        except ModuleNotFoundError as problem:
            if problem.name != "psycopg":
                raise
            raise MissingExtra("postgres", "a ledger in PostgreSQL") from None
        except exc.NoSuchModuleError:
            raise UnusableLedger("a path, sqlite:// or postgresql:// address", self.shown) from None
        except exc.DBAPIError as problem:
            reason = str(problem.orig).strip().splitlines()[0]
            raise UnusableLedger(f"to use the ledger at {self.shown}", f"an error ({reason})", _hint(reason)) from None


_CREATE = "dphist ledger create makes one."


def _hint(reason: str) -> str:
    if "unable to open" in reason:
        return f"check the path; {_CREATE}"
    if "readonly" in reason or "read-only" in reason or "permission denied" in reason:
        return "nothing was charged: it cannot be written to."
    if "locked" in reason or "timeout" in reason:
        return "another process held it for too long; try again."
    if "not a database" in reason or "malformed" in reason:
        return "the file is something else or damaged; restore a backup."
    return "check the address, the server and the user's rights."


def _parse(address: str | Path, *, create: bool) -> sa.URL:
    """A path is a file of SQLite, which is made only on purpose: a wrong path must not begin an empty ledger."""
    text = str(address)
    if not text:
        raise UnusableLedger("a path or an address of a ledger", "nothing")
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", "something else") from None
    if url.get_backend_name() in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", url.get_backend_name() + "://")
    if not url.database or url.database == ":memory:":
        raise UnusableLedger("a file", "memory", "a ledger must outlive the process.")
    if url.database.startswith("file:"):
        return url
    path = Path(url.database).absolute()
    if create and not path.parent.is_dir():
        raise UnusableLedger("an existing folder for the ledger", str(path.parent), "create it first.")
    if not create and not path.exists():
        raise UnusableLedger(f"a ledger at {path}", "no file", f"check the path; {_CREATE}")
    return url.set(database=str(path))


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    if statement := connection.get_execution_options().get("dphist_begin", "BEGIN"):
        connection.exec_driver_sql(statement)


def _migrate(connection: sa.Connection, version: int) -> None:
    """Bring the schema up to date, step by step, inside the transaction of the caller."""
    if version < 2:
        _refuse_changes(connection)
    if version < SCHEMA:
        connection.execute(sa.update(schema_table).values(version=SCHEMA))


def _refuse_changes(connection: sa.Connection) -> None:
    """Version 2: the database itself refuses to change or delete an entry. Who may drop a trigger can still do it."""
    name = entries.name
    if connection.dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name}"
                " BEGIN SELECT RAISE(ABORT, 'entries of a ledger are never changed'); END"
            )
        return
    connection.exec_driver_sql(
        f"CREATE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'entries of a ledger are never changed'; END$$"
    )
    connection.exec_driver_sql(
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {name}_refuse()"
    )
