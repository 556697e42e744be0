"""One thing that was looked at in a published file, or could not be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

State = Literal["passed", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. passed is None where there was nothing to compare with: it neither passed nor failed."""

    name: str
    passed: bool | None
    detail: str

    @property
    def failed(self) -> bool:
        """Whether something is wrong; a check that was skipped has not failed."""
        return self.passed is False

    @property
    def state(self) -> State:
        """The outcome in words."""
        if self.passed is None:
            return "not checked"
        return "passed" if self.passed else "failed"


def skipped(name: str, why: str) -> Check:
    """A check that nobody could make."""
    return Check(name, None, why)


def columns(table: pa.Table, expected: Sequence[str]) -> Check:
    """Whether the columns are those expected. A JSON file without rows names none, which is no fault."""
    if table.num_columns == 0:
        return skipped("columns", "none are named, as there are no rows")
    same = table.column_names == list(expected) and len(set(expected)) == len(expected)
    return Check("columns", same, "are those of the plan" if same else f"expected {expected}, got {table.column_names}")


def distinct_keys(table: pa.Table, keys: Sequence[str]) -> Check:
    """Whether no group is there twice."""
    names = list(keys)
    distinct = table.select(names).group_by(names).aggregate([]).num_rows == table.num_rows if names else False
    return Check("keys", distinct, "are all different" if distinct else "repeat")
