"""The table of a release as the outer query of its statement reads it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dphist.planning.plan import HIGH, LOW, STD_ERROR
from dphist.publish.result import Release
from dphist.sql.aggregates import Aggregated
from dphist.sql.translate import PrivateSelect


def published_table(private: PrivateSelect, release: Release) -> pa.Table:
    """The table of a release under the names that the outer query has for its columns."""
    table = release.table
    columns: dict[str, Any] = {}
    for place, name in enumerate(private.key_names, 1):
        columns[f"key_{place}"] = table.column(name)
    for number, one in enumerate(private.aggregates, 1):
        columns |= _columns_of(one, number, release, table, grouped=bool(private.key_names))
    if not columns:
        raise AssertionError("a private SELECT has keys or aggregates")
    return pa.table(columns)


def empty_table(private: PrivateSelect) -> pa.Table:
    """The same without rows, before it is known what types the keys have: null stands for any."""
    columns: dict[str, Any] = {f"key_{place}": pa.nulls(0) for place in range(1, private.keys + 1)}
    for number, one in enumerate(private.aggregates, 1):
        columns |= {name: pa.nulls(0, pa.float64()) for name in _names(one, number)}
    return pa.table(columns)


def _columns_of(one: Aggregated, number: int, release: Release, table: pa.Table, *, grouped: bool) -> dict[str, Any]:
    """Value, error and interval of an aggregate; null where no bounds could be found."""
    names, places = ["count"], [""]
    columns: dict[str, Any] = {}
    if one.constant is not None:
        return {
            name: pa.array([0.0 if name.startswith("error") else one.constant] * table.num_rows, pa.float64())
            for name in _names(one, number)
        }
    if one.kind != "count":
        kind = next(
            found
            for found in release.plan.request.aggregates
            if found.kind == one.kind and (found.kind == "rows" or found.column == one.label)
        )
        names = [kind.name]
        if one.probabilities:
            by_probability = dict(zip(kind.probabilities, kind.names, strict=False))
            names = [by_probability.get(probability, "") for probability in one.probabilities]
            places = [f"_{place}" for place in range(1, len(names) + 1)]
        lower, upper = (None, None) if kind.chosen == "nothing" else kind.bounds
        seen = next((bounds for bounds in release.bounds if bounds.name == kind.name), None)
        units = None if seen is None or grouped else seen.units  # of groups, it is the size of an ordinary one
        outside = None if seen is None or seen.outside is None or units is None else seen.outside * units
        facts = {"lower": lower, "upper": upper, "inputs": units, "outside": outside}
        for name, value in facts.items():
            columns[f"{name}_{number}"] = pa.array([value] * table.num_rows, pa.float64())
    for name, place in zip(names, places, strict=True):
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
    """What the columns of an aggregate are called."""
    places = [f"_{place}" for place in range(1, len(one.probabilities) + 1)] or [""]
    names = [f"{word}_{number}{place}" for word in ("value", "error", "low", "high") for place in places]
    return names + [f"{word}_{number}" for word in ("lower", "upper", "inputs", "outside")]
