"""OPTIONS of the clause and named arguments of aggregates: each a literal in its domain, and there once at most."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from dphist.errors import InvalidParameter
from dphist.sql.parse import PrivacyClause, called
from dphist.words import did_you_mean

_IN_SQL: Final = (
    (r"with --mechanism [\w-]+ it fits as it is; ", ""),
    (r"--max-groups (\d+)", r"max_groups_contributed = \1"),
    (r"--max-groups|\bmax_groups(?= = )", "max_groups_contributed"),
    (r"--records or (?=how)| or fewer --records", ""),
)
"""Patterns for options of a release, and their names in a statement; no name for an option that a statement lacks."""

Refuse: TypeAlias = Callable[[exp.Expr, str, str, str], InvalidParameter]
"""Makes a refusal at the place of a node."""

LARGEST_DELTA: Final = math.nextafter(1.0, 0.0)

NAMES: Final = (
    "epsilon", "delta", "max_groups_contributed", "max_rows_contributed", "privacy_unit_column",
    "min_privacy_units_per_group", "group_selection_strategy", "group_selection_epsilon", "std_errors",
    "max_joined_rows"
)  # fmt: skip
_ELSEWHERE: Final = {"kappa": "max_groups_contributed", "threshold": "min_privacy_units_per_group"}
"""Options of other systems' clauses, and our options that do the same."""
_NULL_IS_A_VALUE: Final = (
    "epsilon", "delta", "privacy_unit_column", "group_selection_epsilon", "std_errors", "contribution_bounds_per_group",
    "contribution_bounds_per_row",
)  # fmt: skip
_UNLISTED: Final = {
    "min_privacy_units_per_group": "all public groups are shown, whoever is in them.",
    "group_selection_epsilon": "public groups need no selection; leave it out.",
}
_ADDED_FIRST: Final = "a person's rows are added first."
STRATEGIES: Final = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS")
ARGUMENTS: Final = ("contribution_bounds_per_group", "contribution_bounds_per_row", "epsilon", "report_format")
_AUTO: Final = ("auto", "auto")


@dataclass(frozen=True, slots=True)
class Clause:
    """The values of OPTIONS. epsilon, delta: None for a share of the script's budget."""

    epsilon: float | None = None
    delta: float | None = None
    max_groups: int | None = None
    unit: exp.Column | None = None
    min_units: int | None = None
    public_groups: bool = False
    selection_epsilon: float | None = None
    std_errors: bool = True
    most_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Arguments:
    """The named arguments of an aggregate. bounds: "auto" twice where the release chooses them."""

    bounds: tuple[float | str, float | str] = ("auto", "auto")
    epsilon: float | None = None
    report: bool = False

    @property
    def chosen(self) -> bool:
        """Whether the release chooses the bounds."""
        return self.bounds == _AUTO

    @property
    def only_value(self) -> float | None:
        """The only possible value, if the bounds are equal."""
        lower, upper = self.bounds
        return lower if lower == upper and isinstance(lower, float) else None


def in_words_of_sql(problem: InvalidParameter) -> InvalidParameter:
    """A refusal of a plan or of a ledger with options of SQL in the place of flags."""

    def said(words: str) -> str:
        for pattern, replacement in _IN_SQL:
            words = re.sub(pattern, replacement, words)
        return words

    found = type(problem)(said(problem.expected), problem.got, said(problem.hint))
    found.pointer, found.place, found.aftermath = problem.pointer, problem.place, problem.aftermath
    return found


def read_clause(clause: PrivacyClause, refuse: Refuse) -> Clause:
    """Read and check OPTIONS."""
    given = _given(clause.expressions, NAMES, ("an option of differential privacy", "the options are"), refuse)
    if (rows := given.get("max_rows_contributed")) is not None:
        most = number_of(rows)
        most = most if most is not None and most >= 1 else 10
        rows_hint = f"COUNT(*, contribution_bounds_per_group => (0, {most:g})) for the rows in each."
        hint = f"write max_groups_contributed = {most:g} for a person's groups, and {rows_hint}"
        raise refuse(rows, "max_groups_contributed", "max_rows_contributed", hint)
    strategy = given.get("group_selection_strategy")
    found = Clause(
        epsilon=_epsilon(given.get("epsilon"), "epsilon", refuse),
        delta=_delta(given.get("delta"), refuse),
        max_groups=_whole(given.get("max_groups_contributed"), "max_groups_contributed", refuse),
        unit=_unit(given.get("privacy_unit_column"), refuse),
        min_units=_whole(given.get("min_privacy_units_per_group"), "min_privacy_units_per_group", refuse),
        public_groups=strategy is not None and _strategy(strategy, refuse) == "PUBLIC_GROUPS",
        selection_epsilon=_epsilon(given.get("group_selection_epsilon"), "group_selection_epsilon", refuse),
        std_errors=_true(given.get("std_errors"), refuse),
        most_rows=_whole(given.get("max_joined_rows"), "max_joined_rows", refuse),
    )
    for name, hint in _UNLISTED.items():
        if found.public_groups and name in given:
            raise refuse(given[name], f"no {name} with PUBLIC_GROUPS", "both", hint)
    return found


