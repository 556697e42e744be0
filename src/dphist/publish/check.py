"""One thing that was looked at in a published file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    detail: str


def columns(table: pa.Table, expected: Sequence[str]) -> Check:
    """Whether the columns are those expected. A JSON file without rows names none, which is no fault."""
    if table.num_columns == 0:
        return Check("columns", True, "none are named, as there are no rows")
    same = table.column_names == list(expected)
    return Check("columns", same, "are those of the plan" if same else f"expected {expected}, got {table.column_names}")


def distinct_keys(table: pa.Table, keys: Sequence[str]) -> Check:
    """Whether no group is there twice."""
    names = list(keys)
    distinct = table.select(names).group_by(names).aggregate([]).num_rows == table.num_rows if names else False
    return Check("keys", distinct, "are all different" if distinct else "repeat")
