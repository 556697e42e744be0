"""Tumult Analytics: count units per item of a Spark DataFrame, each unit in at most ten items and once in each.

The groups are not listed, so half of epsilon and all of delta select them; the other half of epsilon counts them, with
geometric noise (Gaussian noise would need a budget in zCDP, which cannot select groups).
"""

from __future__ import annotations

from typing import Any

from tmlt.analytics import (  # type: ignore[import-not-found, unused-ignore]
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)


def run(spark: Any, events: Any, out: str, epsilon: float, delta: float, max_groups: int) -> None:
    """Select the groups, count them, and let Spark write."""
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(epsilon, delta),
        source_id="events",
        dataframe=events.select("user", "item"),
        protected_change=AddRowsWithID("user"),
    )
    bounded = (
        QueryBuilder("events").enforce(MaxGroupsPerID("item", max_groups)).enforce(MaxRowsPerGroupPerID("item", 1))
    )
    selected = session.evaluate(bounded.get_groups(["item"]), ApproxDPBudget(epsilon / 2, delta))
    counted = bounded.groupby(KeySet.from_dataframe(selected)).count()
    session.evaluate(counted, ApproxDPBudget(epsilon / 2, 0)).write.parquet(out)
