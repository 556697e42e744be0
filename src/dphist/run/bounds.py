"""Private bounds of a column by themselves: for a plan to come, or to know a column without looking at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from dphist import checks
from dphist.aggregates import SIZES
from dphist.aggregates.measures import Of
from dphist.columns import Unit, not_protected, protected, unit_of
from dphist.engines.base import Engine, Progress, Records
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings, parse_key
from dphist.errors import InvalidParameter
from dphist.ledger.charge import Receipt, charging, paid_run
from dphist.mechanisms.surcharge import LARGEST_EPSILON
from dphist.notebook import card
from dphist.planning.spends import Pure, Spend
from dphist.run.chosen_bounds import cover, noise_sizes, read_sizes, share_outside
from dphist.run.job import choose_engine
from dphist.words import bounded_change, budget, exactly, number

THEOREM: Final = "discrete Laplace noise on one bucket for each unit"


@dataclass(frozen=True, slots=True, repr=False)
class PrivateBounds:
    """Bounds that leave about so many units outside, and the noisy share that they do; None if no value could be seen.

    Example:
        >>> found = dp.bounds("events.parquet", unit="user_id", column="age", epsilon=1)
        >>> found.lower <= 20 and found.upper >= 80
        True
    """

    unit: Unit
    column: str | None
    of: Of
    lower: float | None
    upper: float | None
    outside: float | None
    epsilon: float
    receipt: Receipt | None = None

    @property
    def guarantee(self) -> str:
        """In one sentence."""
        words = bounded_change(protected(self.unit), self.epsilon, 0.0, 0.0, THEOREM)
        return f"{words} {not_protected(self.unit)}".strip()

    def _found(self) -> str:
        what = "records per unit and group" if self.column is None else f"{self.column} ({self.of})"
        if self.lower is None or self.upper is None or self.outside is None:
            return f"{what}: no bounds found; no value but 0 could be told from noise."
        range_ = f"{exactly(self.lower)} to {exactly(self.upper)}"
        return f"{what}: {range_}; about {100 * self.outside:.1f} % of units are outside."

    def __str__(self) -> str:
        return f"{self._found()}\nGuarantee: {self.guarantee}"

    def __repr__(self) -> str:
        return f"PrivateBounds({self._found().removesuffix('.')}; {budget(self.epsilon, 0)})"

    def _repr_html_(self) -> str:
        return card("Private bounds", [("bounds", self._found()), ("guarantee", self.guarantee)])

    def to_data(self) -> dict[str, Any]:
        """Everything public about it, for JSON.

        Returns:
            A dictionary.

        Example:
            >>> dp.bounds("events.parquet", unit="user_id", column="age", epsilon=1).to_data()["of"]
            'record'
        """
        names = ("column", "of", "lower", "upper", "outside", "epsilon", "guarantee")
        return {
            **{name: getattr(self, name) for name in names},
            "ledger": None if self.receipt is None else self.receipt.to_data(),
        }


def bounds(
    source: object,
    *,
    unit: str | Sequence[str],
    column: str | None = None,
    epsilon: float,
    of: Of = "record",
    by: str | Sequence[str] = (),
    lower: float | None = None,
    upper: float | None = None,
    outside: float = 0.01,
    where: str | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> PrivateBounds:
    """Bounds of a column, from a noisy histogram over public buckets that grow by the square root of two.

    Args:
        source: what to read, as for `dphist.release`.
        unit: the column, or columns, that name the person protected.
        column: the column; none for `of="rows"`.
        epsilon: the budget; nothing else is spent, no delta.
        of: whose bounds: one ``record`` of each unit, the ``sum`` or ``mean`` of a unit's values in a group, how many
            ``distinct`` ones it has there, or its ``rows``.
        by: the columns that make the groups, for sums, means and rows; without them a unit's records are one group.
        lower: the lower end, if it is known.
        upper: the upper end, if it is known.
        outside: about the share of units that may have their value outside.
        where: an SQL condition on a record's own columns.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.
        ledger: where it is charged, before the first record is read.
        dataset: the data set of the ledger that pays.
        progress: is called with the name of each phase.

    Returns:
        The bounds, the noisy share of units outside, the guarantee.

    Raises:
        InvalidParameter: what names, types and options rule out, before anything is charged.
        BudgetExceeded: it does not fit into what is left of the data set's budget.

    Example:
        >>> import pyarrow as pa
        >>> people = pa.table({"who": range(5000), "age": [20.0 + i % 60 for i in range(5000)]})
        >>> found = dp.bounds(people, unit="who", column="age", epsilon=1.0)
        >>> found.lower <= 23 and 64 <= found.upper <= 128
        True
    """
    checks.check_epsilon(epsilon)
    checks.check_between("epsilon", epsilon, checks.SMALLEST_EPSILON, LARGEST_EPSILON)
    checks.check_choice("of", of, get_args(Of))
    checks.check_between("outside", outside, 0.0, 0.5)
    ends = [end for end in (lower, upper) if end is not None]
    if not all(map(math.isfinite, ends)) or (len(ends) == 2 and ends[0] >= ends[1]):
        raise InvalidParameter("finite ends, lower < upper", f"{lower} and {upper}")
    if (column is None) == SIZES[of].of_column:
        got = "none" if column is None else repr(column)
        raise InvalidParameter("a column, or none for rows", got, "add --column NAME, or --of rows.")
    measure = SIZES[of](column, 0.0, 1.0)
    keys = tuple(map(parse_key, [by] if isinstance(by, str) else by)) or (Key("everything", "1"),)
    who = unit_of(unit)
    query = GroupByQuery(unit=who, by=keys, measures=(measure,), where=where)
    scale = 1 / epsilon * (1 + 1e-12)

    def run(records: Records) -> PrivateBounds:
        sizes = read_sizes(noise_sizes(records.sizes(1), scale), scale)
        if sizes is None:
            return PrivateBounds(who, column, of, lower, upper, None, epsilon)
        low, high = cover(sizes, outside, lower, upper)
        if SIZES[of].counted:  # whole numbers, which are counted from 0
            low = 0.0 if lower is None else low
            high = max(1.0, math.floor(high)) if upper is None else high
        return PrivateBounds(who, column, of, low, high, share_outside(sizes, low, high), epsilon)

    chosen = choose_engine(source, engine, settings)
    with charging(ledger, dataset, lambda: spend_of_bounds(epsilon, who)) as charge:
        return paid_run(charge, chosen.open(source, query, progress=progress), run)


def spend_of_bounds(epsilon: float, unit: Unit) -> Spend:
    """A pure epsilon on one bucket."""
    found = PrivateBounds(unit, None, "rows", None, None, None, epsilon)
    facts = {"epsilon": epsilon, "noise": f"scale {number(1 / epsilon)}", "guarantee": found.guarantee}
    return Spend("bounds", unit, Pure(epsilon), facts)
