"""The ledger: charge before noise is drawn, confirm when the result is written, never give back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from dphist.checks import Check
from dphist.columns import Unit, one_of
from dphist.errors import BudgetExceeded, InvalidParameter, UnusableLedger
from dphist.files import stored
from dphist.ledger import chain, database
from dphist.ledger.chain import Entry, Kind
from dphist.ledger.dataset import DataSet, Protects, check_new_name, folded
from dphist.ledger.status import Status
from dphist.notebook import card
from dphist.privacy.composition import PrivacyCost
from dphist.privacy.filters import Amount
from dphist.version import __version__
from dphist.words import budget, canonical, did_you_mean

Fits = Callable[[PrivacyCost], bool]
Advise = Callable[[Fits], Iterable[str]]

MOST_BODY: Final = 1 << 18
"""Most bytes of an entry's body. Some thousand are usual."""

_TABLE = database.entries


class Ledger:
    """Budgets and spends at an address. Use it in a with statement.

    Args:
        address: a path (SQLite), or sqlite:// or postgresql:// .
        create: make the file, or the tables in a database, where they are missing.

    Raises:
        UnusableLedger: there is none, or it cannot be read.

    Example:
        >>> with dp.Ledger("budget.db", create=True) as ledger:
        ...     entry = ledger.create(dp.DataSet("events", 2, 1e-6, "user_id", "gdp"))
        ...     ledger.names()
        ['events']
        >>> release = dp.release("events.parquet", unit="user_id", by="country", epsilon=0.2, delta=1e-8, max_groups=1,
        ...                      ledger="budget.db", dataset="events")
        >>> with dp.Ledger("budget.db") as ledger:
        ...     len(ledger.status("events").spends)
        1
    """

    def __init__(self, address: str | Path, *, create: bool = False) -> None:
        self._database = database.Database(address, create=create)
        self._known: dict[str, DataSet] = {}
        if create:
            try:
                self._database.prepare()
            except BaseException:
                self.close()
                raise

    def __repr__(self) -> str:
        return f"Ledger({self._database.shown!r})"

    def _repr_html_(self) -> str:
        budgets = [
            (name, f"{budget(one.epsilon, one.delta)} for {one_of(one.unit)}")
            for name in self.names()
            for one in [self.dataset(name)]
        ]
        return card(f"Ledger at {self._database.shown}", budgets or [("data sets", "none yet")])

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections.

        Example:
            >>> dp.Ledger("ledger.db").close()
        """
        self._database.close()

    def create(self, dataset: DataSet) -> Entry:
        """Begin a data set. No second data set may have its name, or one that looks like it.

        Args:
            dataset: the budget.

        Returns:
            The first entry of its chain.

        Raises:
            InvalidParameter: the name, or one like it, is in use.

        Example:
            >>> ledger.create(dp.DataSet("orders", 1, 1e-6, "customer", "gdp")).kind
            'create'
        """
        check_new_name(dataset.name)
        with self._database.write(dataset.name, alone=True) as connection:
            for row in connection.execute(sa.select(database.datasets)):
                if folded(row.name) == folded(dataset.name):
                    got, hint = f"{dataset.name!r} beside {row.name!r}", "names that differ in case only are mixed up."
                    if row.name == dataset.name:
                        got = f"{dataset.name!r}, which exists"
                        hint = "a budget is never changed once it is there; choose another --dataset."
                    raise InvalidParameter("a new name for a data set", got, hint)
            body = {**DataSet.from_data(dataset.to_data()).to_data(), "dphist": __version__}
            connection.execute(sa.insert(database.datasets).values(name=dataset.name))
            return _append(connection, dataset.name, None, "create", body, Amount())

    def names(self) -> list[str]:
        """The data sets there are.

        Returns:
            Their names, sorted.

        Example:
            >>> "visits" in ledger.names()
            True
        """
        with self._database.read() as connection:
            return [row.name for row in connection.execute(sa.select(database.datasets).order_by("name"))]

    def dataset(self, name: str) -> DataSet:
        """The budget of a data set.

        Args:
            name: of the data set.

        Returns:
            The budget.

        Raises:
            InvalidParameter: there is no such data set.

        Example:
            >>> ledger.dataset("visits").epsilon
            2
        """
        with self._database.read() as connection:
            return self._dataset(connection, name)

    def left(self, name: str) -> tuple[DataSet, Amount]:
        """A data set, and what is left of its two limits.

        Args:
            name: of the data set.

        Returns:
            The budget, and the amounts that are left.

        Example:
            >>> dataset, left = ledger.left("visits")
            >>> 0 < left.noise <= dataset.noise_limit
            True
        """
        with self._database.read() as connection:
            dataset = self._dataset(connection, name)
            return dataset, dataset.limit - _last(connection, name).total

    def _dataset(self, connection: sa.Connection, name: str) -> DataSet:
        """The budget of a data set, which never changes."""
        if name not in self._known:
            if (first := _at(connection, name, 0)) is None:
                names = [row.name for row in connection.execute(sa.select(database.datasets))]
                raise _unknown(name, names)
            self._known[name] = DataSet.from_data(first.body)
        return self._known[name]

    def reserve(
        self,
        name: str,
        cost: PrivacyCost,
        *,
        unit: Unit,
        command: str,
        facts: Mapping[str, Any],
        protects: Protects = "unit",
        advise: Advise | None = None,
    ) -> Entry:
        """Charge a spend, in one transaction; when this returns it is on disk. Noise may be drawn after it, not before.

        Whatever happens then, it stays spent.

        Args:
            name: of the data set.
            cost: what it costs.
            unit: who is protected, as the data set says.
            command: what is charged, in a word.
            facts: what else the entry tells; nothing derived from data.
            protects: ``unit`` or ``event``, as the data set says.
            advise: is asked what would fit if this does not.

        Returns:
            The entry.

        Raises:
            BudgetExceeded: it does not fit into what is left.
            InvalidParameter: the guarantee is about other people.

        Example:
            >>> from dphist.privacy.composition import of_pure
            >>> ledger.reserve("visits", of_pure(0.01), unit="user_id", command="mine", facts={}).kind
            'reserve'
        """
        with self._database.write(name) as connection:
            dataset = self._dataset(connection, name)
            left = _left_for(connection, dataset, unit, protects)
            if dataset.amount(cost).within(left):
                return _append_spend(connection, dataset, "reserve", cost, {"command": command, **facts})
        raise _exceeded(dataset, left, cost, advise)

    def record(
        self, name: str, cost: PrivacyCost, *, unit: Unit, protects: Protects, note: str, declared: Mapping[str, float]
    ) -> Entry:
        """Record a spend from elsewhere, whether it fits or not. Beyond the budget nothing more is charged.

        Args:
            name: of the data set.
            cost: what it cost.
            unit: who its guarantee protects, as everything in the data set does.
            protects: ``unit`` or ``event``, as the data set says.
            note: what it was.
            declared: the numbers that it was declared with.

        Returns:
            The entry.

        Raises:
            InvalidParameter: the guarantee is about other people.

        Example:
            >>> from dphist.privacy.composition import of_pure
            >>> spend = {"unit": "user_id", "protects": "unit", "note": "a talk", "declared": {"epsilon": 0.01}}
            >>> ledger.record("visits", of_pure(0.01), **spend).kind
            'record'
        """
        facts = {"command": "record", "note": note, "protects": protects, "declared": dict(declared)}
        with self._database.write(name) as connection:
            dataset = self._dataset(connection, name)
            dataset.check_charge(unit, protects)
            return _append_spend(connection, dataset, "record", cost, facts)

    def check(
        self, name: str, cost: PrivacyCost, *, unit: Unit, protects: Protects = "unit", advise: Advise | None = None
    ) -> None:
        """Refuse a spend now that would be refused later. Nothing is charged or promised: another spend may come first.

        Args:
            name: of the data set.
            cost: what it would cost.
            unit: who is protected.
            protects: ``unit`` or ``event``.
            advise: is asked what would fit if this does not.

        Raises:
            BudgetExceeded: it does not fit into what is left.

        Example:
            >>> from dphist.privacy.composition import of_pure
            >>> ledger.check("visits", of_pure(0.01), unit="user_id")
        """
        with self._database.read() as connection:
            dataset = self._dataset(connection, name)
            left = _left_for(connection, dataset, unit, protects)
        if not dataset.amount(cost).within(left):
            raise _exceeded(dataset, left, cost, advise)

    def commit(self, name: str, sequence: int, *, output: str | None = None) -> Entry:
        """Confirm that the result of a reservation was written to `output`, or without one, returned. Changes no sum.

        Args:
            name: of the data set.
            sequence: the number of the entry that reserved it.
            output: the name of the file.

        Returns:
            The entry.

        Raises:
            InvalidParameter: there is no open reservation of this number.

        Example:
            >>> from dphist.privacy.composition import of_pure
            >>> entry = ledger.reserve("visits", of_pure(0.01), unit="user_id", command="mine", facts={})
            >>> ledger.commit("visits", entry.sequence).kind
            'commit'
        """
        with self._database.write(name) as connection:
            before = _last(connection, name)
            _check_open(connection, name, sequence)
            return _append(connection, name, before, "commit", {"entry": sequence, "output": output}, before.total)

    def entry(self, name: str, sequence: int) -> Entry:
        """One entry, unchanged.

        Args:
            name: of the data set.
            sequence: its number.

        Returns:
            The entry.

        Raises:
            InvalidParameter: there is none of this number.

        Example:
            >>> ledger.entry("visits", 0).kind
            'create'
        """
        with self._database.read() as connection:
            entry = _at(connection, name, sequence)
        if entry is None:
            raise InvalidParameter(f"an entry of the data set {name!r}", f"number {sequence:,}", "is it this ledger?")
        return entry

    def has(self, name: str, sequence: int, hash_: str) -> bool:
        """Whether an entry is there, under this hash.

        Args:
            name: of the data set.
            sequence: the number of the entry.
            hash_: what it was noted with.

        Returns:
            True or False.

        Example:
            >>> ledger.has("visits", 0, ledger.entry("visits", 0).hash)
            True
        """
        with self._database.read() as connection:
            row = connection.execute(_of(name).where(_TABLE.c.sequence == sequence)).first()
        return row is not None and row.hash == hash_

    def entries(self, name: str) -> list[Entry]:
        """The history of a data set, oldest first.

        Args:
            name: of the data set.

        Returns:
            All entries.

        Raises:
            InvalidParameter: there is no such data set.

        Example:
            >>> ledger.entries("visits")[0].sequence
            0
        """
        with self._database.read() as connection:
            entries = [_entry(row) for row in connection.execute(_of(name).order_by(_TABLE.c.sequence))]
        if not entries:
            raise _unknown(name)
        return entries

    def status(self, name: str) -> Status:
        """What is spent and what is left.

        Args:
            name: of the data set.

        Returns:
            The sums, which `print` shows.

        Raises:
            UnusableLedger: an entry was changed.

        Example:
            >>> ledger.status("visits").exceeded
            False
        """
        entries = [_intact(entry) for entry in self.entries(name)]
        return Status(DataSet.from_data(entries[0].body), entries)

    def verify(self, name: str, head: str | None = None) -> list[Check]:
        """Recompute the chain and its sums.

        Args:
            name: of the data set.
            head: a hash that was exported earlier and must still be in the chain.

        Returns:
            The checks, each with a name, an outcome and a sentence.

        Example:
            >>> all(check.passed for check in ledger.verify("visits"))
            True
        """
        return chain.verify(self.entries(name), head)

    def export(self, name: str) -> dict[str, Any]:
        """Everything about a data set as plain data, with the head of its chain.

        Args:
            name: of the data set.

        Returns:
            A dictionary that JSON can hold.

        Example:
            >>> ledger.export("visits")["format"]
            'dphist-ledger-export'
        """
        entries = self.entries(name)
        return {
            "format": "dphist-ledger-export",
            "version": 1,
            "dphist": __version__,
            "dataset": name,
            "head": entries[-1].hash,
            "entries": [entry.to_data() for entry in entries],
        }


def _unknown(name: str, names: Sequence[str] = ()) -> InvalidParameter:
    return InvalidParameter("a data set of this ledger", repr(name), did_you_mean(name, names) + database.CREATE)


def _exceeded(dataset: DataSet, left: Amount, cost: PrivacyCost, advise: Advise | None) -> BudgetExceeded:
    """The error of a spend that does not fit: what is left, what was asked, what would fit."""

    def fits(other: PrivacyCost) -> bool:
        return dataset.amount(other).within(left)

    needed = dataset.amount(cost)
    if min(left.noise, left.delta) < 0:
        advice = ["spends recorded from elsewhere exceed the budget; nothing more is charged to it"]
    elif needed.delta > left.delta:  # which another epsilon would not mend
        advice = ["its delta is more than what is left; ask for a smaller one"]
    else:
        advice = list(advise(fits)) if advise is not None else []
    expected = f"a spend within what is left of {dataset.name!r}: {dataset.words(left)}"
    hint = "; ".join([*advice, "nothing was charged and nothing released."])
    return BudgetExceeded(expected, dataset.words(needed), hint)


def _of(name: str) -> sa.Select[Any]:
    return sa.select(_TABLE).where(_TABLE.c.dataset == name)


def _at(connection: sa.Connection, name: str, sequence: int) -> Entry | None:
    row = connection.execute(_of(name).where(_TABLE.c.sequence == sequence)).first()
    return None if row is None else _intact(_entry(row))


def _last(connection: sa.Connection, name: str) -> Entry:
    row = connection.execute(_of(name).order_by(_TABLE.c.sequence.desc()).limit(1)).first()
    if row is None:
        raise _unknown(name)
    return _intact(_entry(row))


def _left_for(connection: sa.Connection, dataset: DataSet, unit: Unit, protects: Protects) -> Amount:
    """What is left for a charge. Its guarantee must add up with earlier ones.

    A data set has one stream. An event is what a unit adds in one round, and the rounds of two streams (days and weeks, or
    days that begin at other hours) are different events, about which two guarantees do not add up.
    """
    dataset.check_charge(unit, protects)
    if dataset.protects == "event":
        stream = connection.execute(_of(dataset.name).where(_TABLE.c.kind == "reserve").limit(1)).first()
        if stream is not None:
            got = f"a second one (the first is entry {stream.sequence:,})"
            hint = "rounds of two streams are different events, which do not add up; make a data set for each stream."
            raise InvalidParameter(f"the only stream of {dataset.name!r}", got, hint)
    return dataset.limit - _last(connection, dataset.name).total


def _append_spend(
    connection: sa.Connection, dataset: DataSet, kind: Kind, cost: PrivacyCost, facts: Mapping[str, Any]
) -> Entry:
    before = _last(connection, dataset.name)
    body = {**facts, "cost": asdict(cost), "dphist": __version__}
    return _append(connection, dataset.name, before, kind, body, before.total + dataset.amount(cost))


def _check_open(connection: sa.Connection, name: str, sequence: int) -> None:
    """Refuse to confirm a reservation twice."""
    since = _of(name).where(_TABLE.c.sequence >= sequence, _TABLE.c.kind.in_(("reserve", "commit")))
    entries = [_entry(row) for row in connection.execute(since)]
    reserved = any(entry.sequence == sequence and entry.kind == "reserve" for entry in entries)
    if not reserved or any(entry.kind == "commit" and entry.confirmation.entry == sequence for entry in entries):
        raise InvalidParameter("an open reservation", f"entry {sequence:,} of {name!r}")


def _intact(entry: Entry) -> Entry:
    """Refuse an entry that was changed: nothing is added after it."""
    if entry.digest() != entry.hash:
        expected = f"an intact entry {entry.sequence:,} of {entry.dataset!r}"
        raise UnusableLedger(expected, "a changed one", "dphist ledger verify tells more.")
    return entry


def _entry(row: Any) -> Entry:
    """An entry of the right form. Its body is checked where it is needed."""
    found = {name: value if isinstance(value, str | int) else None for name, value in row._mapping.items()}
    place = f"entry {stored.excerpt(str(found['sequence']))}"
    text = str(found["body"]).encode("utf-8", "surrogateescape")
    body = stored.parse(text, place, most=MOST_BODY, error=UnusableLedger)
    return stored.build(Entry, {**found, "body": body}, place, error=UnusableLedger)


def _append(
    connection: sa.Connection, name: str, before: Entry | None, kind: Kind, body: dict[str, Any], total: Amount
) -> Entry:
    """Add one entry. A clock that went back is written down, not corrected: the sequence is the order."""
    time = _now()
    if before is not None and time < before.time:
        body = {**body, "clock": f"behind the entry before it ({before.time})"}
    sequence, previous = (0, chain.BEGINNING) if before is None else (before.sequence + 1, before.hash)
    entry = Entry(name, sequence, time, kind, body, total.noise, total.delta, previous)
    entry = replace(entry, hash=entry.digest())
    if len(text := canonical(body)) > MOST_BODY:  # it could not be read back
        raise InvalidParameter(f"facts of an entry of at most {MOST_BODY:,} bytes", "more", "a shorter note.")
    connection.execute(sa.insert(_TABLE).values({**entry.to_data(), "body": text}))
    return entry


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
