"""`dphist.connect`: tables under names, and statements over them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from sqlglot import exp

from dphist import checks
from dphist.columns import kind_in_words, kind_of
from dphist.engines import engine_for, files_of
from dphist.engines.base import Engine, Progress
from dphist.engines.query import EngineOptions, PerformanceSettings
from dphist.engines.relations import Derived
from dphist.errors import InvalidParameter
from dphist.run.job import Job, prepare, prepare_selection
from dphist.run.release import Answer
from dphist.sql.from_clause import Relating
from dphist.sql.names import Table, doubtful, scope_of, tables_of
from dphist.sql.options import in_words_of_sql
from dphist.sql.outer import bind, check_outer, outer_sql
from dphist.sql.parse import PrivacyClause, ancestors, located, parse, place_of
from dphist.sql.published import empty_table
from dphist.sql.script import Script, Statement
from dphist.sql.translate import PrivateSelect, Translating

_HINT_OF_POLICY: Final = (
    "say the unit where the table is named (--unit TABLE=COLUMN, or unit= in Python) and the limits in OPTIONS of each SELECT"
    " (epsilon, delta, max_groups_contributed, min_privacy_units_per_group); a ledger keeps the budget (dphist ledger create)."
)
"""The hint for a view with OPTIONS(privacy_policy = ...)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Connection:
    """Tables under names, for statements with SELECT WITH DIFFERENTIAL_PRIVACY. `dphist.connect` makes one.

    Example:
        >>> con = dp.connect(tables={"events": "events.parquet"}, unit="user_id")
        >>> con.columns("events")[:2]
        ['user_id', 'url']
        >>> con
        Connection(events (unit user_id))
    """

    tables: Mapping[str, Table]
    ledger: str | Path | None = None
    dataset: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    settings: PerformanceSettings = field(default_factory=PerformanceSettings)
    engine: Engine | None = None
    _columns: dict[str, list[str]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Connection({', '.join(map(repr, self.tables.values()))})"

    def columns(self, table: str) -> list[str]:
        """The columns of a table, from its schema alone.

        Args:
            table: its name.

        Returns:
            Their names.

        Raises:
            InvalidParameter: there is no such table.
            UnreadableSource: it is missing or damaged.

        Example:
            >>> con.columns("events")[:2]
            ['user_id', 'url']
        """
        if table not in self.tables:
            raise InvalidParameter("a table that is named", repr(table), f"the tables are {', '.join(self.tables)}.")
        if table not in self._columns:
            self._columns[table] = self._engine_of([self.tables[table]]).columns(self.tables[table].source)
        return self._columns[table]

    def sql(self, text: str, *, progress: Progress | None = None) -> Answer:
        """Run a statement; of several, all of them, and answer the last.

        Args:
            text: the statement.
            progress: is called with the name of each phase.

        Returns:
            The table with its plans and guarantees.

        Raises:
            InvalidParameter: it is refused, with the place in the text as ``pointer``; nothing was charged.
            BudgetExceeded: it does not fit into what is left of the budget.

        Example:
            >>> con.sql('''
            ...     SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1)
            ...       country, COUNT(DISTINCT user_id) AS people
            ...     FROM events GROUP BY country ORDER BY people DESC LIMIT 2''').to_arrow().column("country").to_pylist()
            ['DE', 'FR']
        """
        return self.prepare(text).run(progress=progress)[-1]

    def script(self, text: str, *, progress: Progress | None = None) -> tuple[Answer, ...]:
        """Run all statements of a text, which are refused or planned before the first one runs.

        Args:
            text: the statements, with semicolons between them.
            progress: is called with the name of each phase.

        Returns:
            An answer for each.

        Raises:
            InvalidParameter: one of them is refused; nothing was charged.

        Example:
            >>> budget = "OPTIONS(epsilon = 1, delta = 1e-8)"
            >>> count = f"SELECT WITH DIFFERENTIAL_PRIVACY {budget} COUNT(DISTINCT user_id) AS people FROM events"
            >>> [one.table.num_rows for one in con.script(f"{count}; {count} WHERE country = 'DE'")]
            [1, 1]
        """
        return self.prepare(text).run(progress=progress)

    def explain(self, text: str) -> str:
        """The releases that a text needs, what engines run for them, and why each step is private. Reads no record.

        Args:
            text: the statements.

        Returns:
            Some paragraphs.

        Raises:
            InvalidParameter: a statement is refused.

        Example:
            >>> budget = "OPTIONS(epsilon = 1, delta = 1e-8)"
            >>> print(con.explain(f"SELECT WITH DIFFERENTIAL_PRIVACY {budget} COUNT(DISTINCT user_id) AS n FROM events"))
            The same release as a command:
            ...
        """
        return self.prepare(text).explain()

    def prepare(self, text: str) -> Script:
        """Read, prove and plan a text; nothing is charged and no record is read.

        Args:
            text: the statements.

        Returns:
            What can be explained, checked and run.

        Raises:
            InvalidParameter: a statement is refused, with the place in the text as ``pointer``.

        Example:
            >>> budget = "OPTIONS(epsilon = 1, delta = 1e-8)"
            >>> len(con.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY {budget} COUNT(DISTINCT user_id) AS n FROM events").jobs)
            1
        """
        nodes = parse(text)
        try:
            found = [self._read(text, node) for node in nodes]
        except RecursionError:
            hint = "use fewer parts, or WITH for them."
            problem = InvalidParameter("a statement that is not so deep", "a deeper one", hint)
            raise located(problem, text, (0, 1)) from None
        budgets = iter(self._budgets(text, [one for privates, _, _ in found for one in privates]))
        statements = []
        for node, (privates, outer, public) in zip(nodes, found, strict=True):
            jobs = tuple(self._job(text, private, *next(budgets)) for private in privates)
            own = text[slice(*place_of(node))].strip() if len(nodes) > 1 else text.strip().rstrip(";").strip()
            statements.append(Statement(own, tuple(privates), jobs, outer, public))
        return Script(tuple(statements), self.ledger, self.dataset, self._attach, self.settings, text)

    def _read(self, text: str, node: exp.Expr) -> tuple[list[PrivateSelect], str, tuple[Table, ...]]:
        """The private SELECTs of a statement, and the rest of it in SQL."""
        blank = Relating(text, self.tables, columns_of=self.columns)
        if not isinstance(node, exp.Query):
            hint = "a statement is a SELECT and changes nothing; tables are files: --table NAME=FILE, or tables= in Python."
            word, *_ = own = text[slice(*place_of(node))].split(maxsplit=1)
            if "privacy_policy" in own[-1].casefold():
                hint = _HINT_OF_POLICY
            word = word[:40]
            raise blank.refuse(node, "SELECT WITH DIFFERENTIAL_PRIVACY ...", repr(word), hint)
        for clause in node.find_all(exp.With):
            blank.defined(clause.parent, {})  # type: ignore[arg-type]
        root = exp.Subquery(this=node)  # a node needs a parent to be replaced
        every = node.find_all(exp.Select, bfs=False)
        selects = [one for one in every if isinstance(one.args.get("hint"), PrivacyClause)]
        paths = (".".join(part.name for part in one.parts) for one in node.find_all(exp.Column))
        asked = frozenset(name.casefold() for name in (*paths, *(one.name for one in node.find_all(exp.Identifier))))
        privates: list[PrivateSelect] = []
        released: dict[str, pa.Table] = {}
        for select in selects:
            if any(around is other for around in ancestors(select) for other in selects):
                continue
            name = _unused(f"private_{len(privates) + 1}", text, self.tables)
            relating = Relating(text, self.tables, columns_of=self.columns, asked=asked)
            apart = Translating(relating, select, scope_of(select), name, _in_set_operation(select))
            private, outer = apart.translate()
            privates.append(private)
            released[name] = empty_table(private)
            select.replace(outer)
        hint = "their costs do not add up, as each protects somebody else: write a statement for each, with ; between them."
        _check_one_unit(privates, text, "private SELECTs of one unit in a statement", hint)
        public = check_outer(root.this, blank)
        if not privates:
            hint = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8) ... FROM ..."
            raise blank.refuse(node, "a private SELECT in the statement", "none", hint)
        tables = tuple(self.tables[name] for name in sorted(public))
        try:
            sql = outer_sql(root.this)
            bind(sql, released, tables, self._attach)
        except InvalidParameter as problem:
            raise located(problem, text, problem.place or place_of(node)) from None
        return privates, sql, tables

    def _budgets(self, text: str, privates: Sequence[PrivateSelect]) -> list[tuple[float, float]]:
        """Epsilon and delta of each SELECT: its own, or an equal part of the rest of the common budget."""
        if (self.epsilon, self.delta) != (None, None):
            hint = (
                "a budget is that of one unit: leave it out, and write epsilon and delta into OPTIONS of each SELECT."
            )
            _check_one_unit(privates, text, "private SELECTs of one unit for the budget that they share", hint)
        shares = []
        for name, declared in (("epsilon", self.epsilon), ("delta", self.delta)):
            given = [getattr(one.clause, name) for one in privates]
            open_ones = [one for one, value in zip(privates, given, strict=True) if value is None]
            spent = sum(_decimal(value) for value in given if value is not None)
            if declared is None and open_ones:
                usual = "1" if name == "epsilon" else "1e-8"
                hint = f"write OPTIONS({name} = {usual}, ...), or add --{name}, which all SELECTs share."
                raise located(InvalidParameter(f"{name} in OPTIONS", "none", hint), text, open_ones[0].place)
            whole = spent if declared is None else _decimal(declared)
            if declared is not None and (spent > whole or (open_ones and spent == whole > 0)):
                hint = f"all private SELECTs share {name} = {declared:g}."
                got = f"{float(spent):g}"
                most = "at most" if spent > whole else "less than"  # SELECTs without a budget share the rest
                problem = InvalidParameter(f"{most} {name} = {declared:g} in all private SELECTs", got, hint)
                raise located(problem, text, privates[-1].place)
            rest = _share(declared or 0.0, [value for value in given if value is not None], len(open_ones))
            shares.append([rest if value is None else value for value in given])
        return list(zip(*shares, strict=True))

    def _job(self, text: str, private: PrivateSelect, epsilon: float, delta: float) -> Job:
        source = private.command_source
        tables = list(self.tables.values()) if source is None else [source]
        common: dict[str, Any] = {"unit": private.unit, "where": private.where, "engine": self._engine_of(tables)}
        common |= {"epsilon": epsilon, "delta": delta}
        options = dict(private.options)
        try:
            if private.keys_only:
                low = {name: value for name, value in options.items() if name == "low_threshold"}
                job = prepare_selection(private.source, by=list(private.by), **common, **low)
                return self._declared(job, private)
            if private.public_keys is not None:
                options["keys"] = listed = self._public_groups(private)
                if "max_groups" in options:  # nobody is in more groups than are listed
                    options["max_groups"] = min(options["max_groups"], max(listed.num_rows, 1))
            return self._declared(prepare(private.source, by=list(private.by) or None, **common, **options), private)
        except InvalidParameter as problem:
            raise located(in_words_of_sql(problem), text, private.place) from None

    def _declared(self, job: Job, private: PrivateSelect) -> Job:
        """The job. For rows of several tables it gets their files, and the unit as they declare it."""
        if not isinstance(private.source, Derived):
            return job
        files = dict.fromkeys(path for source in private.source.tables.values() for path in files_of(source))
        selection = replace(job.selection, unit=private.protected)
        return replace(job, selection=selection, inputs=tuple(dict.fromkeys((*job.inputs, *files))))

    def _public_groups(self, private: PrivateSelect) -> pa.Table:
        """The public list of groups, with the names of the keys."""
        from dphist.engines.duckdb.derived import public_rows

        assert private.public_keys is not None
        sources = {name: self._local(table) for name, table in self.tables.items() if table.public}
        return public_rows(Derived(private.public_keys, sources), self.settings).rename_columns(list(private.key_names))

    def _engine_of(self, tables: Sequence[Table]) -> Engine:
        if self.engine is not None:
            return self.engine
        options = EngineOptions(self.settings)
        found = [engine_for(table.source, options) for table in tables]
        return next((one for one in found if one.writes_folders), found[0])

    def _local(self, table: Table) -> object:
        """A public table as this machine can read it."""
        from dphist.engines.spark import owns

        source: Any = table.source
        return source.toArrow() if owns(source) else source

    def _attach(self, connection: duckdb.DuckDBPyConnection, table: Table, view: str) -> None:
        """Make a public table readable in the session of an outer query."""
        from dphist.engines.duckdb.source import attach

        attach(connection, self._local(table), self.columns(table.name), view)


