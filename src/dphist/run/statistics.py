"""One private number from a table of records: bounded, bucketed and counted by an engine, then made private."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from dphist.columns import Unit, quote_identifier, unit_of
from dphist.engines.base import Engine, Progress, Records
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.errors import InvalidParameter
from dphist.ledger.charge import Receipt, charging, paid_run
from dphist.notebook import card
from dphist.planning.flexible import Buckets, PrivateHistogram, sanitise, statistic
from dphist.planning.options import StatisticOptions, read, spelled_out
from dphist.planning.spends import spend_of_statistic
from dphist.planning.statistics import StatisticPlan, plan_statistic
from dphist.run.job import choose_engine
from dphist.words import budget, cut, exactly

_BUCKET = "dphist_bucket"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateStatistic:
    """A private answer with its promise; `data` is the private histogram behind it, free to be used again.

    Example:
        >>> found = dp.stat("median", "ages.parquet", unit="person", column="age", lower=0, upper=120, error=1, epsilon=0.5)
        >>> 40 < found.value < 60
        True
        >>> round(found.data.apply(lambda values, counts: (values * counts).sum() / counts.sum()) / 10)
        5
    """

    value: Any
    plan: StatisticPlan
    data: PrivateHistogram
    receipt: Receipt | None = None
    unit: Unit | None = None

    def __str__(self) -> str:
        return "\n".join([self.answer(), self.plan.bounding(), f"Guarantee: {self.plan.privacy(self.unit)}"])

    def __repr__(self) -> str:
        plan = self.plan
        shown = cut(str(self.value), 60)
        return f"PrivateStatistic({plan.statistic} {shown}; {budget(plan.epsilon, plan.delta)})"

    def _repr_html_(self) -> str:
        facts = [
            ("answer", self.answer()),
            ("bounding", self.plan.bounding()),
            ("guarantee", self.plan.privacy(self.unit)),
        ]
        return card(f"Private {self.plan.statistic}", facts)

    def answer(self) -> str:
        """The value and how far it can be from the truth, in words.

        Returns:
            A sentence.

        Example:
            >>> statistic.answer().split(":")[1].split(",")[0]
            ' within 1 of the true lower median (rank ⌈n/2⌉) of the bounded records'
        """
        if self.plan.statistic == "is-empty":
            return f"{'empty' if self.value else 'not empty'}: {self.plan.accuracy()}"
        if self.value is None or (isinstance(self.value, list) and not self.value):
            return (
                f"no answer: {'no value has enough records' if self.plan.statistic == 'max-k' else 'nothing is left'}"
                + (f" after dropping up to {self.plan.q:,} records of each bar.")
            )
        if isinstance(self.value, list):
            shown = ", ".join(_shown(value) for value in self.value[:20]) + (", …" if len(self.value) > 20 else "")
            return f"{{{shown}}}: {self.plan.accuracy()}"
        return f"{_shown(self.value)}: {self.plan.accuracy()}"

    def to_data(self) -> dict[str, Any]:
        """Everything public about the answer, for JSON.

        Returns:
            A dictionary.

        Example:
            >>> statistic.to_data()["statistic"]
            'median'
        """
        plan = self.plan
        infinite = isinstance(self.value, float) and not math.isfinite(self.value)
        return {
            "statistic": plan.statistic,
            "value": str(self.value) if infinite else self.value,
            "accuracy": plan.accuracy(),
            "conditions": list(plan.conditions()),
            "bounding": plan.bounding(),
            "guarantee": plan.privacy(self.unit),
            "epsilon": plan.epsilon,
            "delta": plan.mechanism.delta(plan.epsilon),
            "q": plan.q,
            "drop": plan.drop,
            "min_records": plan.min_records,
            "max_records": plan.mechanism.max_groups,
            "lower": None if plan.buckets is None else plan.buckets.lower,
            "upper": None if plan.buckets is None else plan.buckets.upper,
            "probability": plan.probability,
            "k": plan.k,
            "read_as": plan.read_as,
            "bars": plan.bars,
            "most_dropped": plan.most_dropped,
            "records_needed": plan.records_needed,
            "error": plan.error,
            "ledger": None if self.receipt is None else self.receipt.to_data(),
        }


def _shown(value: object) -> str:
    return exactly(value) if isinstance(value, float) else str(value)


@spelled_out(StatisticOptions)
def stat(
    name: str,
    source: object,
    *,
    unit: str | Sequence[str],
    column: str | None = None,
    where: str | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[StatisticOptions],
) -> PrivateStatistic:
    """A private statistic of a column: max, min, range, median, quantile, mean, std, support, mode, max-k or is-empty.

    A plan that is known not to keep its promise is refused before anything is read.

    Args:
        name: which statistic.
        source: what to read, as for `dphist.release`.
        unit: who is protected, as for `dphist.release`.
        column: the column; none for is-empty.
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed.
        lower: values below it count as it.
        upper: values above it count as it.
        error: how far the answer may be from the truth, beside what is dropped.
        drop: the share of records that may be dropped.
        min_records: how many records there are at least, which is public and never compared with the data.
        max_records: how many of a unit's records count at most, in as many buckets.
        max_values: for mode and max-k, how many different values there are at most, which is public.
        probability: for quantile.
        k: for max-k, how many records a value needs.
        read_as: for mode and max-k of texts, ``number`` or ``text``.
        where: an SQL condition on a record's own columns.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.
        ledger: where it is charged, before the first record is read.
        dataset: the data set of the ledger that pays.
        progress: is called with the name of each phase.

    Returns:
        The answer, with what is promised about it.

    Raises:
        InvalidParameter: what names, types and options rule out, before anything is charged.
        Infeasible: the promise cannot be kept with so few records.
        BudgetExceeded: it does not fit into what is left of the data set's budget.

    Example:
        >>> oldest = dp.stat("max", "ages.parquet", unit="person", column="age", lower=0, upper=120, error=1, epsilon=1)
        >>> 90 < oldest.value <= 112
        True
    """
    plan = plan_statistic(name, **read(StatisticOptions, options, stat))
    plan.require_feasible()
    query = build_query(plan, unit=unit_of(unit), column=column, where=where)
    chosen = choose_engine(source, engine, settings)

    def run(records: Records) -> PrivateStatistic:
        histogram = records.histogram(ContributionBounds(plan.mechanism.max_groups))
        return replace(privatise_statistic(histogram, plan), unit=query.unit)

    with charging(ledger, dataset, lambda: spend_of_statistic(plan, query.unit)) as charge:
        return paid_run(charge, chosen.open(source, query, progress=progress), run)


def build_query(plan: StatisticPlan, *, unit: Unit, column: str | None, where: str | None) -> GroupByQuery:
    """Units per bucket (or value); records without a number (or value) have no bucket and are dropped."""
    if plan.statistic == "is-empty":
        if column is not None:
            raise InvalidParameter(
                "no column for is-empty",
                repr(column),
                "it asks whether there is any unit; a condition such as --where 'age > 90' narrows the question.",
            )
        return GroupByQuery(unit=unit, by=(Key(_BUCKET, "1"),), where=where)
    if column is None:
        raise InvalidParameter("the column of the statistic", "none", "add --column NAME.")
    return GroupByQuery(unit=unit, by=(_value_key(plan, column),), where=where, null_keys="drop")


def _value_key(plan: StatisticPlan, column: str) -> Key:
    if plan.buckets is not None:
        return Key(_BUCKET, bucket_expression(column, plan.buckets), numbers_in=column)
    if plan.read_as == "number":
        return Key(column, _number(column), role="value", numbers_in=column)
    if plan.read_as == "text":
        return Key(column, f"CAST({quote_identifier(column)} AS VARCHAR)", role="value")
    return Key(column, role="ordered value" if plan.statistic == "max-k" else "value")


def _number(column: str) -> str:
    """A record's value as a double; text that is no number becomes null, and no record can make the run fail."""
    return f"TRY_CAST({quote_identifier(column)} AS DOUBLE)"


