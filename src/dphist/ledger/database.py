"""The database behind a ledger: SQLite or PostgreSQL through SQLAlchemy Core, its schema, and errors people can read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event, exc

from dphist.errors import MissingExtra, UnusableLedger
from dphist.ledger import address as address_of
from dphist.version import __version__

SCHEMA: Final = 3
"""The version this code writes. 1: the tables. 2: triggers that refuse to change or delete entries. 3: or to replace them."""

WAIT: Final = 60
"""Seconds a charge waits for others before it gives up."""

_JOURNAL: Final = "delete"
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
        self._url = address_of.parse(address, create=create)
        self._file = Path(str(self._url.database)) if self.is_sqlite else None
        self._check_single_name()
        self.shown = address_of.shown(self._url)
        arguments: dict[str, Any]
        options: dict[str, Any] = {}
        if self.is_sqlite:
            arguments = {"timeout": WAIT}
        else:
            # After waiting for its row, a charge must see what was charged meanwhile, whatever the server's default is.
            options = {"isolation_level": "READ COMMITTED"}
            settings = (
                f"-c lock_timeout={WAIT}s -c synchronous_commit=on -c idle_in_transaction_session_timeout={WAIT}s"
            )
            arguments = {"connect_timeout": 10, "options": settings}
        with self._translated():
            self._engine = sa.create_engine(self._url, connect_args=arguments, **options)
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
        """A transaction for reading."""
        with self._translated(), self._engine.connect() as connection, connection.begin():
            self._check_version(connection)
            yield connection

    @contextmanager
    def write(self, dataset: str, *, alone: bool = False) -> Iterator[sa.Connection]:
        """A transaction that is alone on this data set until it ends: SQLite locks the file, PostgreSQL its row.

        alone: for a data set that has no row yet; no two of these run at the same time.
        """
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(dphist_begin="BEGIN IMMEDIATE")
            with connection.begin():
                self._check_in_file(connection)
                if alone:
                    self._lock_schema(connection)
                if self._check_version(connection, dataset) < SCHEMA:
                    self._lock_schema(connection)
                    _migrate(connection, self._check_version(connection))
                yield connection

    def prepare(self) -> None:
        """Make the tables if there are none, and bring older ones up to date."""
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(dphist_begin="BEGIN IMMEDIATE")
            with connection.begin():
                self._check_in_file(connection)
                self._lock_schema(connection)
                if not sa.inspect(connection).has_table(schema_table.name):
                    metadata.create_all(connection)
                    connection.execute(sa.insert(schema_table).values(version=1))
                _migrate(connection, self._check_version(connection))

    def _check_in_file(self, connection: sa.Connection) -> None:
        """What this transaction writes will be in the one file of this name when it ends, and nowhere else."""
        if self._file is None:
            return
        self._check_single_name()
        if (mode := connection.exec_driver_sql("PRAGMA journal_mode").scalar()) != _JOURNAL:
            raise UnusableLedger(
                f"a ledger with the journal mode {_JOURNAL}",
                mode,
                "close whatever else has the file open, and try again; nothing was charged.",
            )

    def _check_single_name(self) -> None:
        """Under a second name SQLite would keep, and after a crash look for, another journal: two names, two budgets."""
        if self._file is not None and self._file.exists() and self._file.stat().st_nlink > 1:
            raise UnusableLedger(
                f"{self._file.name} to be a file with one name",
                "one with a second (a hard link)",
                "remove the other name first, or make it a symbolic link; nothing was charged.",
            )

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
            raise UnusableLedger(f"a ledger at {self.shown}", "a database without one", address_of.CREATE) from None
        if version is None or not 1 <= version <= SCHEMA:
            raise UnusableLedger(
                f"a ledger of version {SCHEMA} or older",
                f"version {version}",
                f"it was written by a newer dphist than {__version__}; nothing was changed.",
            )
        return int(version)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of drivers as errors of the ledger: their first line, without the password."""
        try:
            yield
        except ModuleNotFoundError as problem:
            if problem.name != "psycopg":
                raise
            raise MissingExtra("postgres", "a ledger in PostgreSQL") from None
        except exc.ArgumentError:
            raise UnusableLedger("a path, sqlite:// or postgresql:// address", self.shown) from None
        except exc.DBAPIError as problem:
            reason = address_of.without_secrets(str(problem.orig).strip().splitlines()[0], self._url)
            raise UnusableLedger(
                f"to use the ledger at {self.shown}", f"an error ({reason})", address_of.hint(reason)
            ) from None


def _configure_sqlite(connection: Any, _record: object) -> None:
    """A rollback journal, and not the faster write-ahead log: what is charged must be in the file itself.

    With a log, a finished charge can be in ledger.db-wal alone, and ledger.db moved or copied without it forgets the charge.
    EXTRA also makes the end of the journal durable: a journal that a loss of power brought back would undo a finished charge.
    """
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA journal_mode={_JOURNAL}")  # also turns a log that is there into the file
    except sqlite3.OperationalError as problem:
        if "readonly" not in str(problem):  # which can be read as it is; a charge will be refused
            raise
    cursor.execute("PRAGMA synchronous=EXTRA")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("dphist_begin", "BEGIN"))


def _migrate(connection: sa.Connection, version: int) -> None:
    """Bring the schema up to date, step by step, inside the transaction of the caller."""
    if version < 2:
        _refuse_changes(connection)
    if version < 3:
        _refuse_replacing(connection)
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


def _refuse_replacing(connection: sa.Connection) -> None:
    """Version 3: INSERT OR REPLACE deletes without a trigger in SQLite. In PostgreSQL such a statement is an update already."""
    name = entries.name
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} WHEN EXISTS (SELECT 1 FROM {name}"  # noqa: S608
            " WHERE (dataset = NEW.dataset AND sequence = NEW.sequence) OR rowid = NEW.rowid)"
            " BEGIN SELECT RAISE(ABORT, 'entries of a ledger are never changed'); END"
        )