def connect(
    tables: Mapping[str, object],
    *,
    unit: str | Mapping[str, str] | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
) -> Connection:
    """Name tables, to ask for private answers about them in SQL.

    Args:
        tables: names with sources, as `dphist.release` takes them; public ones in `dphist.public`.
        unit: the column that says whose row it is: one for all private tables, or a column for each table by its name.
            Without it every statement names the column in OPTIONS.
        ledger: where every private SELECT is charged before the first record is read.
        dataset: the data set of the ledger that pays.
        epsilon: a budget that all private SELECTs of a text share.
        delta: the delta of this budget.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.

    Returns:
        A connection, which runs statements.

    Raises:
        InvalidParameter: names that clash, or a unit of a public table.
        MissingExtra: sqlglot is not installed; ``pip install 'dphist[sql]'``.

    Example:
        >>> con = dp.connect(tables={"events": "events.parquet"}, unit="user_id")
        >>> con.sql('''
        ...     SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8)
        ...       COUNT(DISTINCT user_id) AS people
        ...     FROM events''').to_arrow().column_names
        ['people', 'people_std_error']
    """
    if epsilon is not None:
        checks.check_positive("epsilon", epsilon)
    if delta is not None and not 0 <= delta < 1:
        raise InvalidParameter("delta in [0, 1)", delta)
    found = tables_of(tables, unit)
    for words in doubtful(found):
        warnings.warn(words, UserWarning, stacklevel=2)
    return Connection(found, ledger, dataset, epsilon, delta, settings or PerformanceSettings(), engine)


