"""The aggregates of a private SELECT: what each counts or adds up, within which bounds, as options of a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from sqlglot import exp

from dphist.aggregates.quantile import percent_in_name
from dphist.columns import joined_name
from dphist.errors import InvalidParameter
from dphist.sql.names import Rows, plain_column
from dphist.sql.options import Arguments, Clause, number_of, read_arguments
from dphist.sql.parse import PrivacyClause, called
from dphist.sql.relate import Relating

LEVEL: Final = 0.95
"""Of the intervals in reports."""

MOST_BOUNDARIES: Final = 17
"""Of APPROX_QUANTILES, with both ends: the tree of a column answers so many questions."""

_PER_ROW: Final = ("VAR_POP", "STDDEV_POP", "PERCENTILE_CONT", "APPROX_QUANTILES")
_OPTION: Final = {"SUM": "sums", "AVG": "means", "VAR_POP": "variances", "STDDEV_POP": "stds"}
_KIND: Final = {"SUM": "sum", "AVG": "mean", "VAR_POP": "variance", "STDDEV_POP": "std"}
PRIVATE: Final = ("COUNT", "COUNTIF", *_OPTION, "PERCENTILE_CONT", "APPROX_QUANTILES")
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
    """One aggregate of a statement: which published column it is, and how it is shown.

    kind, label: of the aggregate in a plan; "count" is the number of units, which every release has. probabilities: of
    quantiles; ends: whether the bounds stand before and behind them. factor: what the released number is multiplied by.
    constant: the value, where bounds that are equal leave no other; nothing is released for it.
    """

    call: str
    kind: str
    label: str = ""
    arguments: Arguments = _AUTO
    probabilities: tuple[float, ...] = ()
    ends: bool = False
    factor: float = 1.0
    constant: float | None = None

    @property
    def name(self) -> str:
        """The name of a column without an alias."""
        if self.kind in ("count", "rows"):
            return self.kind
        if self.kind == "quantile" and not self.ends:
            return f"p{percent_in_name(self.probabilities[0])}_{self.label}"
        return f"{self.kind}_{self.label}"


@dataclass(slots=True, eq=False)
class Aggregates:
    """The aggregates of one private SELECT, equal ones once. grouped: whether it has keys."""

    relating: Relating
    clause: Clause
    hint: PrivacyClause
    grouped: bool
    _found: dict[str, Aggregated] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _bounds: dict[tuple[str, str], object] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Aggregated, ...]:
        """In the order in which they were met."""
        return tuple(self._found.values())

    @property
    def texts(self) -> tuple[str, ...]:
        """The expressions that are counted or added up."""
        return tuple(self._texts.values())

    def known(self, node: exp.Expr) -> Aggregated | None:
        """The aggregate that an expression is, if it is one and was met."""
        return self._found.get(self._signature(node)) if isinstance(node, exp.AggFunc) else None

    def refuse(self, node: exp.Expr, expected: str, got: str, hint: str = "") -> InvalidParameter:
        """A refusal at the place of a node."""
        return self.relating.refuse(node, expected, got, hint)

    def _signature(self, call: exp.Expr) -> str:
        return call.sql(dialect="bigquery", comments=False) + repr(call.args.get("named"))

    def aggregate(self, call: exp.Expr, rows: Rows, units: tuple[str, ...]) -> Aggregated:
        """An aggregate of the statement; equal ones are one."""
        signature = self._signature(call)
        if signature not in self._found:
            self._found[signature] = self._read(call, rows, units)
        return self._found[signature]

    def refuse_function(self, call: exp.Expr) -> None:
        """Refuse a function without a private form, by its name."""
        name = called(call)
        instead = _INSTEAD.get(name, f"these have one: {', '.join(PRIVATE)}.")
        raise self.refuse(call, "an aggregate that has a private form", name, instead)

    def _read(self, call: exp.Expr, rows: Rows, units: tuple[str, ...]) -> Aggregated:
        name, relating = called(call), self.relating
        if name not in PRIVATE:
            self.refuse_function(call)
        arguments = read_arguments(call, name in _PER_ROW, self.refuse)
        only = arguments.only_value
        if name in ("COUNT", "COUNTIF"):
            return replace(self._count(call, arguments, rows, units), constant=only)  # 0, or none
        inside = call.this
        if isinstance(inside, exp.Distinct) or not isinstance(inside, exp.Expr):
            raise self.refuse(call, f"{name} of a column", "DISTINCT or nothing", "leave DISTINCT out.")
        if isinstance(inside, exp.Order | exp.Limit | exp.IgnoreNulls | exp.RespectNulls | exp.HavingMax):
            raise self.refuse(call, f"{name} of a column", "a clause of its own", "leave it out; nulls are ignored.")
        text = relating.expression(inside, rows).text
        if name == "SUM" and only:
            return self._equal_totals(text, rows, arguments, only)
        if only is not None and name in _OPTION:
            label = plain_column(text, rows.relation.names) or "value"
            return Aggregated(name, _KIND[name], label, arguments, constant=only if name == "AVG" else 0.0)
        if name in _OPTION:
            return Aggregated(name, _KIND[name], self._label(_KIND[name], text, rows, arguments), arguments)
        probabilities, ends = self._probabilities(call, name)
        if only is not None:
            label = plain_column(text, rows.relation.names) or "value"
            return Aggregated(name, "quantile", label, arguments, probabilities, ends, constant=only)
        label = self._label("quantile", text, rows, arguments)
        return Aggregated(name, "quantile", label, arguments, probabilities, ends)

    def _equal_totals(self, text: str, rows: Rows, arguments: Arguments, only: float) -> Aggregated:
        """A sum of totals that are all clamped to one number: so many times that number as units have a value."""
        once = replace(arguments, bounds=(0.0, 1.0))
        wanted = plain_column(text, rows.relation.names) or "value"
        label = self._label("sum", f"CASE WHEN ({text}) IS NOT NULL THEN 1 END", rows, once, wanted)
        return Aggregated("SUM", "sum", label, once, factor=only)

    def _count(self, call: exp.Expr, arguments: Arguments, rows: Rows, units: tuple[str, ...]) -> Aggregated:
        """Units, rows, rows with a value, or distinct values."""
        inside, name = call.this, called(call)
        if call.args.get("expressions"):
            raise self.refuse(call, f"{name} of one column", "several", "count one.")
        if not arguments.chosen and arguments.bounds[0] != 0:
            hint = "whoever is not in a group adds nothing to it: write (0, 5)."
            raise self.refuse(call, f"a lower bound of 0 for {name}", f"{arguments.bounds[0]:g}", hint)
        most = arguments.bounds[1]
        if isinstance(most, float) and not most.is_integer():
            raise self.refuse(call, f"a whole number as the upper bound of {name}", f"{most:g}")
        if isinstance(inside, exp.Distinct):
            if len(inside.expressions) != 1 or name != "COUNT":
                raise self.refuse(call, "COUNT(DISTINCT column)", "several columns", "count one.")
            text = self.relating.expression(inside.expressions[0], rows).text
            if plain_column(text, rows.relation.names) in units:
                return Aggregated(name, "count", "", arguments)
            if self.grouped and self.clause.max_groups is None and not self.clause.public_groups:
                hint = "write max_groups_contributed = 10, say, into OPTIONS, or count the unit itself."
                raise self.refuse(call, "max_groups_contributed beside COUNT(DISTINCT column)", "none", hint)
            label = self._label("distinct", text, rows, arguments)
            return Aggregated(name, "distinct", label, arguments)
        if isinstance(inside, exp.Star):
            return Aggregated(name, "count" if most == 1 else "rows", "", arguments)
        if not isinstance(inside, exp.Expr) or isinstance(inside, exp.Order | exp.Limit | exp.HavingMax):
            raise self.refuse(call, f"{name} of a column", "a clause of its own", "leave it out.")
        text = self.relating.expression(inside, rows).text
        condition = text if name == "COUNTIF" else f"({text}) IS NOT NULL"
        if name == "COUNT" and plain_column(text, rows.relation.names) in units and most == 1:
            return Aggregated(name, "count", "", arguments)
        label = self._label("sum", f"CASE WHEN {condition} THEN 1 END", rows, arguments, "counted")
        return Aggregated(name, "sum", label, arguments)

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

    def _label(self, kind: str, text: str, rows: Rows, arguments: Arguments, name: str = "") -> str:
        """The name of a column, or of an expression, in the plan: one for each kind, text and pair of bounds."""
        family = {"variance": "spread", "std": "spread"}.get(kind, kind)
        plain = plain_column(text, rows.relation.names)
        bounds = arguments.bounds
        wanted = name or plain or "value"
        for number in count(1):
            label = wanted if number == 1 else f"{wanted}_{number}"
            same_text = self._texts.setdefault(label, text) == text
            if same_text and self._bounds.setdefault((family, label), bounds) == bounds:
                return label
        raise AssertionError("there is always one more name")

    def _written(self, label: str, rows: Rows) -> str:
        """A label as a release takes it: a column by its name, anything else as name=expression."""
        text = self._texts[label]
        return joined_name(label, None if plain_column(text, rows.relation.names) == label else text)

    def options(self, rows: Rows) -> dict[str, Any]:
        """The options of the release, without its budget."""
        options: dict[str, Any] = {}
        aggregates = [one for one in self.all if one.constant is None]
        if self.clause.max_groups is not None and self.grouped:
            options["max_groups"] = self.clause.max_groups
        if self.clause.min_units is not None and self.grouped:
            options["low_threshold"] = self.clause.min_units
        for one in aggregates:
            bounds = one.arguments.bounds
            most = bounds[1] if isinstance(bounds[1], str) else int(bounds[1])
            written = self._written(one.label, rows) if one.label else ""
            if one.kind == "rows":
                known = options.setdefault("rows", most)
                if known != most:
                    expected = "one pair of bounds for COUNT(*)"
                    raise self.refuse(self.hint, expected, "two", "use the wider one.")
            elif one.kind == "distinct":
                options.setdefault("distinct", {})[written] = most
            elif one.kind == "quantile":
                before = options.setdefault("quantiles", {}).get(written, ((),))[0]
                asked = sorted({*before, *one.probabilities})
                options["quantiles"][written] = (asked, *bounds)
            elif one.kind != "count":
                options.setdefault(_OPTION[{v: k for k, v in _KIND.items()}[one.kind]], {})[written] = bounds
        if any(one.arguments.report for one in aggregates):
            options["intervals"] = LEVEL
        if weights := self._weights(aggregates):
            options["weights"] = weights
        return options

    def _weights(self, aggregates: Sequence[Aggregated]) -> dict[str, float]:
        """`epsilon =>` as a share relative to the count's, which also selects the groups."""
        given = {one: one.arguments.epsilon for one in aggregates if one.arguments.epsilon is not None}
        selection = self.clause.selection_epsilon
        if not given and selection is None:
            return {}
        epsilon = self.clause.epsilon
        if epsilon is None:
            expected = "epsilon in OPTIONS, beside shares of it"
            raise self.refuse(self.hint, expected, "none", "say what they are shares of.")
        others = [one for one in aggregates if one.arguments.epsilon is None and one.kind != "count"]
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
            if (
                one.kind != "count"
            ):  # several quantiles of a column are one aggregate of the plan, with their parts together
                name = f"{one.kind}_{one.label}" if one.label else one.kind
                shares[name] = shares.get(name, 0.0) + given.get(one, rest) / counted
        return shares
