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


def distinct_keys(table: pa.Table, keys: Sequence[str]) -> Check:
    """Whether no group is there twice."""
    names = list(keys)
    distinct = table.select(names).group_by(names).aggregate([]).num_rows == table.num_rows if names else False
    return Check("keys", distinct, "are all different" if distinct else "repeat")