def _check_one_unit(privates: Sequence[PrivateSelect], text: str, expected: str, hint: str) -> None:
    """Refuse a SELECT whose unit differs from the unit of the first SELECT."""
    for one in privates:
        if kind_of(one.protected) != kind_of(privates[0].protected):
            got = " and ".join(kind_in_words(other.protected) for other in (privates[0], one))
            raise located(InvalidParameter(expected, got, hint), text, one.place)


def _decimal(value: float) -> Fraction:
    """A number as it is written: 0.1 and 0.2 are 0.3 together."""
    return Fraction(repr(value))


def _share(whole: float, given: Sequence[float], parts: int) -> float:
    """The largest equal part that fits beside the given parts. Sums are decimal, as in a ledger."""
    if not parts:
        return 0.0
    left = _decimal(whole) - sum(map(_decimal, given))
    share = float(left / parts)
    return share if parts * _decimal(share) <= left else math.nextafter(share, 0.0)


def _unused(name: str, text: str, tables: Mapping[str, Table]) -> str:
    """A name that neither the statement nor a table has."""
    taken = text.casefold() + " ".join(tables).casefold()
    while name in taken:
        name = f"{name}_"
    return name


def _in_set_operation(select: exp.Expr) -> bool:
    around = (one for one in ancestors(select) if not isinstance(one, exp.Subquery) or one.alias)
    return isinstance(next(around, None), exp.SetOperation)
