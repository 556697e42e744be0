"""The database behind a ledger: SQLite or PostgreSQL through SQLAlchemy Core, its address and schema, and readable errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus

import sqlalchemy as sa
from sqlalchemy import event, exc

from dphist.errors import MissingExtra, UnusableLedger
from dphist.files.outputs import near
from dphist.files.stored import check_version

SCHEMA: Final = 3
"""The version of the tables and of the triggers that refuse to change, delete or replace entries."""

WAIT: Final = 60
"""Seconds a charge waits for others before it gives up."""

CREATE: Final = "dphist ledger create makes one."
_JOURNAL: Final = "delete"
_ABORT: Final = "BEGIN SELECT RAISE(ABORT, 'entries of a ledger are never changed'); END"
_ADVISORY = 0x6470_6869  # "dphi": one lock for making the schema

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
        self._url = parse_address(address, create=create)
        self._file = Path(str(self._url.database)) if self.is_sqlite else None
        self._check_single_name()
        self.shown = show_address(self._url)
        options: dict[str, Any] = {"connect_args": {"timeout": WAIT}}
        if not self.is_sqlite:
            limits = f"-c lock_timeout={WAIT}s -c synchronous_commit=on -c idle_in_transaction_session_timeout={WAIT}s"
            # After waiting for its row, a charge must see earlier charges, whatever the server's default is.
            options = {
                "connect_args": {"connect_timeout": 10, "options": limits},
                "isolation_level": "READ COMMITTED",
            }
        with self._translated():
            self._engine = sa.create_engine(self._url, **options)
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

    def _connect(self) -> sa.Connection:
        try:
            return self._engine.connect()
        except (ValueError, OSError):  # of the driver itself, which may quote the address
            pass
        raise UnusableLedger("an address that the driver can read", "another one", "check its parts, one by one.")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sa.Connection]:
        with self._translated(), self._connect() as plain:
            connection = plain.execution_options(dphist_begin=begin)
            with connection.begin():
                yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction for reading."""
        with self._transaction("BEGIN") as connection:
            self._check_version(connection)
            yield connection

    @contextmanager
    def write(self, dataset: str, *, alone: bool = False) -> Iterator[sa.Connection]:
        """A transaction that is alone on this data set until it ends: SQLite locks the file, PostgreSQL its row.

        alone: for a data set that has no row yet; no two of these run at the same time.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            self._check_in_file(connection)
            if alone:
                self._lock_schema(connection)
            self._check_version(connection, dataset)
            yield connection

    def prepare(self) -> None:
        """Make the tables if there are none."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            self._check_in_file(connection)
            self._lock_schema(connection)
            if not sa.inspect(connection).has_table(schema_table.name):
                metadata.create_all(connection)
                connection.execute(sa.insert(schema_table).values(version=SCHEMA))
                _refuse_changes(connection)
            self._check_version(connection)

    def _check_in_file(self, connection: sa.Connection) -> None:
        """Refuse a file whose transactions would end up elsewhere: under a second name, or in a log beside it."""
        if self._file is None:
            return
        self._check_single_name()
        if (mode := connection.exec_driver_sql("PRAGMA journal_mode").scalar()) != _JOURNAL:
            hint = "close whatever else has the file open, and try again; nothing was charged."
            raise UnusableLedger(f"a ledger with the journal mode {_JOURNAL}", mode, hint)

    def _check_single_name(self) -> None:
        """Refuse a file with two names: SQLite keeps a journal for each name, and so two budgets."""
        if self._file is not None and self._file.exists() and self._file.stat().st_nlink > 1:
            expected, got = f"{self._file.name} to be a file with one name", "one with a second (a hard link)"
            hint = "remove the other name first, or make it a symbolic link; nothing was charged."
            raise UnusableLedger(expected, got, hint)

    def _lock_schema(self, connection: sa.Connection) -> None:
        if not self.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY)))

    def _check_version(self, connection: sa.Connection, lock: str | None = None) -> None:
        """Refuse a schema of another version; `lock` names a data set to be locked."""
        try:
            version = None
            if lock is not None:
                version = connection.execute(_LOCK, {"dataset": lock}).scalar_one_or_none()
            if version is None:
                version = connection.execute(_VERSION).scalar_one_or_none()
        except (exc.OperationalError, exc.ProgrammingError):
            if sa.inspect(self._engine).has_table(schema_table.name):
                raise
            raise UnusableLedger(f"a ledger at {self.shown}", "a database without one", CREATE) from None
        remedy = "nothing was changed; charge to a new ledger"
        check_version(version, SCHEMA, "a ledger", remedy, error=UnusableLedger)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of drivers as errors of the ledger: their first line, without the password."""
        try:
            yield
        except ModuleNotFoundError as problem:
            if problem.name != "psycopg":
                raise
            raise MissingExtra("postgres", "a ledger in PostgreSQL") from None
        except UnicodeEncodeError:
            raise UnusableLedger("names in UTF-8", "another one") from None
        except exc.ArgumentError:
            raise UnusableLedger("a path, sqlite:// or postgresql:// address", self.shown) from None
        except exc.DBAPIError as problem:
            reason = _without_secrets(str(problem.orig).strip().splitlines()[0], self._url)
            if "decode" in reason:  # it also quotes the bytes
                raise self._damaged() from None
            raise UnusableLedger(f"to use the ledger at {self.shown}", f"an error ({reason})", _hint(reason)) from None
        except (exc.SQLAlchemyError, UnicodeDecodeError):  # rows or texts that no ledger wrote
            raise self._damaged() from None

    def _damaged(self) -> UnusableLedger:
        return UnusableLedger(f"a readable ledger at {self.shown}", "a damaged one", _hint("malformed"))


def parse_address(address: str | Path, *, create: bool) -> sa.URL:
    """A path is a file of SQLite, which is made only on purpose: a wrong path must not begin an empty ledger."""
    text = str(address)
    if not text.strip():
        raise UnusableLedger("a path or an address of a ledger", "nothing")
    if "\0" in text:
        raise UnusableLedger("a path or an address of a ledger", "one with a NUL in it")
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", "something else") from None
    if "\0" in (url.database or ""):  # %00
        raise UnusableLedger("a path or an address of a ledger", "one with a NUL in it")
    if url.get_backend_name() in ("postgresql", "postgres"):
        if text.count("@") > 1:  # the first may be a part of the password, so that no host follows it
            hint = "write %40 for the others, or keep the password in a file (.pgpass)."
            raise UnusableLedger("an address with one @", "more of them", hint)
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", url.get_backend_name() + "://")
    if any((url.username, url.password, url.host, url.port)):
        raise UnusableLedger(
            "sqlite:/// before a path", "sqlite:// before a host", "a relative path has three slashes."
        )
    if not url.database or url.database == ":memory:":
        raise UnusableLedger("a file", "memory", "a ledger must outlive the process.")
    if url.query or url.database.startswith("file:"):
        options = "options of SQLite or a file: address"
        raise UnusableLedger("a plain path to the ledger", options, "some of them turn locks off.")
    try:
        path = Path(url.database).resolve()
        here, folder = path.exists(), path.parent.is_dir()
    except OSError as problem:
        raise UnusableLedger("a path to a ledger", f"one that cannot be used ({problem.strerror})") from None
    if create and not folder:
        raise UnusableLedger("an existing folder for the ledger", str(path.parent), "create it first.")
    if not create and not here:
        hint = near(path).removesuffix(".")
        raise UnusableLedger(f"a ledger at {path}", "no file", f"{hint}{'' if hint.endswith('?') else ';'} {CREATE}")
    if here and not path.is_file():
        raise UnusableLedger("a file", f"{path}, which is none", f"check the path; {CREATE}")
    return url.set(drivername="sqlite", database=str(path))


def show_address(url: sa.URL) -> str:
    """An address in words. Everything else in it, the query included, may hold a password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host") or "the local server"
    return f"{host if isinstance(host, str) else host[0]}/{url.database or ''}"


