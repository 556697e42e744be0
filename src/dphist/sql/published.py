"""The published table of a private SELECT, and the SELECT over it, which costs nothing.

The SELECT reads columns key_1, ..., and value_1, error_1, low_1, high_1, ... for each aggregate. With
`report_format => "JSON"` a value is an object with its interval and the bounds that the release found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from dphist.planning.plan import HIGH, LOW, STD_ERROR
from dphist.run.release import Release
from dphist.sql.aggregates import LEVEL, Aggregated, Aggregates
from dphist.sql.from_clause import Relating
from dphist.sql.options import Clause, number_of

if TYPE_CHECKING:
    from dphist.sql.translate import PrivateSelect
from dphist.sql.names import Rows

RELEASED: Final = "released"
"""Marks the published table in a tree: a statement cannot name it."""


@dataclass(slots=True, eq=False)
class Published:
    """The SELECT over one published table."""

    relating: Relating
    aggregates: Aggregates
    clause: Clause
    table: str
    select: exp.Select
    rows: Rows
    keys: Mapping[str, str]
    units: tuple[str, ...]
    in_set_operation: bool

    def select_over(self) -> exp.Select:
        """The SELECT over the published table."""
        select = self.select
        items: list[exp.Expr] = []
        values: list[exp.Expr] = []
        aliases: dict[str, exp.Expr] = {}
        names: list[str] = []
        for place, item in enumerate(select.expressions, 1):
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                raise self.relating.refuse(item, "keys and aggregates in a private SELECT", "a star", "list them.")
            value = self._computed(inner, {})
            values.append(value)
            alone = self.aggregates.known(inner)
            other = inner.name if isinstance(inner, exp.Column) else f"column_{place}"
            name = item.alias if isinstance(item, exp.Alias) else other if alone is None else alone.name
            if name.casefold() in {one.casefold() for one in names}:
                if isinstance(item, exp.Alias):
                    hint = "give one of them another alias."
                    raise self.relating.refuse(item, "columns with different names", repr(name), hint)
                name = f"{name}_{place}"
            names.append(name)
            aliases[name.casefold()] = value
            items.append(exp.alias_(value.copy(), name, quoted=True))
            has_errors = self.clause.std_errors and not self.in_set_operation
            if alone is not None and has_errors and not alone.arguments.report:
                names.append(f"{name}_std_error")
                items.append(exp.alias_(self._errors(alone), f"{name}_std_error", quoted=True))
        if len({name.casefold() for name in names}) < len(names):
            twice = next(name for name in names if [one.casefold() for one in names].count(name.casefold()) > 1)
            hint = "a column with its _std_error has two names; give one of them another alias."
            raise self.relating.refuse(select, "columns with different names", repr(twice), hint)
        source = exp.Table(this=exp.to_identifier(self.table, quoted=True))
        source.meta[RELEASED] = True
        outer = exp.Select(expressions=items, from_=exp.From(this=source))
        if (having := select.args.get("having")) is not None:
            outer.set("where", exp.Where(this=self._computed(having.this, aliases)))
        if (order := select.args.get("order")) is not None:
            ordered = [self._ordered(one, values, aliases) for one in order.expressions]
            outer.set("order", exp.Order(expressions=ordered))
        for name in ("limit", "offset"):
            if (clause := select.args.get(name)) is not None:
                self._check_limit(clause)
                outer.set(name, clause.copy())
        return outer

    def _ordered(self, node: exp.Expr, values: list[exp.Expr], aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        inner = node.this if isinstance(node, exp.Ordered) else node
        if isinstance(inner, exp.Literal) and not inner.is_string:
            if not inner.this.isdigit() or not 1 <= int(inner.this) <= len(values):
                raise self.relating.refuse(inner, f"a column of SELECT from 1 to {len(values)}", str(inner.this))
            value = values[int(inner.this) - 1].copy()
        else:
            value = self._computed(inner, aliases)
        found = node.copy() if isinstance(node, exp.Ordered) else exp.Ordered(this=value)
        found.set("this", value)
        return found

    def _check_limit(self, clause: exp.Expr) -> None:
        self.relating.only(clause, "LIMIT and OFFSET", "this", "expression")
        number = number_of(clause.expression) if isinstance(clause.expression, exp.Expr) else None
        if number is None or not number.is_integer() or number < 0:
            hint = "write it down, as in LIMIT 10."
            raise self.relating.refuse(clause, "a whole number of rows", "something else", hint)

    def _published(self, name: str) -> exp.Expr:
        """A column of the published table. The table's name stands before it, since an alias may be spelled like the column."""
        return exp.column(name, table=exp.to_identifier(self.table, quoted=True))

    def _each(self, one: Aggregated, word: str) -> list[exp.Expr]:
        """The columns of an aggregate whose names begin with a word: one, or one for each probability."""
        number = 1 + self.aggregates.all.index(one)
        return [self._published(f"{word}_{number}{place}") for place in _places(one)]

    def _bound(self, one: Aggregated, word: str) -> exp.Expr:
        return self._published(f"{word}_{1 + self.aggregates.all.index(one)}")

    def _errors(self, one: Aggregated) -> exp.Expr:
        errors = self._each(one, "error")
        return exp.Array(expressions=[exp.Null(), *errors, exp.Null()]) if one.ends else errors[0]

    def _computed(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """Turn an expression over keys and aggregates into an expression over the published table."""

        def replaced(one: exp.Expr) -> exp.Expr:
            if isinstance(one, exp.Query | exp.Exists):
                hint = "a private SELECT has keys and aggregates; use an outer query for the rest."
                raise self.relating.refuse(one, "keys and aggregates in a private SELECT", "a subquery", hint)
            if isinstance(one, exp.Window):
                hint = "use it in an outer query, over the private result."
                raise self.relating.refuse(one, "keys and aggregates in a private SELECT", "a window function", hint)
            if isinstance(one, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
                hint = "leave it out: nulls are ignored; COUNTIF counts some rows, SUM(IF(condition, x, NULL)) adds up some."
                got = "FILTER, IGNORE NULLS or RESPECT NULLS"
                raise self.relating.refuse(one, "an aggregate without clauses", got, hint)
            if isinstance(one, exp.AggFunc):
                return self._value(self.aggregates.aggregate(one, self.rows, self.units))
            if isinstance(one, exp.Anonymous) and one.name.upper().startswith("ANON_"):
                hint = f"write {one.name[len('ANON_') :].upper()}: the clause says that it is private."
                raise self.relating.refuse(one, "COUNT, SUM, AVG and others by these names", one.name, hint)
            if isinstance(one, exp.Star):
                raise self.relating.refuse(one, "keys and aggregates in a private SELECT", "a star", "list them.")
            if isinstance(one, exp.Column) and not one.table and one.name.casefold() in aliases:
                return aliases[one.name.casefold()].copy()
            if (key := self.relating.key_of(one, self.rows, self.keys)) is not None:
                return self._published(key)
            if isinstance(one, exp.Column):
                self.relating.find(one, self.rows)
                hint = "put it into GROUP BY, or into an aggregate."
                raise self.relating.refuse(one, "keys of GROUP BY and aggregates", repr(one.name), hint)
            if one.args.get("named"):
                self.aggregates.refuse_function(one)
            return one

        return node.copy().transform(replaced)

    def _value(self, one: Aggregated) -> exp.Expr:
        """The value of an aggregate in the published table, or its report."""
        if one.arguments.report:
            return self._report(one)
        values = self._each(one, "value")
        ends = [self._bound(one, "lower"), *values, self._bound(one, "upper")]
        return exp.Array(expressions=ends) if one.ends else values[0]

    def _report(self, one: Aggregated) -> exp.Expr:
        """An object with the values, their intervals and the bounds that the release found, as far as these are published.

        Intervals of counts and sums are those of the noise alone. Values of APPROX_QUANTILES are clamped to the bounds, so the
        smallest lies between the lower bound and the upper end of the first quantile's interval, and the largest likewise.
        """
        values, lows, highs = (self._each(one, word) for word in ("value", "low", "high"))
        if one.ends:
            values = [self._bound(one, "lower"), *values, self._bound(one, "upper")]
            lows = [self._bound(one, "lower"), *lows, lows[-1].copy()]
            highs = [highs[0].copy(), *highs, self._bound(one, "upper")]
        if one.aggregate is None or one.aggregate.span is None:
            lows, highs = ([_beyond(end, values[0]) for end in ends] for ends in (lows, highs))
        each = [
            _pack(
                value=value, noise_confidence_interval=_pack(lower_bound=low, upper_bound=high, confidence_level=level)
            )
            for value, low, high in zip(values, lows, highs, strict=True)
            for level in [exp.Literal.number(LEVEL)]
        ]
        bounds = {"lower_bound": "lower", "upper_bound": "upper", "num_inputs": "inputs", "num_outside": "outside"}
        found = _pack(**{name: self._bound(one, word) for name, word in bounds.items()})
        result = exp.Array(expressions=each) if one.ends else each[0]
        return _pack(result=result, **({"bounding_report": found} if one.arguments.chosen else {}))


def _pack(**fields: exp.Expr) -> exp.Expr:
    """An object with these fields."""
    pairs = [exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in fields.items()]
    return exp.Struct(expressions=pairs)


def _beyond(end: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Sub(this=end, expression=value.copy())


def _places(one: Aggregated) -> list[str]:
    """The suffixes of the names of an aggregate's columns."""
    return [f"_{place}" for place in range(1, len(one.probabilities) + 1)] or [""]


def published_table(private: PrivateSelect, release: Release) -> pa.Table:
    """The table of a release, with the names of columns that the outer query uses."""
    table, names = release.table, private.key_names
    columns: dict[str, Any] = {f"key_{place}": table.column(name) for place, name in enumerate(names, 1)}
    for number, one in enumerate(private.aggregates, 1):
        columns |= _columns_of(one, number, release, table, grouped=bool(names))
    return pa.table(columns)


def empty_table(private: PrivateSelect) -> pa.Table:
    """The published table without rows. The types of keys are not known yet, so keys have the type of null."""
    columns: dict[str, Any] = {f"key_{place}": pa.nulls(0) for place in range(1, len(private.key_names) + 1)}
    for number, one in enumerate(private.aggregates, 1):
        columns |= {name: pa.nulls(0, pa.float64()) for name in _names(one, number)}
    return pa.table(columns)


def _columns_of(one: Aggregated, number: int, release: Release, table: pa.Table, *, grouped: bool) -> dict[str, Any]:
    """Value, error and interval of an aggregate; null where the release found no bounds."""
    names = ["count"]
    columns: dict[str, Any] = {}
    if one.constant is not None:
        return {
            name: pa.array([0.0 if name.startswith("error") else one.constant] * table.num_rows, pa.float64())
            for name in _names(one, number)
        }
    if one.aggregate is not None:
        kind = next(found for found in release.plan.request.aggregates if found.name == one.aggregate.name)
        names = [kind.name]
        if one.probabilities:
            by_probability = dict(zip(kind.probabilities, kind.names, strict=False))
            names = [by_probability.get(probability, "") for probability in one.probabilities]
        lower, upper = (None, None) if kind.chosen == "nothing" else kind.bounds
        seen = next((bounds for bounds in release.bounds if bounds.name == kind.name), None)
        units = None if seen is None or grouped else seen.units  # with groups it is the usual size of a group
        outside = None if seen is None or seen.outside is None or units is None else seen.outside * units
        facts = {"lower": lower, "upper": upper, "inputs": units, "outside": outside}
        for name, value in facts.items():
            columns[f"{name}_{number}"] = pa.array([value] * table.num_rows, pa.float64())
    for name, place in zip(names, _places(one), strict=True):
        for word, suffix in (("value", ""), ("error", STD_ERROR), ("low", LOW), ("high", HIGH)):
            found = table.column(name + suffix) if name and name + suffix in table.column_names else None
            columns[f"{word}_{number}{place}"] = pa.nulls(table.num_rows, pa.float64()) if found is None else found
    if one.factor != 1:
        value, error, *ends = (
            pc.multiply(columns[f"{word}_{number}"], one.factor) for word in ("value", "error", "low", "high")
        )
        low, high = ends if one.factor > 0 else reversed(ends)
        columns |= {f"value_{number}": value, f"error_{number}": pc.abs(error)}
        columns |= {f"low_{number}": low, f"high_{number}": high}
    return columns


def _names(one: Aggregated, number: int) -> list[str]:
    """The names of the columns of an aggregate."""
    names = [f"{word}_{number}{place}" for word in ("value", "error", "low", "high") for place in _places(one)]
    return names + [f"{word}_{number}" for word in ("lower", "upper", "inputs", "outside")]
