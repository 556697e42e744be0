"""The aggregates of a private SELECT become options of a release: each with what it counts or adds up, and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from sqlglot import exp

from dphist.aggregates import KINDS
from dphist.aggregates.base import Aggregate
from dphist.aggregates.count import Rows
from dphist.aggregates.distinct import Distinct
from dphist.aggregates.measures import Measure
from dphist.aggregates.total import Sum
from dphist.columns import joined_name
from dphist.errors import InvalidParameter
from dphist.sql import names
from dphist.sql.from_clause import Relating
from dphist.sql.names import plain_column
from dphist.sql.options import Arguments, Clause, number_of, read_arguments
from dphist.sql.parse import PrivacyClause, called

LEVEL: Final = 0.95
"""The level of the intervals in reports."""

MOST_BOUNDARIES: Final = 17
"""The most values of one APPROX_QUANTILES, both ends among them. The tree of a column answers no more questions."""

_KINDS: Final = {function: kind for kind in KINDS for function in kind.sql}
PRIVATE: Final = ("COUNT", "COUNTIF", *_KINDS)
"""The aggregates that have a private form."""

_INSTEAD: Final = {
    "MIN": "PERCENTILE_CONT(x, 0.01) is near it; `dphist stat` has more.",
    "MAX": "PERCENTILE_CONT(x, 0.99) is near it; `dphist stat` has more.",
    "MEDIAN": "write PERCENTILE_CONT(x, 0.5).",
    "APPROX_COUNT_DISTINCT": "write COUNT(DISTINCT x).",
    "VAR_SAMP": "write VAR_POP.", "VARIANCE": "write VAR_POP.", "STDDEV_SAMP": "write STDDEV_POP.",
    "STDDEV": "write STDDEV_POP.", "PERCENTILE_DISC": "write PERCENTILE_CONT.",
}  # fmt: skip

_AUTO: Final = Arguments()


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One aggregate of a statement, and the published columns that it reads.

    aggregate: the plan's; None for the number of units, which every release has. ends: whether the bounds stand before and
    behind quantiles. factor: the released number is multiplied by it. constant: the value, where equal bounds leave no other;
    nothing is released for it.
    """

    call: str
    aggregate: Aggregate | None
    arguments: Arguments = _AUTO
    ends: bool = False
    factor: float = 1.0
    constant: float | None = None

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probabilities of quantiles."""
        return () if self.aggregate is None else self.aggregate.probabilities

    @property
    def name(self) -> str:
        """The name of the answer's column if the statement gives none."""
        if self.aggregate is None:
            return "count"
        return self.aggregate.name if self.ends else self.aggregate.names[0]