def read_arguments(call: exp.Expr, per_row: bool, refuse: Refuse) -> Arguments:
    """Read the named arguments of an aggregate. per_row: its bounds are for a row, not for a person's total."""
    words = f"a named argument of {called(call)}", "the named arguments are"
    given = _given(call.args.get("named") or (), ARGUMENTS, words, refuse)
    right, wrong = "contribution_bounds_per_row", "contribution_bounds_per_group"
    right, wrong = (right, wrong) if per_row else (wrong, right)
    if wrong in given:
        each = "a variance, a deviation or a quantile bounds each row."
        raise refuse(given[wrong], f"{right} for {called(call)}", wrong, each if per_row else _ADDED_FIRST)
    if (report := given.get("report_format")) is not None:
        text = report.this.upper() if isinstance(report, exp.Literal) and report.is_string else ""
        if text != "JSON":
            hint = "there are no protocol buffers here."
            raise refuse(report, 'report_format => "JSON"', repr(text) if text else "something else", hint)
    epsilon = _epsilon(given.get("epsilon"), "epsilon", refuse)
    return Arguments(_bounds(given.get(right), call, refuse), epsilon, report is not None)


def _given(
    pairs: Sequence[exp.Expr], names: Sequence[str], words: tuple[str, str], refuse: Refuse
) -> dict[str, exp.Expr]:
    """The values by name. NULL leaves an option out, or is refused later as a value of it."""
    found: dict[str, exp.Expr] = {}
    for pair in pairs:
        name = pair.this.name.lower()
        if name not in names:
            others = did_you_mean(name, names) or f"{words[1]} {', '.join(names)}."
            hint = f"write {_ELSEWHERE[name]}." if words[1].endswith("options are") and name in _ELSEWHERE else others
            raise refuse(pair, words[0], repr(pair.this.name), hint.strip())
        if name in found:
            raise refuse(pair, f"{name} once", "it more than once", "leave all but one of them out.")
        found[name] = pair.expression
    return {name: value for name, value in found.items() if name in _NULL_IS_A_VALUE or not _is_null(value)}


def number_of(node: exp.Expr) -> float | None:
    """The value of a literal number, also with a sign or as CAST('1e-8' AS FLOAT64). None: the node is no such number."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        inner = number_of(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kind = node.to.this
        if kind not in (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT):
            return None
        try:
            return float(node.this.this)
        except ValueError:
            return None
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return float(node.this)
        except ValueError:
            return None
    return None


def _is_null(node: exp.Expr) -> bool:
    return isinstance(node, exp.Null) or (isinstance(node, exp.Cast) and isinstance(node.this, exp.Null))


def _epsilon(node: exp.Expr | None, name: str, refuse: Refuse) -> float | None:
    if node is None:
        return None
    hint = "1 is a common choice; smaller is more private."
    if _is_null(node):
        raise refuse(node, f"a number as {name}", "NULL", hint)
    value = number_of(node)
    if value is None:
        raise refuse(node, f"a number as {name}, written down", "an expression", hint)
    if not (math.isfinite(value) and value > 0):
        raise refuse(node, f"a finite {name} > 0", f"{value:g}", hint)
    return value  # of a huge epsilon the plan uses only the part for which samplers are exact


def _delta(node: exp.Expr | None, refuse: Refuse) -> float | None:
    if node is None:
        return None
    value = number_of(node)
    if value is None or not 0 <= value <= 1:
        got = "NULL" if _is_null(node) else "an expression" if value is None else f"{value:g}"
        raise refuse(node, "a delta in [0, 1], written down", got, "try 1e-8: far below one over the number of people.")
    return min(value, LARGEST_DELTA)


def _whole(node: exp.Expr | None, name: str, refuse: Refuse) -> int | None:
    if node is None:
        return None
    value = number_of(node)
    if value is None or not value.is_integer() or not 1 <= value <= 2**31:
        got = "an expression" if value is None else f"{value:g}"
        raise refuse(node, f"a whole number from 1 as {name}, or NULL", got, f"{name} = 10, say.")
    return int(value)


def _unit(node: exp.Expr | None, refuse: Refuse) -> exp.Column | None:
    if node is None:
        return None
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        hint = "a unit that is computed is declared: --unit TABLE=NAME=EXPRESSION."
        raise refuse(node, "a column as privacy_unit_column", "something else", hint)
    return node


def _strategy(node: exp.Expr, refuse: Refuse) -> str:
    plain = isinstance(node, exp.Column | exp.Var) and not getattr(node, "table", "")
    name = node.name.upper() if plain else ""
    if name not in STRATEGIES:
        expected = f"{' or '.join(STRATEGIES)} as group_selection_strategy"
        raise refuse(node, expected, repr(node.name or node.key), "leave it out for unknown groups.")
    return name


def _true(node: exp.Expr | None, refuse: Refuse) -> bool:
    if node is None:
        return True
    if not isinstance(node, exp.Boolean):
        raise refuse(node, "TRUE or FALSE as std_errors", "something else", "FALSE leaves the columns of errors out.")
    return bool(node.this)


def _bounds(node: exp.Expr | None, call: exp.Expr, refuse: Refuse) -> tuple[float | str, float | str]:
    if node is None or _is_null(node):
        return _AUTO
    parts: Sequence[exp.Expr] = node.expressions if isinstance(node, exp.Tuple) else ()
    values = [number_of(part) for part in parts]
    hint = "write two numbers: (0, 100); without bounds the release finds them."
    if len(values) != 2 or any(value is None or not math.isfinite(value) for value in values):
        raise refuse(node, f"(lower, upper) as the bounds of {called(call)}", "something else", hint)
    lower, upper = float(values[0] or 0.0), float(values[1] or 0.0)
    if lower > upper:
        raise refuse(node, "a lower bound that is not above the upper one", f"({lower:g}, {upper:g})", hint)
    return lower, upper
