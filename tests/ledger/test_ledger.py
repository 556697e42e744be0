"""The ledger on SQLite and on PostgreSQL: charges, refusals, chains, bad input."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from dphist.errors import BudgetExceeded, InvalidParameter, MissingExtra, UnusableLedger
from dphist.ledger import DataSet, Entry, Ledger, chain, database
from dphist.ledger import ledger as ledger_module
from dphist.ledger.dataset import Protects
from dphist.privacy.composition import PrivacyCost, of_declared_rho, of_gaussian, of_pure
from dphist.privacy.filters import ACCOUNTANTS, UNITS, Accountant, Amount
from dphist.words import canonical

EIGHTH = of_pure(0.125, 1e-8)


def make(address: str, accountant: Accountant = "basic", name: str = "events", **changes: object) -> Ledger:
    opened = Ledger(address, create=True)
    opened.create(replace(DataSet(name, 1.0, 1e-6, "user", accountant), **changes))  # type: ignore[arg-type]
    return opened


@contextmanager
def writing(address: str | Path) -> Iterator[sa.Connection]:
    """A transaction that holds the data set."""
    with closing(database.Database(address)) as opened, opened.write("events") as connection:
        yield connection


def spend(opened: Ledger, cost: PrivacyCost = EIGHTH, name: str = "events") -> Entry:
    return opened.reserve(name, cost, unit="user", command="release", facts={"mechanism": "test"})


def execute(address: str, *statements: str) -> None:
    """As someone with write access and bad intentions would."""
    engine = sa.create_engine(database.parse_address(address, create=False))
    try:
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
    finally:
        engine.dispose()


def drop_triggers(address: str) -> None:
    names = [f"dphist_entries_no_{action}" for action in ("update", "delete", "replace")]
    on = ""
    if address.startswith("postgresql"):
        names, on = ["dphist_entries_append_only"], " ON dphist_entries"
    execute(address, *(f"DROP TRIGGER {name}{on}" for name in names))


def test_a_single_release_of_the_whole_budget_fits_exactly_with_basic(address: str) -> None:
    with make(address) as opened:
        assert spend(opened, of_pure(1.0, 1e-6)).sequence == 1
        with pytest.raises(BudgetExceeded, match="epsilon 0 and delta 0"):
            spend(opened, of_pure(5e-324, 0.0))


def test_spends_add_up_until_nothing_is_left(address: str) -> None:
    with make(address) as opened:
        for _ in range(8):
            entry = spend(opened)
            opened.commit("events", entry.sequence, output="out.parquet")
        with pytest.raises(BudgetExceeded, match=r"left of 'events': epsilon 0 and delta 9.2e-07, got epsilon 0.125"):
            spend(opened)
        status = opened.status("events")
        assert status.total.noise == UNITS
        assert (len(status.spends), status.unconfirmed, status.more_like_the_last()) == (8, [], 0)
        assert all(check.passed for check in opened.verify("events"))
        assert "100.0 %" in str(status)


def test_a_reservation_that_was_never_confirmed_stays_spent_and_is_told(address: str) -> None:
    with make(address) as opened:
        spend(opened)
        with Ledger(address) as other:
            spend(other)  # the noise is drawn, then the process dies
        status = opened.status("events")
        assert len(status.unconfirmed) == 2
        assert status.total.noise == UNITS // 4
        assert "2 of them reserved and never confirmed" in str(status)


def test_only_an_open_reservation_can_be_confirmed(address: str) -> None:
    with make(address) as opened:
        entry = spend(opened)
        opened.commit("events", entry.sequence)
        for wrong in (entry.sequence, 0, 2, 99):
            with pytest.raises(InvalidParameter, match="an open reservation"):
                opened.commit("events", wrong)
        assert all(check.passed for check in opened.verify("events"))


def test_two_never_take_the_last_of_the_budget(address: str) -> None:
    with make(address, epsilon=0.375) as first:
        first.close()
    results: list[object] = []

    def take() -> None:
        with Ledger(address) as opened:
            try:
                results.append(spend(opened).sequence)
            except BudgetExceeded:
                results.append("refused")

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == [1, 2, 3, *["refused"] * 5]


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_every_accountant_refuses_what_does_not_fit_and_says_what_is_left(address: str, accountant: Accountant) -> None:
    cost = of_gaussian(0.1, 1e-9, epsilon=0.6, delta=1e-8)
    with make(address, accountant) as opened:
        taken = 0
        while (more := opened.status("events").more_like_the_last()) != 0:
            spend(opened, cost)
            taken += 1
            assert more is None or more == opened.status("events").more_like_the_last() + 1  # type: ignore[operator]
        with pytest.raises(BudgetExceeded, match="nothing was charged"):
            spend(opened, cost)
        assert taken == {"basic": 1, "gdp": 5, "zcdp": 4}[accountant]
        comparison = opened.status("events").to_data()["comparison"]
        assert comparison["pld"] <= comparison["gdp"] * (1 + 1e-6)  # losses are rounded up to a grid
        assert comparison["gdp"] <= comparison["zcdp"]
        assert comparison["gdp"] <= 1.0


def test_only_guarantees_about_the_same_neighbours_add_up(address: str) -> None:
    with make(address) as opened:
        with pytest.raises(InvalidParameter, match="the unit 'user', as 'events' protects, got 'device'"):
            opened.reserve("events", EIGHTH, unit="device", command="release", facts={})
        with pytest.raises(InvalidParameter, match="what one unit adds in one round"):
            opened.reserve("events", EIGHTH, unit="user", command="continual", facts={}, protects="event")
        assert opened.left("events")[1].noise == UNITS


def record(opened: Ledger, cost: PrivacyCost, *, unit: str = "user", protects: Protects = "unit") -> Entry:
    return opened.record(
        "events", cost, unit=unit, protects=protects, note="survey", declared={"epsilon": cost.epsilon}
    )


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_external_spends_are_recorded_whether_they_fit_or_not(address: str, accountant: Accountant) -> None:
    with make(address, accountant) as opened:
        record(opened, of_declared_rho(1e-6, 1e-9, convert_at=1e-9))
        first = spend(opened, of_pure(0.01, 0.0))
        assert [(check.name, check.passed) for check in opened.verify("events")] == [
            ("chain", True), ("sums", True), ("budget", True)
        ]  # fmt: skip
        record(opened, of_pure(5.0, 0.3))
        opened.commit("events", first.sequence)
        for use in (lambda: spend(opened), lambda: opened.check("events", EIGHTH, unit="user")):
            with pytest.raises(BudgetExceeded, match="spends recorded from elsewhere exceed the budget"):
                use()
        record(opened, of_pure(1e6, 1.0))
        status = opened.status("events")
        assert (status.exceeded, status.more_like_the_last(), len(status.spends)) == (True, 0, 4)
        assert status.total == status.entries[-1].total
        assert "none: recorded spends exceed the budget" in str(status)
        assert json.dumps(status.to_data(), allow_nan=False)
        assert [(check.name, check.passed) for check in opened.verify("events")] == [
            ("chain", True), ("sums", True), ("budget", False)
        ]  # fmt: skip
        assert opened.verify("events")[2].detail.startswith("exceeded by recorded spends")


def test_what_was_protected_elsewhere_must_be_what_the_data_set_protects(address: str) -> None:
    with make(address) as opened:
        with pytest.raises(InvalidParameter, match="got 'device'"):
            record(opened, EIGHTH, unit="device")
        with pytest.raises(InvalidParameter, match="what one unit adds in one round"):
            record(opened, EIGHTH, protects="event")
        assert len(opened.entries("events")) == 1
        assert record(opened, EIGHTH).body["protects"] == "unit"


def test_a_data_set_of_events_has_one_stream(address: str) -> None:
    """Days and weeks are different events: a week has seven of one, and removing a day changes a week in two steps."""
    with make(address, protects="event") as opened:

        def check() -> None:
            opened.check("events", EIGHTH, unit="user", protects="event")

        def start() -> None:
            opened.reserve("events", EIGHTH, unit="user", protects="event", command="continual", facts={})

        check()
        start()
        for use in (check, start):
            with pytest.raises(InvalidParameter, match=r"\(the first is entry 1\).*a data set for each stream"):
                use()
        record(opened, EIGHTH, protects="event")
        assert all(check.passed for check in opened.verify("events"))
        good = opened.entries("events")
    second = replace(good[2], kind="reserve")
    assert "entry 2 is a second stream" in chain.verify(_rebuilt([*good[:2], second]))[1].detail


def test_the_database_itself_refuses_changes(address: str) -> None:
    with make(address) as opened:
        spend(opened)
        for statement in ("UPDATE dphist_entries SET time = 'x'", "DELETE FROM dphist_entries WHERE sequence = 1"):
            with pytest.raises(sa.exc.DBAPIError, match="never changed"):
                execute(address, statement)


def test_an_entry_cannot_be_replaced(tmp_path: Path) -> None:
    """INSERT OR REPLACE deletes the row that is in the way, and SQLite runs no delete trigger for that."""
    address = str(tmp_path / "l.db")
    columns = "dataset, sequence, time, kind, body, '0', delta_total, previous, hash"
    with make(address) as opened:
        entry = spend(opened)
        for words in ("INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"):
            with pytest.raises(sa.exc.DBAPIError, match="never changed"):
                execute(address, f"{words} INTO dphist_entries SELECT {columns} FROM dphist_entries WHERE sequence = 1")
        with pytest.raises(sa.exc.DBAPIError, match="never changed"):  # by the number of its row
            execute(
                address,
                "INSERT OR REPLACE INTO dphist_entries (rowid, dataset, sequence, time, kind, body, noise_total, delta_total,"
                " previous, hash) SELECT rowid, dataset, 9, time, kind, body, '0', delta_total, previous, hash"
                " FROM dphist_entries WHERE sequence = 1",
            )
        assert opened.entry("events", 1) == entry
        assert spend(opened).sequence == 2


def test_an_upsert_is_refused_by_postgresql(postgres_database: str) -> None:
    with make(postgres_database) as opened:
        spend(opened)
        with pytest.raises(sa.exc.DBAPIError, match="never changed"):
            execute(
                postgres_database,
                "INSERT INTO dphist_entries SELECT * FROM dphist_entries WHERE sequence = 1"
                " ON CONFLICT (dataset, sequence) DO UPDATE SET noise_total = '0'",
            )


def test_charges_see_what_was_charged_while_they_waited(postgres_database: str) -> None:
    """With a server whose default is REPEATABLE READ, all but one of several charges at the same time would fail."""
    name = postgres_database.rsplit("/", 1)[1]
    with make(postgres_database):
        execute(postgres_database, f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    with closing(database.Database(f"{postgres_database}?options=-csynchronous_commit%3Doff")) as opened:
        for transaction in (opened.read(), opened.write("events")):
            with transaction as connection:
                assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
                assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_passwords_are_not_told() -> None:
    for address in (
        "postgresql://me:s3cret@127.0.0.1:1/ledger",
        "postgresql://127.0.0.1:1/ledger?user=me&password=s3cret",
        "postgresql:///ledger?host=127.0.0.1&port=1&password=s3cret",
        "postgresql:///ledger?host=127.0.0.1&host=127.0.0.2&port=1&password=s3cret",
        "postgresql://me:pass@s3cret@127.0.0.1:1/ledger",
        "postgresql://me@127.0.0.1:1/ledger?sslmode=s3cret&sslpassword=s3cret",
    ):
        with pytest.raises(UnusableLedger) as problem, Ledger(address) as opened:
            opened.names()
        assert "s3cret" not in str(problem.value)
    assert database.show_address(sa.make_url("postgresql:///ledger")) == "the local server/ledger"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE dphist_entries SET body = replace(body, '0.125', '0.1') WHERE sequence = 1", "entry 1 was changed"),
        ("UPDATE dphist_entries SET noise_total = '1' WHERE sequence = 2", "entry 2 was changed"),
        ("DELETE FROM dphist_entries WHERE sequence = 1", "entry 1 is missing"),
        ("UPDATE dphist_entries SET previous = hash WHERE sequence = 2", "entry 2 does not follow"),
        ("UPDATE dphist_entries SET body = replace(body, '1e-06', '1e-05') WHERE sequence = 0", "entry 0 was changed"),
    ],
)
def test_an_edit_is_detected(address: str, statement: str, said: str) -> None:
    with make(address) as opened:
        for _ in range(3):
            spend(opened)
        drop_triggers(address)
        execute(address, statement)
        found = opened.verify("events")
        assert not found[0].passed
        assert said in found[0].detail


def test_nothing_is_added_behind_a_changed_entry(address: str) -> None:
    with make(address) as opened:
        spend(opened)
        drop_triggers(address)
        execute(address, "UPDATE dphist_entries SET noise_total = '0' WHERE sequence = 1")
        with pytest.raises(UnusableLedger, match="an intact entry 1"):
            spend(opened)


def test_a_cut_off_tail_shows_only_against_an_exported_head(address: str) -> None:
    with make(address) as opened:
        spend(opened)
        early, head = opened.export("events")["head"], spend(opened).hash
        assert all(check.passed for check in opened.verify("events", early))
        drop_triggers(address)
        execute(address, "DELETE FROM dphist_entries WHERE sequence = 2")
        assert all(check.passed for check in opened.verify("events"))
        assert [check.passed for check in opened.verify("events", head)] == [True, True, True, False]
        assert all(check.passed for check in opened.verify("events", early))


def _rebuilt(entries: list[Entry]) -> list[Entry]:
    """The chain as someone with write access could make it anew."""
    previous, found = chain.BEGINNING, []
    for entry in entries:
        fresh = replace(entry, previous=previous)
        fresh = replace(fresh, hash=fresh.digest())
        found.append(fresh)
        previous = fresh.hash
    return found


def test_a_rebuilt_chain_must_still_add_up(tmp_path: Path) -> None:
    with make(str(tmp_path / "l.db")) as opened:
        entry = spend(opened)
        opened.commit("events", entry.sequence)
        good = opened.entries("events")
    assert all(check.passed for check in chain.verify(_rebuilt(good)))
    lower = replace(good[1], noise_total=0)
    twice = replace(good[2], sequence=3)
    body = {**good[0].body, "noise_limit": str(UNITS // 16)}
    hollow = replace(good[1], body={"command": "release"})
    for wrong, said in (
        ([good[0], lower, good[2]], "the sums of entry 1 are wrong"),
        ([*good, twice], "entry 3 confirms a reservation that is not open"),
        ([replace(good[0], body=body), *good[1:]], "entry 1 was charged beyond the budget"),
        ([good[0], hollow], "a valid cost in entry 1"),
        ([good[0], replace(good[1], kind="create")], "entry 1 is of the wrong kind"),
    ):
        found = [check for check in chain.verify(_rebuilt(wrong)) if not check.passed]
        assert said in found[0].detail


def _with_limits(first: Entry, factor: float) -> Entry:
    limits = {name: str(int(int(first.body[name]) * factor)) for name in ("noise_limit", "delta_limit")}
    return replace(first, body={**first.body, **limits})


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_limits_are_those_of_the_budget_whatever_is_stored(address: str, accountant: Accountant) -> None:
    with pytest.raises(TypeError):
        DataSet("d", 1.0, 1e-6, "user", accountant, noise_limit=2**270)  # type: ignore[call-arg]
    forged = DataSet("forged", 1.0, 1e-6, "user", accountant)
    object.__setattr__(forged, "noise_limit", forged.noise_limit * 2)
    with make(address, accountant) as opened:
        with pytest.raises(UnusableLedger, match="limits that the budget"):
            opened.create(forged)
        assert opened.names() == ["events"]
        first = opened.entries("events")[0]
        drop_triggers(address)
        for factor, holds in ((0.5, True), (1 + 1e-10, True), (1 + 1e-8, False), (100, False), (-1, False)):
            entry = _rebuilt([_with_limits(first, factor)])[0]
            changed = {"body": canonical(entry.body), "hash": entry.hash}
            with writing(address) as connection:
                connection.execute(sa.update(database.entries).values(changed))
            with Ledger(address) as other:
                found = other.verify("events")
                assert all(check.passed for check in found) == holds
                if holds:
                    assert other.dataset("events").noise_limit == int(entry.body["noise_limit"])
                    continue
                assert "limits that the budget" in next(check.detail for check in found if not check.passed)
                for use in (lambda: other.dataset("events"), lambda: other.status("events"), lambda: spend(other)):
                    with pytest.raises(UnusableLedger, match="limits that the budget"):
                        use()


def test_a_clock_that_goes_back_is_written_down(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with make(address) as opened:
        past = dt.datetime(2001, 1, 1, tzinfo=dt.UTC).isoformat(timespec="microseconds")
        monkeypatch.setattr(ledger_module, "_now", lambda: past)
        entry = spend(opened)
        assert "behind the entry before it" in entry.body["clock"]
        monkeypatch.undo()
        assert "clock" not in spend(opened).body
        assert all(check.passed for check in opened.verify("events"))
        assert opened.status("events").total.noise == UNITS // 4


@pytest.mark.parametrize("version", [1, 2, 99])
def test_another_schema_is_refused_and_left_alone(address: str, version: int) -> None:
    with make(address) as opened:
        execute(address, f"UPDATE dphist_schema SET version = {version}")
        for use in (lambda: spend(opened), lambda: opened.status("events"), lambda: Ledger(address, create=True)):
            with pytest.raises(UnusableLedger, match=f"a ledger of version 3, got version {version}"):
                use()
        execute(address, "UPDATE dphist_schema SET version = 3")
        assert len(opened.entries("events")) == 1


def test_wrong_addresses(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.db").write_text("this is no database, and long enough to be looked at as one" * 20)
    (tmp_path / "empty.db").touch()
    for address, said in (
        (tmp_path / "nowhere.db", "got no file. Hint: check the path"),
        (tmp_path / "text.db", "not a database"),
        (tmp_path / "empty.db", "a database without one"),
        (postgres, "a database without one"),
        (postgres.rsplit("/", 1)[0] + "/missing", "does not exist"),
        ("postgresql://me:secret@127.0.0.1:1/ledger", "refused"),
        ("mysql://host/ledger", "got mysql://"),
        ("sqlite://", "a ledger must outlive the process"),
        ("://", "got something else"),
        ("", "got nothing"),
    ):
        with pytest.raises(UnusableLedger, match=said) as problem, Ledger(address) as opened:
            opened.names()
        assert "secret" not in str(problem.value)
    with pytest.raises(UnusableLedger, match="an existing folder"):
        Ledger(tmp_path / "none" / "ledger.db", create=True)
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="postgres"):
        Ledger(postgres)


def test_a_ledger_that_is_held_too_long_is_an_error_not_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WAIT", 0.05)
    with (
        make(str(tmp_path / "l.db")),
        writing(tmp_path / "l.db"),
        Ledger(tmp_path / "l.db") as other,
        pytest.raises(UnusableLedger, match="held it for too long"),
    ):
        spend(other)


def test_a_damaged_body_is_told(tmp_path: Path) -> None:
    address = str(tmp_path / "l.db")
    with make(address) as opened:
        spend(opened)
        drop_triggers(address)
        for body in ("{", '{"a": "' + "x" * 2**18 + '"}'):  # the second is longer than one that is ever written
            execute(address, f"UPDATE dphist_entries SET body = '{body}' WHERE sequence = 1")
            with pytest.raises(UnusableLedger, match="readable JSON object in entry 1"):
                opened.verify("events")


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with make(str(tmp_path / "l.db")) as opened:
        asked = {"unit": "user", "protects": "unit", "declared": {"epsilon": 0.1}}
        with pytest.raises(InvalidParameter, match="facts of an entry"):
            opened.record("events", EIGHTH, note="x" * 300_000, **asked)  # type: ignore[arg-type]
        opened.record("events", EIGHTH, note="x" * 200_000, **asked)  # type: ignore[arg-type]
        assert all(check.passed for check in opened.verify("events"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("body", b"\xff"), ("body", "[]"), ("body", '{"cost": NaN}'), ("body", '{"a": 1, "a": 2}'), ("time", b"x"),
        ("kind", "gift"),
        ("noise_total", "1e9"), ("noise_total", "9" * 5000), ("noise_total", 1.5), ("delta_total", b"1"),
    ],
)  # fmt: skip
def test_rows_of_other_types_are_one_error(tmp_path: Path, column: str, value: object) -> None:
    address = str(tmp_path / "l.db")
    with make(address) as opened:
        spend(opened)
    drop_triggers(address)
    with closing(sqlite3.connect(address)) as plain:
        plain.execute(f"UPDATE dphist_entries SET {column} = ? WHERE sequence = 1", (value,))
        plain.commit()
    with Ledger(address) as opened:
        for use in (opened.verify, opened.status, opened.export, opened.left):
            with pytest.raises(UnusableLedger, match=r"^Expected ") as told:
                use("events")
            assert "gift" not in str(told.value)
            assert "999" not in str(told.value)


def test_names_are_used_once_and_must_be_known(address: str) -> None:
    with make(address) as opened:
        with pytest.raises(InvalidParameter, match="never changed once it is there"):
            opened.create(DataSet("events", 5.0, 1e-6, "user", "basic"))
        opened.create(DataSet("other", 5.0, 1e-6, "user", "basic"))
        assert opened.names() == ["events", "other"]
        spend(opened, of_pure(5.0, 0.0), "other")
        with pytest.raises(InvalidParameter, match="an entry of the data set 'other', got number 7"):
            opened.entry("other", 7)
        assert opened.left("events")[1].noise == UNITS
        for use in (opened.dataset, opened.entries, opened.left, lambda name: spend(opened, name=name)):
            with pytest.raises(InvalidParameter, match="a data set of this ledger"):
                use("nothing")


def test_names_that_look_like_others_are_refused(address: str) -> None:
    with make(address, name="caf\u00e9 events") as opened:
        for name in (
            "Caf\u00c9 events",
            "CAFE\u0301 Events",
            "caf\u00e9 events ",
            "\tother",
            "cafe\u0301",
            "caf\u00e9 \ufb01x ",
        ):
            with pytest.raises(InvalidParameter, match=r"a (new )?name"):
                opened.create(DataSet(name, 1.0, 1e-6, "user", "basic"))
        assert opened.names() == ["caf\u00e9 events"]
        opened.create(DataSet("\ufb01x", 1.0, 1e-6, "user", "basic"))
        with pytest.raises(InvalidParameter, match="beside"):
            opened.create(DataSet("FIX", 1.0, 1e-6, "user", "basic"))


def test_two_names_that_look_alike_are_not_made_at_the_same_time(address: str) -> None:
    Ledger(address, create=True).close()
    results: list[str] = []

    def begin(name: str) -> None:
        with Ledger(address) as opened:
            try:
                opened.create(DataSet(name, 1.0, 1e-6, "user", "basic"))
                results.append("made")
            except InvalidParameter:
                results.append("refused")

    threads = [threading.Thread(target=begin, args=(name,)) for name in ("events", "Events", "EVENTS", "eVents")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["made", "refused", "refused", "refused"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "a name"),
        ({"unit": ""}, "the unit"),
        ({"epsilon": 31.0}, "at most 30"),
        ({"epsilon": 0.0}, "epsilon > 0"),
        ({"delta": 0.0}, "delta in"),
        ({"accountant": "pld"}, "one of basic, gdp, zcdp"),
        ({"protects": "row"}, "one of unit, event"),
        ({"delta_share": 1.0}, "a share of delta"),
    ],
)
def test_bad_data_sets(changes: dict[str, object], said: str) -> None:
    given: dict[str, object] = {"name": "d", "epsilon": 1.0, "delta": 1e-6, "unit": "u", "accountant": "gdp", **changes}
    with pytest.raises(InvalidParameter, match=said):
        DataSet(**given)  # type: ignore[arg-type]


def test_a_thousand_spends_are_read_checked_and_composed(tmp_path: Path) -> None:
    """Built as a chain in memory and written at once; the speed is in benchmarks/ledger.py."""
    cost = of_gaussian(1e-3, 1e-13, epsilon=1e-3, delta=1e-12)
    address = str(tmp_path / "l.db")
    with make(address, "gdp") as opened:
        first = spend(opened, cost)
        rows, before = [], first
        for sequence in range(2, 1_001):
            total = before.total + first.total
            entry = replace(
                before, sequence=sequence, previous=before.hash, noise_total=total.noise, delta_total=total.delta
            )
            before = replace(entry, hash=entry.digest())
            rows.append({**before.to_data(), "body": canonical(before.body)})
        with writing(address) as connection:
            connection.execute(sa.insert(database.entries), rows)
        status = opened.status("events")
        assert len(status.spends) == 1_000
        assert status.total == status.entries[-1].total
        assert all(check.passed for check in opened.verify("events"))
        assert json.dumps(status.to_data())


def test_ten_releases_of_a_tenth_fit_and_an_eleventh_does_not(tmp_path: Path) -> None:
    """Ten doubles 0.1 are more than 1; ten times the decimal 0.1 is 1."""
    with Ledger(tmp_path / "ledger.db", create=True) as opened:
        opened.create(DataSet("events", 1.0, 1e-6, "user", "basic"))
        for _ in range(10):
            opened.reserve("events", of_pure(0.1, 1e-7), unit="user", command="release", facts={})
        assert opened.left("events")[1] == Amount()
        assert all(check.passed for check in opened.verify("events"))
        assert opened.status("events").to_data()["spent"] == {"epsilon": 1.0, "delta": 1e-6}
        with pytest.raises(BudgetExceeded):
            opened.reserve("events", of_pure(1e-9), unit="user", command="release", facts={})


def test_data_sets_whose_sums_are_not_decimal_are_refused() -> None:
    data = DataSet("events", 1.0, 1e-6, "user", "basic").to_data()
    assert DataSet.from_data(data).to_data() == data
    for body in ({**data, "numerals": "binary"}, {name: value for name, value in data.items() if name != "numerals"}):
        with pytest.raises(UnusableLedger, match=r"decimal, got one with others\. Hint: an older dphist wrote it"):
            DataSet.from_data(body)