def bucket_expression(column: str, buckets: Buckets) -> str:
    """The bucket of a record's value in SQL: what `Buckets.index` computes. Null and NaN have none."""
    value = _number(column)
    lower, upper, width = (f"CAST('{number!r}' AS DOUBLE)" for number in (buckets.lower, buckets.upper, buckets.width))
    place = f"floor((least(greatest({value}, {lower}), {upper}) - {lower}) / {width})"
    return (
        f"CASE WHEN {value} IS NOT NULL AND NOT isnan({value})"
        f" THEN CAST(least({place}, {buckets.number - 1}) AS BIGINT) END"
    )


def privatise_statistic(histogram: Histogram, plan: StatisticPlan) -> PrivateStatistic:
    """Noise on a bounded histogram, then the statistic. The only function that turns true counts into a published answer."""
    histogram.require(max_groups=plan.mechanism.max_groups)
    counts, kind = histogram.counts, histogram.keys.schema.field(0).type
    values = np.asarray(histogram.keys.column(0).to_numpy())
    if plan.statistic == "is-empty":
        # one bar for all, whatever the histogram was by: each unit is in one of its bars only, so these are units
        values, counts = np.zeros(1, dtype=np.int64), np.array([counts.sum()], dtype=np.int64)
    elif plan.buckets is not None:
        values = plan.buckets.centre(values)
    private = sanitise(values, counts, plan.mechanism)
    found = statistic(plan.statistic, private, probability=plan.probability, k=plan.k)
    if isinstance(found, datetime.datetime) and pa.types.is_timestamp(kind) and kind.tz is not None:
        found = found.replace(tzinfo=datetime.UTC)  # numpy has no time zones
    return PrivateStatistic(found, plan, private)
