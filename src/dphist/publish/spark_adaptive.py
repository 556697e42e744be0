"""The adaptive release on Spark: every round a join, a written table of exact sums, one pass of noise on the executors.

Only public or noisy numbers come to the driver, and of the exact ones three histograms of fixed length and a total, which are
noised there. What is computed from the noisy values of *all* selected groups (weights, caps, estimates) is the work of one
task on a committed table, in the order of the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dphist.engines.memory import Integers
from dphist.engines.spark.pairs import clipped_sql, degrees_sql, first_round_sql, norms_sql, round_sql
from dphist.engines.spark.session import without_leaks
from dphist.errors import InvalidParameter
from dphist.mechanisms import AdaptiveGaussian
from dphist.mechanisms.tuning import MOST_RELEASED
from dphist.planning import Plan
from dphist.planning.aggregates import sum_noise
from dphist.publish.adaptive import decide
from dphist.publish.privatise import bounds_of
from dphist.publish.spark_noise import caps_of_groups, estimate_groups, noise_clipped, noise_round, weigh_groups
from dphist.selection.counting import EDGES, noise_norms, whole_cap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from dphist.publish.result import Release
    from dphist.publish.spark import Work

NOTHING_SELECTED = (1.0, 4.0)


def run_on_pairs(work: Work) -> Release:
    """What needs more than one pass over the pairs of units and groups."""
    from dphist.publish.spark import noise_written

    records, plan = work.records, work.job.plan
    keys = records.fields.key_names
    pairs = records.views.add(work.exact.write(records.pairs(), "pairs", distinct=("unit", *keys)), "pairs")
    size = _check_size(work, pairs)
    plan = decide(plan, _Degrees(work, pairs), work.entropy)
    if not isinstance(plan.mechanism, AdaptiveGaussian):
        groups = work.exact.write(records.histogram(bounds_of(plan), pairs), "groups", distinct=keys)
        return noise_written(work, plan, groups)
    work.report("selecting groups in rounds, counting them")
    selected = _select(work, plan.mechanism, pairs)
    _check_selected(work, records.views.add(selected, "selected"), size)
    committed = _count(work, plan, plan.mechanism, pairs, selected)
    total = work.scalar(f"SELECT COUNT(DISTINCT unit) FROM {pairs}") if plan.request.total else None  # noqa: S608
    return work.finished(plan, committed, total)


def _check_size(work: Work, pairs: str) -> int:
    """Refuse more units than the guarantee is stated for; the number of pairs, true as it is."""
    found = work.scalar(f"SELECT COUNT(*) FROM {pairs}")  # noqa: S608
    # Counting units costs a shuffle and is needed only if there are that many pairs.
    if found >= MOST_RELEASED and work.scalar(f"SELECT COUNT(DISTINCT unit) FROM {pairs}") >= MOST_RELEASED:  # noqa: S608
        raise InvalidParameter("fewer than 2^31 units for the adaptive release", "more")
    return found


def _check_selected(work: Work, selected: str, pairs: int) -> None:
    """Refuse more selected groups than the guarantee is stated for: it adds up what each draw may be off."""
    if pairs >= MOST_RELEASED and work.scalar(f"SELECT COUNT(*) FROM {selected}") >= MOST_RELEASED:  # noqa: S608
        raise InvalidParameter("fewer than 2^31 selected groups in the adaptive release", "more")


class _Degrees:
    """Pairs that can tell how many groups units have."""

    def __init__(self, work: Work, pairs: str) -> None:
        self._work, self._pairs = work, pairs

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return _buckets(self._work, degrees_sql(self._pairs, edges), len(edges))


def _buckets(work: Work, sql: str, length: int) -> Integers:
    found = np.zeros(length, np.int64)
    for place, units in without_leaks(lambda: work.records.sql(sql).collect()):
        found[place] = units
    return found


def _select(work: Work, mechanism: AdaptiveGaussian, pairs: str) -> DataFrame:
    """All rounds; the keys of the selected groups with their noisy sums of round 1."""
    records, keys = work.records, work.records.fields.key_names
    sampled = records.views.add(records.sampled(pairs, mechanism.max_groups), "sampled")
    sql, rounds = first_round_sql(sampled, keys), mechanism.tuning.rounds
    for number in range(rounds):
        exact = work.exact.write(records.sql(sql), f"round_{number}", distinct=keys)
        last = number == rounds - 1
        schema = _schema(exact.schema, keys, ["first"] if last else ["total", "first", "weight"])
        state = work.noised(exact, noise_round(mechanism, number, work.entropy), schema, f"noisy_{number}")
        if not last:
            sql = round_sql(sampled, records.views.add(state, f"noisy_{number}"), keys)
    return state


def _count(work: Work, plan: Plan, mechanism: AdaptiveGaussian, pairs: str, selected: DataFrame) -> DataFrame:
    """The selected groups, whose keys are public by now, counted without a threshold."""
    from dphist.publish.spark import released_schema

    records, keys = work.records, work.records.fields.key_names
    schema = _schema(selected.schema, keys, ["first", "weight"])
    weighed = work.noised(selected.coalesce(1), weigh_groups(mechanism), schema, "weights")
    weights = records.views.add(weighed, "weights")
    square = work.scalar(f"SELECT SUM(weight * weight) FROM {weights}")  # noqa: S608
    norms = noise_norms(
        mechanism, _buckets(work, norms_sql(pairs, weights, keys, EDGES), len(EDGES)), square, work.entropy
    )
    chosen = weighed.coalesce(1).mapInArrow(caps_of_groups(mechanism, norms), "cap double, probe_cap double")
    found = without_leaks(chosen.collect)  # no row if no group was selected
    caps = (float(found[0][0]), float(found[0][1])) if found else NOTHING_SELECTED
    sums = tuple(sum_noise(noisy) for noisy in plan.aggregates)
    sql = clipped_sql(pairs, weights, keys, (whole_cap(caps[0]), whole_cap(caps[1])), [noise.shift for noise in sums])
    exact = work.exact.write(records.sql(sql), "clipped", distinct=keys)
    names = ["weight", "main", "probe", *(f"steps_{position}" for position in range(1, len(sums) + 1))]
    noisy = work.noised(
        exact, noise_clipped(mechanism, caps, sums, work.entropy), _schema(exact.schema, keys, names), "counts"
    )
    released = released_schema(exact.schema, len(keys), plan, work.job.request)
    function = estimate_groups(plan, mechanism, work.job.request, norms, caps)
    return work.published(noisy.coalesce(1), function, released)


def _schema(exact: StructType, keys: tuple[str, ...], whole: list[str]) -> StructType:
    """The keys with their types, and whole numbers."""
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(name, exact[name].dataType) for name in keys]
    return StructType([*fields, *(StructField(name, LongType()) for name in whole)])
