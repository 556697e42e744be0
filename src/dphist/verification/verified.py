"""What the checks of every kind of file share: the file as it was read, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.publish.charge import Spend
from dphist.publish.table import Floats
from dphist.verification.check import Check


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A published table and its metadata. typed: the format keeps types."""

    table: pa.Table
    metadata: dict[str, Any]
    typed: bool
    is_folder: bool


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Checks, and what must have been charged for such a file; None where that cannot be told.

    told: whether the entry's words are the metadata's. Where the data chose the mechanism, it was charged before it was known.
    """

    checks: Sequence[Check]
    spend: Callable[[], Spend] | None = None
    told: bool = True


def numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles; what is missing is NaN, which no check lets pass."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def close(found: Floats, expected: Floats) -> bool:
    """Equal but for the last digits, all of them."""
    return bool((np.abs(found - expected) <= 1e-9 * np.abs(expected)).all())
