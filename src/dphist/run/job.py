"""The road of a release: checked and planned, charged, counted, noised. The one place where source, plan and ledger meet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from dphist.columns import Unit, parts_of, unit_in_words, unit_of
from dphist.engines import engine_for, files_of
from dphist.engines.base import (
    NOISING,
    Engine,
    Groups,
    Layout,
    Progress,
    Records,
    StoredTable,
    silent,
)
from dphist.engines.histogram import Histogram, local_groups
from dphist.engines.query import EVERYBODY, ONE_GROUP, EngineOptions, GroupByQuery, PerformanceSettings, parse_key
from dphist.errors import InvalidParameter
from dphist.ledger.charge import charging
from dphist.planning import Plan, plan_for
from dphist.planning import storage as plan_storage
from dphist.planning.options import (
    BudgetOptions,
    ReleaseOptions,
    SelectBudget,
    SelectOptions,
    declarations,
    read,
    spelled_out,
)
from dphist.planning.spends import Spend, spend_of_plan
from dphist.run.public_keys import public_keys
from dphist.run.release import Release, Selection
from dphist.run.sizing import settle_bounds
from dphist.run.strategies import strategy_of
from dphist.run.table import check_form, check_names, layout_of, noise_groups
from dphist.run.totals import estimated, noisy_units, published_values
from dphist.run.withheld import account_for

Diagnose = Callable[[dict[str, int]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A release that is checked and planned but has not read a record."""

    source: object
    plan: Plan
    selection: Selection
    query: GroupByQuery
    engine: Engine
    inputs: tuple[Path, ...] = ()

    def spend(self) -> Spend:
        """What it is charged with."""
        return spend_of_plan(self.plan, self.selection.unit)

    def check_source(self) -> None:
        """Refuse by schema what would be refused later; reads no record."""
        with self.engine.open(self.source, self.query, seed=0):
            pass

    def run(
        self,
        *,
        progress: Progress | None = None,
        diagnose: Diagnose | None = None,
        charge: Callable[[], None] | None = None,
    ) -> Release:
        """Check the source by its schema, charge, bound, count, add noise, hide small groups.

        `charge` is called once, before the first record is read.
        """
        work = Work(self.plan, self.selection, progress or silent, diagnose)
        with self.engine.open(self.source, self.query, progress=progress) as records:
            records.require_noise()
            if charge is not None:
                charge()
            release = work.release(records)
        return replace(release, inputs=self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One run: where true values become published ones."""

    plan: Plan
    selection: Selection
    tell: Progress = silent
    diagnose: Diagnose | None = None

    def release(self, records: Records) -> Release:
        """By the road of the plan, once the bounds are chosen that it leaves to the data."""
        request = self.plan.request
        if any(aggregate.open for aggregate in request.aggregates):
            plan, records, bounds = settle_bounds(self.plan, records)
            return replace(replace(self, plan=plan).release(records), bounds=bounds)
        return strategy_of(self.plan).run(records, self)

    def from_groups(self, groups: Groups) -> Release:
        """Noise and threshold on groups, if there is evidence that they are bounded as the plan's guarantee assumes."""
        mechanism = self.plan.mechanism
        self._require_bounds(groups)
        if self.diagnose is not None:
            self.diagnose({"non-empty groups": groups.number(), "contributions": groups.sum_of("units")})
        self.tell(NOISING)
        if mechanism.sparsity is not None:
            groups = groups.less_next_largest(mechanism.sparsity)
        shared = mechanism.draw_shared()
        function = noise_groups(self.plan, self.selection.intervals, shared)
        table = groups.publish(function, self.layout)
        request = self.plan.request
        if request.other:
            return self.published(table, groups.coverage(table))
        return self.published(table, (groups.total_units(),) if request.total else ())

    def _require_bounds(self, groups: Groups) -> None:
        request = self.plan.request
        most = None if request.sketch is not None else request.groups_per_unit
        groups.bounds.require(max_groups=most, sparsity=request.sketch)
        if groups.listed != (request.keys is not None):
            raise InvalidParameter("groups of the public list of keys, as the plan says", "others")
        if not request.thresholded and groups.number() != request.keys:
            raise InvalidParameter(f"the counts of all {request.keys} listed groups", "another number of them")

    @property
    def layout(self) -> Layout:
        """The published table."""
        chosen = self.selection
        layout = layout_of(self.plan, level=chosen.intervals, integers=chosen.integers, order=chosen.order)
        return layout if chosen.by else replace(layout, keys=False)

    def published(self, table: pa.Table | StoredTable, units: Sequence[int] = ()) -> Release:
        """With the numbers of units that the plan pays for: none, all, or those in some and in no released group."""
        request, totals = self.plan.request, None
        if request.total:
            form = {"allow_negative": self.selection.allow_negative}
            values = published_values(noisy_units(units, request), **form)
            totals = estimated(values, request, self.selection.intervals, **form)
        table, withheld = account_for(table, self.plan)
        return Release(table, self.plan, self.selection, totals, dt.datetime.now(dt.UTC), withheld=withheld)


def privatise(histogram: Histogram, plan: Plan, selection: Selection) -> Release:
    """Draw the noise of a plan on a bounded histogram that somebody else counted."""
    return Work(plan, selection).from_groups(local_groups(histogram))


def prepare(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    **options: Unpack[ReleaseOptions],
) -> Job:
    """Everything a release can check and choose before it reads a record."""
    asked = read(ReleaseOptions, options, release)
    budget = {name: value for name, value in options.items() if name in declarations(BudgetOptions) and name != "keys"}
    names, keys = _names(asked["by"]), asked["keys"]
    names_and_form = (
        asked["null_keys"],
        asked["order"],
        asked["intervals"],
        asked["integers"],
        asked["allow_negative"],
    )
    selection = Selection(unit_of(asked["unit"]), names, asked["where"], *names_and_form)
    listed = _listed(keys, [parse_key(name).name for name in names])
    settled = _plan(plan, budget, None if listed is None else listed.num_rows)
    if not settled.mechanism.counted:
        raise InvalidParameter("a plan with counts", "one of keys alone", "dphist select runs it.")
    inputs = files_of(source, plan, keys if isinstance(keys, str | Path) else None)
    return _job(source, settled, selection, listed, choose_engine(source, engine, settings), inputs)


def _names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The keys; none where all units are one group, which nobody says with an empty list."""
    if by is None or isinstance(by, str):
        return () if by is None else (by,)
    if not by:
        raise InvalidParameter("at least one column, or none given", "an empty list", "leave `by` out for one row.")
    return tuple(by)


def _listed(keys: object, names: Sequence[str]) -> pa.Table | None:
    """The public list of groups, if there is one. Without keys there is one group, which is public."""
    if not names:
        if keys is not None:
            raise InvalidParameter(
                "columns that make the groups, with a public list of them", "none", "add --by COLUMN."
            )
        return ONE_GROUP
    return None if keys is None else public_keys(keys, names)


def prepare_selection(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    **options: Unpack[SelectOptions],
) -> Job:
    """The same for a selection of keys."""
    asked = read(SelectOptions, options, select)
    budget: dict[str, Any] = {name: value for name, value in options.items() if name in declarations(SelectBudget)}
    selection = Selection(unit_of(asked["unit"]), _names(asked["by"]), asked["where"], asked["null_keys"], "key")
    settled = _plan(plan, budget if plan is not None else {**budget, "keys_only": True}, None)
    if settled.mechanism.counted:
        raise InvalidParameter("a plan of keys alone", "one with counts", "dphist plan --keys-only saves one.")
    return _job(source, settled, selection, None, choose_engine(source, engine, settings), files_of(source, plan))


def _job(
    source: object,
    plan: Plan,
    selection: Selection,
    listed: pa.Table | None,
    engine: Engine,
    inputs: tuple[Path, ...],
) -> Job:
    check_names([parse_key(name).name for name in selection.by], plan, selection.intervals)
    if listed is None:
        check_shared(selection.unit, selection.by)
    check_form(plan, selection.order, selection.intervals, selection.integers)
    return Job(source, plan, selection, build_query(plan, selection, listed), engine, inputs)


def check_shared(unit: Unit, by: Sequence[str]) -> None:
    """Refuse keys that name the unit: each group would have one unit, and be paid for to be hidden."""
    if set(parts_of(unit)) <= set(by):
        hint = "a group of one unit is never shown. Leave it out; without --by all units are one row."
        raise InvalidParameter("--by columns that several units share", f"the unit, {unit_in_words(unit)}", hint)


def choose_engine(source: object, engine: Engine | None, settings: PerformanceSettings | None = None) -> Engine:
    """Where the source is counted: by the engine that is given, or by the one that the source belongs to."""
    return engine or engine_for(source, EngineOptions(settings or PerformanceSettings()))


@spelled_out(ReleaseOptions)
def release(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReleaseOptions],
) -> Release:
    """Count units per group, add noise, hide small groups: a table that is safe to publish.

    A release does exactly what its plan paid for. What names, types, options and budget rule out is refused before the
    charge; a run that fails later stays charged, and says so.

    Args:
        source: a path or glob (Parquet, CSV, JSON), an Arrow table, a pandas or Polars frame, a DuckDB relation, or a Spark
            DataFrame, which is counted and noised by its cluster and stays there.
        unit: the column that names the person protected, an SQL expression such as ``lower(email)``, or a list whose values
            name the unit together.
        by: the columns that make the groups, or ``name=SQL expression`` of a record's own columns; without it all units are
            one row.
        plan: a plan, or the path of a saved one; without it, give epsilon, delta and whatever else `dphist.plan` takes
            (max_groups, sums, ...).
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed.
        keys: a public list of groups: a file, a table or frame, values, an SQL query of a public table, or a mapping of
            columns to values, whose combinations are the groups.
        where: an SQL condition on a record's own columns.
        null_keys: ``group`` makes a null a group like any other, ``drop`` leaves such records out.
        order: by ``count`` or ``key``.
        intervals: a level such as 0.95.
        integers: round counts.
        allow_negative: publish totals that noise made negative as they are, not as 0.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.
        ledger: where the release is charged before the first record is read; without it nothing is recorded.
        dataset: the data set of the ledger that pays.
        progress: is called with the name of each phase.

    Returns:
        The private table with its plan and its guarantee.

    Raises:
        InvalidParameter: a value outside its domain, or a column that is not there.
        Infeasible: no mechanism meets the request.
        BudgetExceeded: it does not fit into what is left of the data set's budget.
        UnreadableSource: the source is missing or damaged.
        EngineFailure: the engine gave up.

    Example:
        >>> release = dp.release("events.parquet", unit="user_id", by="url", epsilon=1, delta=1e-8, max_groups=5)
        >>> release.to_arrow().column("url").to_pylist()[:3]
        ['/', '/news/today', '/books/today']
    """
    job = prepare(source, plan=plan, settings=settings, engine=engine, **options)
    return _run(job, ledger, dataset, progress)


@spelled_out(SelectOptions)
def select(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    settings: PerformanceSettings | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Unpack[SelectOptions],
) -> Release:
    """Publish which groups exist, as far as that is private: keys alone, with all of the budget spent on finding them.

    A missing key says little about its group.

    Args:
        source: what to read, as for `dphist.release`.
        unit: who is protected, as for `dphist.release`.
        by: the columns that make the groups.
        plan: one of ``dphist.plan(keys_only=True)``, or the path of a saved one; without it give epsilon and delta.
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed.
        mechanism: ``adaptive`` or ``voting``, in place of the better one.
        low_threshold: groups of fewer units are never released.
        keep_above: groups of so many units must not be missing, as in `dphist.plan`.
        keep_groups: with `keep_above`, in at most how many of the groups each of these units is.
        where: an SQL condition on a record's own columns.
        null_keys: ``group`` or ``drop``.
        settings: threads and memory.
        engine: such as a `dphist.SparkEngine`.
        ledger: where it is charged, before the first record is read.
        dataset: the data set of the ledger that pays.
        progress: is called with the name of each phase.

    Returns:
        A release whose table has the keys, in their order, and no counts.

    Raises:
        InvalidParameter: what names, types and options rule out, before anything is charged.
        BudgetExceeded: it does not fit into what is left of the data set's budget.
        UnreadableSource: the source is missing or damaged.

    Example:
        >>> found = dp.select("events.parquet", unit="user_id", by="country", epsilon=1, delta=1e-8)
        >>> {"DE", "FR"} <= set(found.to_arrow().column("country").to_pylist())
        True
    """
    job = prepare_selection(source, plan=plan, settings=settings, engine=engine, **options)
    return _run(job, ledger, dataset, progress)


def _run(
    job: Job,
    ledger: str | Path | None,
    dataset: str | None,
    progress: Progress | None,
) -> Release:
    with charging(ledger, dataset, job.spend) as charge:
        result = job.run(progress=progress, charge=charge)
        if charge is None:
            return result
        charge.confirm()
        return replace(result, receipt=charge.receipt)


def _plan(plan: Plan | str | Path | None, budget: Mapping[str, Any], listed: int | None) -> Plan:
    if plan is None:
        return plan_for(**{**budget, **({} if listed is None else {"keys": listed})})
    if budget:
        raise InvalidParameter(
            "a plan or a budget", "both", f"leave out {', '.join(sorted(budget))}: the plan says it."
        )
    if not isinstance(plan, Plan | str | Path):
        raise InvalidParameter("a plan, or the path of a saved one", type(plan).__name__)
    settled = plan if isinstance(plan, Plan) else Plan.load(plan)
    plan_storage.check_branches(settled.request, settled.branches, "the plan")
    if any(one.chosen != "given" and not one.open for one in settled.request.aggregates):
        hint = "it is that of a release; use the plan that it was made with, or give the bounds."
        raise InvalidParameter("a plan whose bounds are given or still to be chosen", "one that has chosen them", hint)
    if settled.request.keys != listed:
        raise InvalidParameter(
            f"{'no' if settled.request.keys is None else settled.request.keys} public keys, as the plan says",
            listed or "none",
        )
    return settled


def build_query(plan: Plan, selection: Selection, listed: pa.Table | None) -> GroupByQuery:
    """What the engine is asked for: the plan's aggregates on the selected records."""
    return GroupByQuery(
        unit=selection.unit,
        by=tuple(parse_key(key) for key in selection.by) or (EVERYBODY,),
        measures=plan.request.measures,
        where=selection.where,
        null_keys=selection.null_keys,
        public_keys=listed,
        want_total=plan.request.total and not plan.request.other,
        want_coverage=plan.request.other,
    )
