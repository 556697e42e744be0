"""What is asked for per group besides the count of units: one file for each kind of aggregate.

A file has all of a kind: what a record adds, in SQL for every engine, how far one unit moves that, its noise and its words.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dphist.aggregates.base import Aggregate
from dphist.aggregates.count import CountOf, Rows, RowsOfUnit
from dphist.aggregates.distinct import Distinct, DistinctOfUnit
from dphist.aggregates.mean import Mean, MeanOfUnit
from dphist.aggregates.measures import Measure
from dphist.aggregates.quantile import Quantile
from dphist.aggregates.spread import Deviation, StandardDeviation, Variance
from dphist.aggregates.total import Sum, SumOfUnit
from dphist.errors import InvalidParameter
from dphist.files import stored

KINDS: Final[tuple[type[Aggregate], ...]] = (Sum, Mean, CountOf, Variance, StandardDeviation, Distinct, Rows, Quantile)
"""In the order in which a release has their columns."""

_SIZED: Final[tuple[type[Measure], ...]] = (SumOfUnit, MeanOfUnit, RowsOfUnit, Deviation, DistinctOfUnit)
SIZES: Final[dict[str, type[Measure]]] = {kind.size: kind for kind in _SIZED}
"""The sizes of a unit's values that bounds can be chosen by: a measure of each."""


def aggregates_of(options: Mapping[str, Any]) -> tuple[Aggregate, ...]:
    """What the options of a plan ask for, with their shares of the budget."""
    records, shares = options["records"], dict(options["weights"] or {})
    found = [one for kind in KINDS for one in kind.asked(options, 1 if records is None else records)]
    if records is not None and not any(one.of_records for one in found):
        raise InvalidParameter("an aggregate of records with --records, such as a variance", "none")
    found = [replace(one, weight=shares.pop(one.name, 1.0)) for one in found]
    if shares:
        hint = f"the names are {', '.join(one.name for one in found)}." if found else "there are none."
        raise InvalidParameter("weights for aggregates of the plan", sorted(shares), hint)
    return tuple(found)


def from_data(data: Any) -> Aggregate:
    """An aggregate as a plan stores it."""
    kinds = {kind.kind: kind for kind in KINDS}
    if not isinstance(data, dict) or data.get("kind") not in kinds:
        raise InvalidParameter(f"an aggregate of the kinds {', '.join(kinds)}", "another")
    fields = {name: value for name, value in data.items() if name != "kind"}
    return stored.build(kinds[data["kind"]], fields, f"an aggregate of the kind {data['kind']}")
