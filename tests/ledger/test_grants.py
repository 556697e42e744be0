"""The rights that docs/ledger.md asks for in PostgreSQL: enough to charge and to read, none too many, and history stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

from dphist.errors import UnusableLedger
from dphist.ledger import DataSet, Ledger
from dphist.privacy.composition import of_pure

DOCS = Path(__file__).resolve().parents[2] / "docs" / "ledger.md"
GRANTS = re.findall(r"^GRANT .*;$", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
SMALL = of_pure(0.01, 1e-9)
REWRITES = (
    "UPDATE dphist_entries SET body = '{}'",
    "DELETE FROM dphist_entries",
    "DELETE FROM dphist_entries WHERE sequence = 1",
    "TRUNCATE dphist_entries",
    "INSERT INTO dphist_entries SELECT * FROM dphist_entries WHERE sequence = 1",
    "INSERT INTO dphist_entries SELECT * FROM dphist_entries ON CONFLICT (dataset, sequence) DO UPDATE SET body = '{}'",
    "UPDATE dphist_datasets SET name = 'others'",
    "DELETE FROM dphist_datasets",
    "INSERT INTO dphist_datasets VALUES ('others')",
    "UPDATE dphist_schema SET version = 1",
    "DROP TRIGGER dphist_entries_append_only ON dphist_entries",
    "ALTER TABLE dphist_entries DISABLE TRIGGER ALL",
    "CREATE OR REPLACE FUNCTION dphist_entries_refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$",
    "DROP TABLE dphist_entries",
    "SET session_replication_role = replica",
)
_numbers = count()


@contextmanager
def roles(database: str, grants: list[str]) -> Iterator[tuple[str, str]]:
    """A ledger with one charge, and the addresses of an analyst and an auditor who were given these rights."""
    mark = next(_numbers)
    names = {role: f"{role}_{mark}" for role in ("analyst", "auditor")}
    with Ledger(database, create=True) as opened:
        opened.create(DataSet("events", 1.0, 1e-6, "user", "basic"))
        _charge(opened)
    with psycopg.connect(database, autocommit=True) as owner:
        for name in names.values():
            owner.execute(f"CREATE ROLE {name} LOGIN")
        for grant in grants:
            owner.execute(re.sub("analyst|auditor", lambda word: names[word[0]], grant))
        server = database.partition("@")[2]
        yield f"postgresql://{names['analyst']}@{server}", f"postgresql://{names['auditor']}@{server}"
        for name in names.values():
            owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def _charge(opened: Ledger) -> None:
    entry = opened.reserve("events", SMALL, unit="user", command="release", facts={})
    opened.commit("events", entry.sequence, output="out.csv")


def test_the_written_rights_let_an_analyst_charge_and_an_auditor_read(postgres_database: str) -> None:
    assert len(GRANTS) == 4
    with roles(postgres_database, GRANTS) as (analyst, auditor):
        with Ledger(analyst) as opened:
            _charge(opened)
            opened.record("events", SMALL, unit="user", protects="unit", note="elsewhere", declared={})
        with Ledger(auditor) as opened:
            assert all(check.passed for check in opened.verify("events"))
            assert len(opened.entries("events")) == len(opened.export("events")["entries"]) == 6
            assert opened.status("events").dataset.name == "events"
            with pytest.raises(UnusableLedger, match="permission denied"):
                _charge(opened)


@pytest.mark.parametrize("left_out", GRANTS)
def test_none_of_the_rights_is_too_many(left_out: str, postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")  # as it is granted to everybody
    with (
        roles(postgres_database, [grant for grant in GRANTS if grant != left_out]) as (analyst, _),
        pytest.raises(UnusableLedger),
        Ledger(analyst) as opened,
    ):
        _charge(opened)


def test_nobody_who_charges_can_rewrite_history(postgres_database: str) -> None:
    with roles(postgres_database, GRANTS) as (analyst, auditor):
        with Ledger(auditor) as opened:
            before = opened.export("events")
        for statement in REWRITES:
            with psycopg.connect(analyst, autocommit=True) as connection, pytest.raises(psycopg.Error):
                connection.execute(statement)
        with Ledger(auditor) as opened:
            assert opened.export("events") == before
            assert all(check.passed for check in opened.verify("events", before["head"]))
