"""Pay what you get [Rogers24, Theorem 10]: at most so many results over at most so many queries, kept in a file.

A query first reserves what it may return and makes the reservation durable, then reads and draws, then settles for what it
did return. If it fails or the process dies in between, the reservation stays spent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from dphist import checks, notebook
from dphist.columns import Unit, unit_in_words, unit_of
from dphist.engines.base import Engine, Progress
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, NullKeys, PerformanceSettings, parse_key
from dphist.errors import BudgetExceeded, InvalidParameter
from dphist.files import stored
from dphist.files.locks import LockedFile, check_single_name, creating, locked
from dphist.files.outputs import as_path, near
from dphist.ledger.charge import (
    Receipt,
    charging,
    check_paid,
    receipt_of,
    telling,
    terms_hash,
)
from dphist.ledger.heads import check_heads
from dphist.mechanisms import Ranked
from dphist.mechanisms.ranked import calibrate
from dphist.planning.describe import check_neighbours, layout, sentence
from dphist.planning.spends import Calibrated, Spend, spend_of_mechanism
from dphist.run.job import choose_engine
from dphist.words import hash_of, number

_FORMAT: Final = "dphist-session"
_VERSION: Final = 2
_DIGEST: Final = "digest"
_UNSEEN: Final = "Nothing was published; another query pays again."


@dataclass(frozen=True, slots=True)
class Account:
    """What was promised and what is spent. All of it public."""

    unit: Unit
    epsilon: float
    delta: float
    mechanism: Ranked
    used_results: int = 0
    used_queries: int = 0
    reserved: int = 0
    ledger: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        checks.check_epsilon(self.epsilon)
        checks.check_delta(self.delta)
        unit_of(self.unit)
        if min(self.used_results, self.used_queries, self.reserved, self.left_results, self.left_queries) < 0:
            raise InvalidParameter("results and queries of at most what was promised", "others")

    @property
    def terms(self) -> dict[str, Any]:
        """What a ledger paid for: everything that no query changes."""
        return {"unit": self.unit, "epsilon": self.epsilon, "delta": self.delta, "mechanism": asdict(self.mechanism)}

    @property
    def left_results(self) -> int:
        """Results that may still be returned; a reservation nobody settled counts as spent."""
        return self.mechanism.symbols - self.used_results - self.reserved

    @property
    def left_queries(self) -> int:
        """Queries that may still be asked."""
        return self.mechanism.queries - self.used_queries

    def reserve(self, results: int) -> Account:
        """Before a draw: one query and `results` results."""
        if self.left_queries < 1 or self.left_results < 1:
            raise BudgetExceeded("a session with budget left", "one that is spent", "its results stay valid.")
        checks.check_whole("k", results)
        if results > self.left_results:
            expected = f"at most {self.left_results:,} results, what is left of the session"
            raise BudgetExceeded(expected, f"{results:,}", f"ask for fewer: --k {self.left_results}.")
        lost = self.used_results + self.reserved
        return replace(self, used_results=lost, used_queries=self.used_queries + 1, reserved=results)

    def settle(self, results: int) -> Account:
        """After the draw: what was returned, the end of the list included."""
        return replace(self, used_results=self.used_results + results, reserved=0)


class Session:
    """Ranked lists of keys from one budget; the file at `path` is the only state.

    Args:
        path: the file of a session that `start` began.

    Raises:
        InvalidParameter: there is no session, or it was changed.

    Example:
        >>> session = dp.Session.start("s.json", unit="user_id", epsilon=1, delta=1e-8, results=50, queries=10)
        >>> session.account.left_results
        50
        >>> dp.Session("s.json")
        Session('s.json')
    """

    def __init__(self, path: str | Path) -> None:
        # A link would be replaced by a file of its own at the first query: two names, two budgets.
        self.path = as_path(path).resolve()
        self._load()

    @classmethod
    def start(
        cls,
        path: str | Path,
        *,
        unit: str | Sequence[str],
        epsilon: float,
        delta: float,
        results: int,
        queries: int,
        shortlist: int = 1000,
        neighbours: str = "add-remove",
        ledger: str | Path | None = None,
        dataset: str | None = None,
    ) -> Session:
        """Begin a session: at most `results` results over at most `queries` queries about the units of one data set.

        A query returns the largest groups in order, chosen among its `shortlist` largest; the end of a list that ends early
        is a result too. The whole session is (epsilon, delta)-private, whatever is asked in view of earlier answers.

        Args:
            path: a new file.
            unit: who is protected, as for `dphist.release`.
            epsilon: how much one unit may change the odds of all answers together.
            delta: the probability of failure that is allowed.
            results: how many groups all queries together may return.
            queries: how many queries may be asked.
            shortlist: how many of the largest groups a query chooses among.
            neighbours: ``add-remove``, the only notion of neighbours.
            ledger: where the whole of it is charged now, once; queries charge nothing more.
            dataset: the data set of the ledger that pays.

        Returns:
            The session.

        Raises:
            InvalidParameter: a value outside its domain, or a file that exists.
            BudgetExceeded: it does not fit into what is left of the data set's budget.

        Example:
            >>> dp.Session.start("new.json", unit="user_id", epsilon=1, delta=1e-8, results=5, queries=2)
            Session('new.json')
        """
        check_neighbours(neighbours)
        checks.check_budget(epsilon, delta)
        for name, value in (("results", results), ("queries", queries), ("shortlist", shortlist)):
            checks.check_whole(name, value)
        protected = unit_of(unit)
        target = as_path(path).resolve()
        if not target.parent.is_dir():
            raise InvalidParameter("an existing folder for the session", str(target.parent), "create it first.")
        mechanism = calibrate(epsilon, delta, results, shortlist, queries=queries)
        check_heads(ledger, dataset, (target,))

        account = Account(protected, epsilon, delta, mechanism)

        def spend() -> Spend:
            terms = terms_hash(account.terms)
            facts = {"results": results, "queries": queries, "session": target.name, "terms": terms}
            return spend_of_mechanism("session", Calibrated(mechanism, epsilon, delta), protected, facts)

        with creating(target, "session") as file, charging(ledger, dataset, spend) as charge:
            _store(file, replace(account, ledger=receipt_of(charge)))
            if charge is not None:
                charge.confirm(target)
        return cls(target)

    def _load(self, file: LockedFile | None = None) -> Account:
        """What is in the file that is locked, or at the path."""
        check_single_name(self.path)
        if file is None and not self.path.exists():
            hint = f"{near(self.path)} dphist session start makes one."
            raise InvalidParameter(f"a session at {self.path}", "no file", hint)
        content = stored.read_file(self.path, "a session") if file is None else file.read()
        return _parse(content, str(self.path))

    @property
    def account(self) -> Account:
        """What is spent and what is left, as the file says now."""
        return self._load()

    @property
    def guarantee(self) -> str:
        """The guarantee of all queries together, in one sentence."""
        account = self.account
        return sentence(account.mechanism, account.epsilon, account.delta, account.unit)

    def __repr__(self) -> str:
        return f"Session({self.path.name!r})"

    def __str__(self) -> str:
        return layout(*self._told())

    def _repr_html_(self) -> str:
        account = self.account
        used = 1 - account.left_results / account.mechanism.symbols
        label = f"{account.left_results:,} of {account.mechanism.symbols:,} results left"
        return notebook.card(*self._told(), notebook.share(used, label))

    def _told(self) -> tuple[str, list[tuple[str, str]]]:
        account = self.account
        mechanism = account.mechanism
        facts = [
            ("results", f"{account.left_results:,} of {mechanism.symbols:,} left; the end of a list is one"),
            ("queries", f"{account.left_queries:,} of {mechanism.queries:,} left"),
            (
                "choices",
                f"each with epsilon {number(mechanism.symbol_epsilon)}, among the {mechanism.shortlist:,} largest groups:"
                f" one that is {number(1 / mechanism.symbol_epsilon)} units larger is e times as likely to come first",
            ),
            (
                "end",
                f"a list ends early when no group is clearly more than {mechanism.threshold:,} above the next largest",
            ),
            ("guarantee", f"over the whole session, {self.guarantee}"),
            ("provided", f"the unit is {unit_in_words(account.unit)}; {mechanism.assumption}."),
        ]
        return "Session: ranked lists, paid by what they return", facts

    def query(
        self,
        source: object,
        *,
        by: str | Sequence[str],
        k: int,
        where: str | None = None,
        null_keys: NullKeys = "group",
        settings: PerformanceSettings | None = None,
        engine: Engine | None = None,
        ledger: str | Path | None = None,
        progress: Progress | None = None,
    ) -> tuple[pa.Table, bool]:
        """At most k groups with the most units, in order. What is returned is paid for.

        Args:
            source: what to read, as for `dphist.release`.
            by: the columns that make the groups.
            k: how many groups at most.
            where: an SQL condition on a record's own columns.
            null_keys: ``group`` or ``drop``.
            settings: threads and memory.
            engine: such as a `dphist.SparkEngine`.
            ledger: the session is first compared with the entry that paid for it; nothing is charged.
            progress: is called with the name of each phase.

        Returns:
            The keys with their rank as Arrow, and whether k groups were found.

        Raises:
            BudgetExceeded: fewer results or queries are left.
            InvalidParameter: what names and types rule out, which costs nothing.

        Example:
            >>> session = dp.Session.start("q.json", unit="user_id", epsilon=1, delta=1e-8, results=5, queries=2)
            >>> keys, complete = session.query("events.parquet", by="url", k=1)
            >>> keys.to_pydict(), complete, session.account.left_results
            ({'rank': [1], 'url': ['/']}, True, 4)
        """
        names = (by,) if isinstance(by, str) else tuple(by)
        with locked(self.path) as file:
            account = self._load(file)
            check_paid(ledger, account.ledger, account.terms, "session")
            account.reserve(k)  # refuse before reading
            keys = tuple(parse_key(name) for name in names)
            if any(key.name == "rank" for key in keys):
                raise InvalidParameter("keys with other names than rank", "rank", 'rename: --by "my_rank=rank".')
            query = GroupByQuery(account.unit, keys, where=where, null_keys=null_keys)
            spent = ""

            def note(words: str) -> None:
                nonlocal spent
                spent = words

            with telling(lambda: spent):
                with choose_engine(source, engine, settings).open(source, query, progress=progress) as records:
                    account = account.reserve(k)  # what names and types rule out costs nothing
                    reserved = f"One query and the {k} results it reserved stay spent. {_UNSEEN}"
                    _store(file, account, lambda: note(reserved))
                    largest = records.histogram(ContributionBounds(), account.mechanism.needed)
                    chosen = account.mechanism.choose(largest.counts, k)
                returned = f"One query and {chosen.symbols} results stay spent. {_UNSEEN}"
                _store(file, account.settle(chosen.symbols), lambda: note(returned))
        table = largest.keys.take(pa.array(chosen.index))
        ranks = pa.array(np.arange(1, len(chosen.index) + 1))
        return table.add_column(0, "rank", ranks), not chosen.stopped


@dataclass(frozen=True, slots=True)
class _File:
    """What a session's file holds, but for the digest."""

    format: Literal["dphist-session"]
    version: Literal[2]
    account: Account


def _parse(content: bytes, source: str) -> Account:
    """The account, if it is as it was written and its guarantee holds."""
    data = stored.parse(content, source)
    if data.get("format") == _FORMAT:
        stored.check_version(data.get("version"), _VERSION, f"a session in {source}", "start a new session")
    if data.pop(_DIGEST, None) is None or content != _text(data):
        raise InvalidParameter(
            f"a session in {source} as dphist wrote it", "a changed one", "its budget is not known now."
        )
    account = stored.build(_File, data, source).account
    if account.ledger is not None:
        stored.validate(Receipt, account.ledger, source)
    if account.mechanism.proved_delta(account.epsilon) > account.delta:
        raise InvalidParameter(f"a session in {source} whose guarantee holds", "another one")
    return account


def _store(file: LockedFile, account: Account, note: Callable[[], object] = lambda: None) -> None:
    record: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "account": asdict(account)}
    file.replace(lambda sink: sink.write(_text(record)), note)


def _text(record: dict[str, Any]) -> bytes:
    """The file of a record, with a digest: two texts of one number are two files."""
    return json.dumps({**record, _DIGEST: hash_of(record)}, indent=2, allow_nan=False).encode() + b"\n"
