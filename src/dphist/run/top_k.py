"""The largest groups of a source: k + 1 true counts in, a table that is safe to publish out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from dphist.columns import Unit, unit_of
from dphist.engines import files_of
from dphist.engines.base import NOISING, Engine, Progress, Records, silent
from dphist.engines.histogram import ContributionBounds, Histogram, largest_groups, row_order
from dphist.engines.query import GroupByQuery, NullKeys, PerformanceSettings, parse_key
from dphist.errors import InvalidParameter
from dphist.ledger.charge import Receipt, charging, paid, paid_run
from dphist.mechanisms.lists import ListMechanism
from dphist.planning.plan import NOISY, STD_ERROR
from dphist.planning.spends import spend_of_top_k
from dphist.planning.top_k import Method, TopKPlan, plan_top_k
from dphist.run.job import choose_engine
from dphist.run.record import TopKRecord
from dphist.run.release import Published


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopK(Published):
    """The largest groups, private, with their plan. Holds no true value.

    complete is False when the list ended before k groups: no other group was clearly larger than the rest. unit and where
    are None where the groups were counted elsewhere. cut_off is the noisy number that all noisy counts exceed; None for a
    list without counts.

    Example:
        >>> found = dp.top_k("events.parquet", unit="user_id", by="url", k=3, epsilon=1, delta=1e-8)
        >>> found.to_arrow().column("url").to_pylist()
        ['/', '/news/today', '/books/today']
        >>> found.complete
        True
    """

    table: pa.Table
    plan: TopKPlan
    by: tuple[str, ...]
    complete: bool
    created: dt.datetime
    unit: Unit | None = None
    where: str | None = None
    receipt: Receipt | None = None
    cut_off: float | None = None
    inputs: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def record(self) -> TopKRecord:
        """Method, mechanism, guarantee, version and time: public parameters only."""
        plan = self.plan
        return TopKRecord.model_construct(
            created=self.created, unit=self.unit, by=self.by, where=self.where, method=plan.method, k=plan.k,
            epsilon=plan.epsilon, delta=plan.delta, mechanism=plan.mechanism.parameters(), cut_off=self.cut_off,
            ledger=self.receipt,
        )  # fmt: skip


def release_largest(
    groups: pa.Table,
    *,
    count: str,
    plan: TopKPlan,
    all_groups: bool = False,
    max_groups: int | None = None,
    unit: str | Sequence[str] = "",
    ledger: str | Path | None = None,
    dataset: str | None = None,
) -> TopK:
    """The largest groups from a table of groups with their true counts, as a plain ORDER BY ... LIMIT gives it.

    It must hold at least the plan's `needed` largest groups, each unit counted once in a group and, if the plan has a
    bound, in at most `max_groups` groups: say so by repeating the bound. Where a source cuts off equal counts it has to do
    so by key (ORDER BY count DESC, key), for from-top with a bound. Its order of keys may be another than ours: of the groups
    with the smallest count listed, at most one then comes in for each that the unit itself lifted past it and that is left out.

    A table of fewer groups is accepted with `all_groups`: it says that the query behind it leaves none out, so that a short
    answer means that there are no more. The next largest count is then 0. If groups were left out, that 0 is false and
    nothing is guaranteed: one unit can put a group in the place of another, far above a threshold that starts at 0.
    Decide it by the query (was its LIMIT at least `needed`?), not by the number of rows that came.

    Args:
        groups: an Arrow table of keys and true counts.
        count: the column of the counts.
        plan: a plan of `dphist.plan_top_k`.
        all_groups: no group is left out of the table.
        max_groups: the plan's bound, repeated.
        unit: what was counted; needed to charge a ledger.
        ledger: where it is charged, before noise is drawn.
        dataset: the data set of the ledger that pays.

    Returns:
        The list.

    Raises:
        InvalidParameter: the table has too few groups, lacks the column, or the bounds differ from the plan's.
        BudgetExceeded: it does not fit into what is left of the data set's budget.

    Example:
        >>> import pyarrow as pa
        >>> groups = pa.table({"url": ["/", "/news", "/about"], "n": [4000, 900, 3]})
        >>> plan = dp.plan_top_k(k=2, epsilon=1, delta=1e-8)
        >>> dp.release_largest(groups, count="n", plan=plan).to_arrow().column("url").to_pylist()
        ['/', '/news']
    """
    if count not in groups.column_names or groups.num_columns < 2:
        raise InvalidParameter("a table with key columns and a column of counts", groups.column_names)
    bounds = ContributionBounds(max_groups)
    bounds.require(max_groups=plan.max_groups)
    check_names([name for name in groups.column_names if name != count], plan.mechanism)

    def run() -> TopK:
        if groups.num_rows < plan.needed and not all_groups:
            raise InvalidParameter(
                f"the {plan.needed} largest groups",
                "fewer",
                f"ask the source for LIMIT {plan.needed}: the one behind the last is needed too; all_groups=True says that"
                " there are no others.",
            )
        counts = groups.column(count).to_numpy().astype(np.int64)
        histogram = Histogram(groups.drop_columns([count]), counts, bounds)
        return privatise_largest(histogram, plan)

    with charging(ledger, dataset, lambda: spend_of_top_k(plan, unit_of(unit) if unit else "")) as charge:
        return paid(charge, run)


def privatise_largest(histogram: Histogram, plan: TopKPlan) -> TopK:
    """Draw the noise of the plan on the largest groups of a histogram in any order."""
    return privatise_list(largest_groups(histogram, plan.needed), plan)


def privatise_list(largest: Histogram, plan: TopKPlan) -> TopK:
    """Draw the noise of the plan on the `needed` largest groups, largest first, equal counts in the order of their keys."""
    largest.require(max_groups=plan.max_groups)
    check_names(largest.key_names, plan.mechanism)
    listed = plan.mechanism.listed(largest.counts, plan.k)
    table = largest.keys.take(pa.array(listed.index))
    if listed.counts is None:
        table = table.add_column(0, "rank", pa.array(np.arange(1, len(listed.index) + 1)))
    else:
        assert listed.cut_off is not None
        found = plan.mechanism.given_cut_off(np.asarray(listed.counts, np.float64), listed.cut_off)
        table = table.append_column("count", pa.array(found.counts.astype(listed.counts.dtype)))
        table = table.append_column("count" + STD_ERROR, pa.array(found.std_errors))
        table = table.append_column("count" + NOISY, pa.array(listed.counts))
        table = table.take(row_order(table, largest.key_names, "count"))
    created = dt.datetime.now(dt.UTC)
    return TopK(table, plan, largest.key_names, listed.complete, created, cut_off=listed.cut_off)


def check_names(names: Sequence[str], mechanism: ListMechanism) -> None:
    """A key may not have the name of a column that the list adds."""
    added = {"rank"} if mechanism.noise_std is None else {"count", "count" + STD_ERROR, "count" + NOISY}
    if clash := sorted(added & set(names)):
        raise InvalidParameter(
            "keys with other names than the released columns", clash, 'rename: --by "my_count=count".'
        )


def top_k(
    source: object,
    *,
    unit: str | Sequence[str],
    by: str | Sequence[str],
    k: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    method: Method = "correlated",
    max_groups: int | None = None,
    shortlist: int | None = None,
    plan: TopKPlan | None = None,
    where: str | None = None,
    null_keys: NullKeys = "group",
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
) -> TopK:
    """The k groups with the most units. Only the largest groups leave the engine: ORDER BY and LIMIT are part of its query.

    Args:
        source: what to read, as for `dphist.release`.
        unit: who is protected, as for `dphist.release`.
        by: the columns that make the groups.
        k: how many groups to list at most.
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed.
        method: ``correlated``, ``from-top`` or ``ranked``: see `dphist.plan_top_k`.
        max_groups: for ``from-top``, the most groups of one unit.
        shortlist: for ``ranked``, how many of the largest groups to choose among.
        plan: a plan of `dphist.plan_top_k`, in place of k, epsilon, delta and what follows from them.
        where: an SQL condition on a record's own columns.
        null_keys: ``group`` or ``drop``.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.
        ledger: where it is charged, before the first record is read.
        dataset: the data set of the ledger that pays.
        progress: is called with the name of each phase.

    Returns:
        The list.

    Raises:
        InvalidParameter: what names, types and options rule out, before anything is charged.
        BudgetExceeded: it does not fit into what is left of the data set's budget.
        UnreadableSource: the source is missing or damaged.

    Example:
        >>> found = dp.top_k("events.parquet", unit="user_id", by="url", k=2, epsilon=1, delta=1e-8, method="ranked")
        >>> found.to_arrow().to_pydict()
        {'rank': [1, 2], 'url': ['/', '/news/today']}
    """
    if plan is None:
        if k is None or epsilon is None or delta is None:
            raise InvalidParameter("k, epsilon and delta, or a plan", "neither")
        plan = plan_top_k(k=k, epsilon=epsilon, delta=delta, method=method, max_groups=max_groups, shortlist=shortlist)
    elif (k, epsilon, delta, max_groups, shortlist) != (None,) * 5 or method not in ("correlated", plan.method):
        raise InvalidParameter("a plan or a budget", "both", "leave out what the plan says.")
    names = (by,) if isinstance(by, str) else tuple(by)
    protected = unit_of(unit)
    query = GroupByQuery(protected, tuple(parse_key(name) for name in names), where=where, null_keys=null_keys)
    check_names([key.name for key in query.by], plan.mechanism)
    chosen, method_plan = choose_engine(source, engine, settings), plan

    def run(records: Records) -> TopK:
        largest = records.histogram(ContributionBounds(method_plan.max_groups), method_plan.needed)
        (progress or silent)(NOISING)
        result = privatise_list(largest, method_plan)
        return replace(result, unit=protected, where=where, inputs=files_of(source))

    with charging(ledger, dataset, lambda: spend_of_top_k(method_plan, protected)) as charge:
        return paid_run(charge, chosen.open(source, query, progress=progress), run)