def _without_secrets(text: str, url: sa.URL) -> str:
    """A message of a driver without the passwords of the address, as they are or escaped."""
    given = [value for name, value in url.query.items() if "pass" in name.lower() or name == "options"]
    secrets = [url.password, *(one for value in given for one in ([value] if isinstance(value, str) else value))]
    for secret in filter(None, secrets):
        for spelled in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]):
            text = text.replace(spelled, "***")
    return text


def _hint(reason: str) -> str:
    """A hint for an error of a driver."""
    if "unable to open" in reason:
        return f"check the path; {CREATE}"
    if "readonly" in reason or "read-only" in reason or "permission denied" in reason:
        return "nothing was charged: it cannot be written to."
    if "locked" in reason or "timeout" in reason:
        return "another process held it for too long; try again."
    if "not a database" in reason or "malformed" in reason:
        return "the file is something else or damaged; restore a backup."
    return "check the address, the server and the user's rights."


def _configure_sqlite(connection: Any, _record: object) -> None:
    """A rollback journal, and not the faster write-ahead log: every charge must be in the file itself.

    With a log, a finished charge can be in ledger.db-wal alone, and ledger.db moved or copied without it forgets the charge.
    EXTRA also makes the end of the journal durable: a journal that a loss of power brought back would undo a finished charge.
    """
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA journal_mode={_JOURNAL}")  # also writes an existing log into the file
    except sqlite3.OperationalError as problem:
        if "readonly" not in str(problem):  # which can be read as it is; a charge will be refused
            raise
    cursor.execute("PRAGMA synchronous=EXTRA")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("dphist_begin", "BEGIN"))


def _refuse_changes(connection: sa.Connection) -> None:
    """The database itself refuses to change, delete or replace an entry. A user who may drop triggers can still change
    entries.
    """
    name = entries.name
    if connection.dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(f"CREATE TRIGGER {name}_no_{action.lower()} BEFORE {action} ON {name} {_ABORT}")
        # INSERT OR REPLACE deletes without a trigger in SQLite. In PostgreSQL such a statement is an update already.
        connection.exec_driver_sql(
            f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} WHEN EXISTS (SELECT 1 FROM {name}"  # noqa: S608
            f" WHERE (dataset = NEW.dataset AND sequence = NEW.sequence) OR rowid = NEW.rowid) {_ABORT}"
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