@dataclass(slots=True, eq=False)
class Aggregates:
    """The aggregates of one private SELECT, equal aggregates once. grouped: whether the SELECT has keys."""

    relating: Relating
    clause: Clause
    hint: PrivacyClause
    grouped: bool
    _found: dict[str, Aggregated] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _bounds: dict[tuple[type[Measure], str], object] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Aggregated, ...]:
        """The aggregates in the order of the statement."""
        return tuple(self._found.values())

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions that are counted or added up."""
        return tuple(self._texts.values())

    def known(self, node: exp.Expr) -> Aggregated | None:
        """The aggregate of this expression, if `aggregate` has read it; else None."""
        return self._found.get(self._signature(node)) if isinstance(node, exp.AggFunc) else None

    def refuse(self, node: exp.Expr, expected: str, got: str, hint: str = "") -> InvalidParameter:
        """A refusal at the place of a node."""
        return self.relating.refuse(node, expected, got, hint)

    def _signature(self, call: exp.Expr) -> str:
        return call.sql(dialect="bigquery", comments=False) + repr(call.args.get("named"))

    def aggregate(self, call: exp.Expr, rows: names.Rows, units: tuple[str, ...]) -> Aggregated:
        """Read an aggregate of the statement. Equal calls are one aggregate."""
        signature = self._signature(call)
        if signature not in self._found:
            self._found[signature] = self._read(call, rows, units)
        return self._found[signature]

    def refuse_function(self, call: exp.Expr) -> None:
        """Refuse a function without a private form, by its name."""
        name = called(call)
        instead = _INSTEAD.get(name, f"these have one: {', '.join(PRIVATE)}.")
        raise self.refuse(call, "an aggregate that has a private form", name, instead)

    def _read(self, call: exp.Expr, rows: names.Rows, units: tuple[str, ...]) -> Aggregated:
        name, relating = called(call), self.relating
        if name not in PRIVATE:
            self.refuse_function(call)
        kind = _KINDS.get(name)
        arguments = read_arguments(call, kind is not None and kind.of_records, self.refuse)
        only = arguments.only_value
        if kind is None:
            return replace(self._count(call, arguments, rows, units), constant=only)  # None, or 0 for (0, 0)
        inside = call.this
        if isinstance(inside, exp.Distinct) or not isinstance(inside, exp.Expr):
            raise self.refuse(call, f"{name} of a column", "DISTINCT or nothing", "leave DISTINCT out.")
        if isinstance(inside, exp.Order | exp.Limit | exp.IgnoreNulls | exp.RespectNulls | exp.HavingMax):
            raise self.refuse(call, f"{name} of a column", "a clause of its own", "leave it out; nulls are ignored.")
        text = relating.expression(inside, rows).text
        if name == "SUM" and only:
            return self._equal_totals(text, rows, arguments, only)
        probabilities, ends = self._probabilities(call, name) if kind.has_probabilities else ((), False)
        if only is not None:
            label = plain_column(text, rows.relation.names) or "value"
            found = kind.of(label, None, "auto", probabilities=probabilities)
            return Aggregated(name, found, arguments, ends, constant=0.0 if kind.squared else only)
        label = self._label(kind, text, rows, arguments)
        return Aggregated(name, kind.of(label, None, arguments.bounds, probabilities=probabilities), arguments, ends)

    def _equal_totals(self, text: str, rows: names.Rows, arguments: Arguments, only: float) -> Aggregated:
        """A sum of totals that are all clamped to one number: this number times the number of units that have a value."""
        once = replace(arguments, bounds=(0.0, 1.0))
        wanted = plain_column(text, rows.relation.names) or "value"
        label = self._label(Sum, f"CASE WHEN ({text}) IS NOT NULL THEN 1 END", rows, once, wanted)
        return Aggregated("SUM", Sum.of(label, None, once.bounds), once, factor=only)

    def _count(self, call: exp.Expr, arguments: Arguments, rows: names.Rows, units: tuple[str, ...]) -> Aggregated:
        """Read COUNT or COUNTIF: a number of units, rows, rows with a value, or distinct values."""
        inside, name = call.this, called(call)
        if call.args.get("expressions"):
            raise self.refuse(call, f"{name} of one column", "several", "count one.")
        if not arguments.chosen and arguments.bounds[0] != 0:
            hint = "whoever is not in a group adds nothing to it: write (0, 5)."
            raise self.refuse(call, f"a lower bound of 0 for {name}", f"{arguments.bounds[0]:g}", hint)
        most = arguments.bounds[1]
        upper = most if arguments.only_value is None else "auto"
        if isinstance(most, float) and not most.is_integer():
            raise self.refuse(call, f"a whole number as the upper bound of {name}", f"{most:g}")
        if isinstance(inside, exp.Distinct):
            if len(inside.expressions) != 1 or name != "COUNT":
                raise self.refuse(call, "COUNT(DISTINCT column)", "several columns", "count one.")
            text = self.relating.expression(inside.expressions[0], rows).text
            if plain_column(text, rows.relation.names) in units:
                return Aggregated(name, None, arguments)
            if self.grouped and self.clause.max_groups is None and not self.clause.public_groups:
                hint = "write max_groups_contributed = 10, say, into OPTIONS, or count the unit itself."
                raise self.refuse(call, "max_groups_contributed beside COUNT(DISTINCT column)", "none", hint)
            label = self._label(Distinct, text, rows, arguments)
            return Aggregated(name, Distinct.of(label, None, (0, upper)), arguments)
        if isinstance(inside, exp.Star):
            return Aggregated(name, None if most == 1 else Rows.of(None, None, (0, upper)), arguments)
        if not isinstance(inside, exp.Expr) or isinstance(inside, exp.Order | exp.Limit | exp.HavingMax):
            raise self.refuse(call, f"{name} of a column", "a clause of its own", "leave it out.")
        text = self.relating.expression(inside, rows).text
        condition = text if name == "COUNTIF" else f"({text}) IS NOT NULL"
        if name == "COUNT" and plain_column(text, rows.relation.names) in units and most == 1:
            return Aggregated(name, None, arguments)
        label = self._label(Sum, f"CASE WHEN {condition} THEN 1 END", rows, arguments, "counted")
        bounds = arguments.bounds if arguments.only_value is None else "auto"
        return Aggregated(name, Sum.of(label, None, bounds), arguments)

    def _probabilities(self, call: exp.Expr, name: str) -> tuple[tuple[float, ...], bool]:
        given = call.args.get("expression")
        number = number_of(given) if isinstance(given, exp.Expr) else None
        if name == "PERCENTILE_CONT":
            if number is None or not 0 < number < 1:
                hint = "0.5 is the median; the ends are no quantiles."
                raise self.refuse(call, "a probability inside (0, 1) in PERCENTILE_CONT", "another", hint)
            return (number,), False
        if number is None or not number.is_integer() or not 2 <= number < MOST_BOUNDARIES:
            expected = f"a whole number from 2 to {MOST_BOUNDARIES - 1} in APPROX_QUANTILES"
            raise self.refuse(call, expected, "another", "4 gives quartiles.")
        parts = int(number)
        return tuple(place / parts for place in range(1, parts)), True

    def _label(self, kind: type[Aggregate], text: str, rows: names.Rows, arguments: Arguments, name: str = "") -> str:
        """The name in the plan of a column or expression: one name for each kind, text and pair of bounds."""
        plain = plain_column(text, rows.relation.names)
        bounds = arguments.bounds
        wanted = name or plain or "value"
        for number in count(1):
            label = wanted if number == 1 else f"{wanted}_{number}"
            same_text = self._texts.setdefault(label, text) == text
            if same_text and self._bounds.setdefault((kind.main, label), bounds) == bounds:
                return label
        raise AssertionError("there is always one more name")

    def _written(self, label: str, rows: names.Rows) -> str:
        """A label as a release takes it: a column by its name, anything else as name=expression."""
        text = self._texts[label]
        return joined_name(label, None if plain_column(text, rows.relation.names) == label else text)

    def options(self, rows: names.Rows) -> dict[str, Any]:
        """The options of the release, without its budget."""
        options: dict[str, Any] = {}
        aggregates = [one for one in self.all if one.constant is None]
        if self.clause.max_groups is not None and self.grouped:
            options["max_groups"] = self.clause.max_groups
        if self.clause.min_units is not None and self.grouped:
            options["low_threshold"] = self.clause.min_units
        for one in aggregates:
            if one.aggregate is not None:
                column = one.aggregate.column
                try:
                    one.aggregate.ask("" if column is None else self._written(column, rows), options)
                except InvalidParameter as problem:
                    raise self.refuse(self.hint, problem.expected, str(problem.got), problem.hint) from None
        if any(one.arguments.report for one in aggregates):
            options["intervals"] = LEVEL
        if weights := self._weights(aggregates):
            options["weights"] = weights
        return options

    def _weights(self, aggregates: Sequence[Aggregated]) -> dict[str, float]:
        """The values of `epsilon =>` as weights, relative to the count's epsilon, which also selects the groups."""
        given = {one: one.arguments.epsilon for one in aggregates if one.arguments.epsilon is not None}
        selection = self.clause.selection_epsilon
        if not given and selection is None:
            return {}
        epsilon = self.clause.epsilon
        if epsilon is None:
            expected = "epsilon in OPTIONS, beside shares of it"
            raise self.refuse(self.hint, expected, "none", "say what they are shares of.")
        others = [one for one in aggregates if one.arguments.epsilon is None and one.aggregate is not None]
        spent = sum(given.values()) + (selection or 0.0)
        open_shares = len(others) + (selection is None)
        if spent > epsilon * (1 + 1e-12) or (open_shares and spent >= epsilon):
            hint = "the epsilons of aggregates and of group selection are parts of the epsilon in OPTIONS."
            most = "less than" if open_shares else "at most"
            raise self.refuse(self.hint, f"{most} epsilon = {epsilon:g} in these parts", f"{spent:g}", hint)
        rest = (epsilon - spent) / open_shares if open_shares else 0.0
        counted = selection or rest
        shares: dict[str, float] = {}
        for one in aggregates:
            if one.aggregate is not None:  # the quantiles of a column are one aggregate: parts add up
                name = one.aggregate.name
                shares[name] = shares.get(name, 0.0) + given.get(one, rest) / counted
        return shares
