"""Check what a release withholds: just the values whose stated error says less than their bounds alone, computed anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.checks import Check
from dphist.engines.base import missing_in
from dphist.measures import says_nothing
from dphist.planning import Plan
from dphist.planning.plan import STD_ERROR
from dphist.publish.withheld import Withheld, whole
from dphist.verification.claims import CLOSE, numbers


def nulls(table: pa.Table, plan: Plan) -> dict[str, NDArray[np.bool_]]:
    """Where columns are null that may be: no other check looks there."""
    return {name: np.isnan(numbers(table, name)) for name in plan.limited_names}


def check_withheld(table: pa.Table, plan: Plan, ends: Sequence[str], told: Sequence[Withheld]) -> Check:
    """Which values are null, with the ends of their intervals, and whether the metadata tells as many."""
    wrong = []
    for name, null in nulls(table, plan).items():
        low, high = plan.limited_names[name].span or (0.0, 0.0)
        errors, slack = numbers(table, name + STD_ERROR), (high - low) * CLOSE
        must, may = (says_nothing(errors, (low, high + further)) for further in (slack, -slack))
        with_ends = all(np.array_equal(np.isnan(numbers(table, name + end)), null) for end in ends)
        if not (with_ends and bool((must <= null).all() and (null <= may).all())):
            wrong.append(name)
    if wrong:
        return Check("withheld", False, f"are not the values that say less than their bounds alone in {wrong}")
    rows, missing = missing_in(table, list(plan.limited_names))
    expected = {name: (one.groups, rows, whole(one.units)) for name, one in missing.items() if one.groups}
    stated = {name: (one.groups, one.of_groups, one.units) for one in told for name in one.names}
    if set(stated) != set(expected) or not all(np.allclose(stated[name], expected[name], 1e-9, 1) for name in stated):
        return Check("withheld", False, "are not as many values as the metadata says")
    return Check("withheld", True, "are the values that say less than their bounds alone, and no others")
