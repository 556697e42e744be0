"""Values that say less than their bounds alone are null: how many there are, and why, in a line. From noisy numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from dphist.engines.base import PRESENT, StoredTable
from dphist.engines.histogram import missing_in
from dphist.planning import Plan


@dataclass(frozen=True, slots=True)
class Withheld:
    """In how many of the groups columns are null; about how many units are counted there, and how many have a value."""

    names: tuple[str, ...]
    groups: int
    of_groups: int
    units: int
    with_a_value: int


def account_for(table: pa.Table | StoredTable, plan: Plan) -> tuple[pa.Table | StoredTable, tuple[Withheld, ...]]:
    """The table as it is published, and what is withheld in it: columns of the same values with the same numbers together."""
    names = list(plan.limited_names)
    rows, missing = missing_in(table, names) if isinstance(table, pa.Table) else table.missing(names)
    found: dict[object, Withheld] = {}
    for name, one in missing.items():
        if one.groups:
            aggregate, units, present = plan.limited_names[name], whole(one.units), whole(one.present)
            numbers = one.groups, rows, units, present if aggregate.records > 1 else min(present, units)
            alike = aggregate.column, aggregate.records, numbers
            before = found.get(alike, Withheld((), *numbers))
            found[alike] = replace(before, names=(*before.names, name))
    if isinstance(table, pa.Table):
        table = table.drop_columns([PRESENT + name for name in names])
    return table, tuple(found.values())


def whole(number: float) -> int:
    """A noisy number of units as it is told."""
    return max(round(number), 0)


def in_words(one: Withheld, plan: Plan) -> str:
    """The line that stands wherever the table is shown."""
    aggregate = plan.limited_names[one.names[0]]
    *most, last = one.names
    names, are, bounds = (
        (f"{', '.join(most)} and {last}", "are", "their bounds") if most else (last, "is", "its bounds")
    )
    records = " records" if aggregate.records > 1 else ""
    return (
        f"{names} {are} withheld (null) in {one.groups:,} of {one.of_groups:,} {'group' if one.of_groups == 1 else 'groups'},"
        f" where noise says less than {bounds} alone: about {one.with_a_value:,}{records} of {one.units:,} units there had a"
        f" number in `{aggregate.column}`."
    )
