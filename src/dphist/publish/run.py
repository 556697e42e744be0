"""The road of a release: checked and planned, charged, counted, noised. The one place where source, plan and ledger meet."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from dphist.aggregates import Measure
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.pairs import open_pairs
from dphist.engines.query import GroupByQuery, PerformanceSettings, parse_key
from dphist.engines.spark.engine import SparkEngine
from dphist.engines.spark.resolve import is_spark_frame
from dphist.errors import InvalidParameter
from dphist.histogram import Histogram
from dphist.mechanisms import AdaptiveGaussian
from dphist.noise import Entropy
from dphist.noise.entropy import require_secure
from dphist.planning import Plan, plan_for
from dphist.planning import storage as plan_storage
from dphist.planning.aggregates import AggregateNoise
from dphist.planning.options import BudgetOptions, ReleaseOptions, declarations, read, spelled_out
from dphist.publish.adaptive import decide, run_rounds
from dphist.publish.charge import charging, spend_of_plan
from dphist.publish.files import files_of, public_keys
from dphist.publish.privatise import bounds_of, noisy_total, privatise
from dphist.publish.result import Release, Request
from dphist.publish.table import build_table, check_names

Progress = Callable[[str], None]
Diagnose = Callable[[dict[str, int]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A release that is checked and planned but has not read a record."""

    source: object
    plan: Plan
    request: Request
    query: GroupByQuery
    engine: DuckDBEngine | SparkEngine
    inputs: tuple[Path, ...] = ()

    def check_source(self) -> None:
        """Refuse by schema what would be refused later; reads no record."""
        self.engine.explain(self.query, bounds_of(self.plan), self.source)

    def run(
        self,
        *,
        progress: Progress | None = None,
        entropy: Entropy | None = None,
        diagnose: Diagnose | None = None,
        charge: Callable[[], None] | None = None,
    ) -> Release:
        """Check the source by its schema, charge, bound, count, add noise, hide small groups.

        `charge` is called once, before the first record is read.
        """
        report = progress or (lambda phase: None)
        if isinstance(self.engine, SparkEngine):
            from dphist.publish import spark

            secure = require_secure(entropy)
            found = spark.run(self, self.engine, report=report, entropy=secure, charge=charge, diagnose=diagnose)
        else:
            if charge is not None:
                self.check_source()
                charge()
            road = self._run_on_pairs if self.plan.request.unbounded else self._run_on_groups
            found = road(self.engine, report, entropy, diagnose)
        return replace(found, inputs=self.inputs)

    def _run_on_groups(
        self, engine: DuckDBEngine, report: Progress, entropy: Entropy | None, diagnose: Diagnose | None
    ) -> Release:
        """One pass: a bounded histogram, then noise."""
        histogram = self._histogram(engine, report)
        if diagnose is not None:
            diagnose({"non-empty groups": len(histogram), "contributions": int(histogram.counts.sum())})
        report("adding noise")
        return privatise(histogram, self.plan, self.request, entropy)

    def _run_on_pairs(
        self, engine: DuckDBEngine, report: Progress, entropy: Entropy | None, diagnose: Diagnose | None
    ) -> Release:
        """What needs more than one pass: a choice from the data, and the rounds of an adaptive release."""
        with open_pairs(self.source, self.query, engine.settings, progress=report) as table:
            plan = decide(self.plan, table, entropy)
            if not isinstance(plan.mechanism, AdaptiveGaussian):
                return privatise(table.histogram(bounds_of(plan)), plan, self.request, entropy)
            pairs = table.coded(plan.mechanism.max_groups)
            if diagnose is not None:
                diagnose({"non-empty groups": pairs.groups})
            report("selecting groups in rounds, counting them")
            counted = run_rounds(plan, plan.mechanism, pairs, entropy)
            keys = table.keys_of(counted.index)
            total = table.total_units() if plan.request.total else None
        built = build_table(
            keys,
            counted.columns,
            plan,
            level=self.request.intervals,
            integers=self.request.integers,
            order=self.request.order,
        )
        return Release(built, plan, self.request, noisy_total(total, plan, entropy), dt.datetime.now(dt.UTC))

    def _histogram(self, engine: DuckDBEngine, report: Progress) -> Histogram:
        if self.plan.request.sketch is not None:
            return engine.sketch(self.source, self.query, self.plan.request.sketch, progress=report)
        return engine.histogram(self.source, self.query, bounds_of(self.plan), progress=report)


def prepare(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    settings: PerformanceSettings | None = None,
    engine: SparkEngine | None = None,
    **options: Unpack[ReleaseOptions],
) -> Job:
    """Everything a release can check and choose before it reads a record."""
    asked = read(ReleaseOptions, options, release)
    budget = {name: value for name, value in options.items() if name in declarations(BudgetOptions) and name != "keys"}
    names = (asked["by"],) if isinstance(asked["by"], str) else tuple(asked["by"])
    request = Request(
        asked["unit"],
        names,
        asked["where"],
        asked["null_keys"],
        asked["order"],
        asked["intervals"],
        asked["integers"],
    )
    key_names = [parse_key(name).name for name in names]
    keys = asked["keys"]
    listed = None if keys is None else public_keys(keys, key_names)
    made = _plan(plan, budget, None if listed is None else listed.num_rows)
    check_names(key_names, made, request.intervals)
    query = build_query(made, request, listed)
    inputs = files_of(source, plan, keys if isinstance(keys, str | Path) else None)
    return Job(source, made, request, query, choose_engine(source, engine, settings), inputs)


def choose_engine(
    source: object, engine: SparkEngine | None, settings: PerformanceSettings | None
) -> DuckDBEngine | SparkEngine:
    """Where the source is counted: a Spark DataFrame by its own session, anything else here unless told otherwise."""
    if engine is not None:
        return engine
    if is_spark_frame(source):
        frame: Any = source
        return SparkEngine(frame.sparkSession)
    return DuckDBEngine(settings or PerformanceSettings())


@spelled_out(ReleaseOptions)
def release(
    source: object,
    *,
    plan: Plan | str | Path | None = None,
    ledger: str | Path | None = None,
    dataset: str | None = None,
    settings: PerformanceSettings | None = None,
    engine: SparkEngine | None = None,
    progress: Progress | None = None,
    entropy: Entropy | None = None,
    **options: Unpack[ReleaseOptions],
) -> Release:
    """Count units per group, add noise, hide small groups: a table that is safe to publish.

    source: a path or glob (Parquet, CSV, JSON), an Arrow table, a pandas or Polars frame, a DuckDB relation, a Spark
    DataFrame (which is counted and noised by its cluster, and stays there). unit: the column
    that names the person protected. by: the columns that make the groups, or ``name=SQL expression`` of a record's own
    columns.

    Either ``plan`` (a plan, or the path of a saved one) or what `dphist.plan` takes (epsilon, delta, max_groups,
    sums, ...); ``keys`` (a public list of groups), ``where`` (an SQL condition on a record's own columns), ``null_keys``
    (group or drop), ``order`` (count or key), ``intervals`` (a level such as 0.95), ``integers``, ``settings`` (threads,
    memory), ``engine`` (a `SparkEngine`).

    ledger, dataset: where the release is charged before the first record is read; without them nothing is recorded. What
    names, types, options and budget rule out is refused before the charge; a run that fails later stays charged, and says so.

    A release does exactly what its plan paid for.
    """
    require_secure(entropy)
    job = prepare(source, plan=plan, settings=settings, engine=engine, **options)
    with charging(ledger, dataset, lambda: spend_of_plan(job.plan, job.request.unit)) as charge:
        found = job.run(progress=progress, entropy=entropy, charge=charge)
        if charge is None:
            return found
        charge.confirm()
        return replace(found, receipt=charge.receipt)


def _plan(plan: Plan | str | Path | None, budget: Mapping[str, Any], listed: int | None) -> Plan:
    if plan is None:
        return plan_for(**{**budget, **({} if listed is None else {"keys": listed})})
    if budget:
        raise InvalidParameter(
            "a plan or a budget", "both", f"leave out {', '.join(sorted(budget))}: the plan says it."
        )
    if not isinstance(plan, Plan | str | Path):
        raise InvalidParameter("a plan, or the path of a saved one", type(plan).__name__)
    made = plan if isinstance(plan, Plan) else Plan.load(plan)
    plan_storage.check(made.request, made.mechanism, "the plan")
    if made.request.undecided:  # any of them may be run
        for branch in made.alternatives:
            plan_storage.check(made.request.for_branch(branch.name, branch.max_groups), branch, "the plan")
    if made.request.keys != listed:
        raise InvalidParameter(
            f"{'no' if made.request.keys is None else made.request.keys} public keys, as the plan says",
            listed or "none",
        )
    return made


def build_query(plan: Plan, request: Request, listed: pa.Table | None) -> GroupByQuery:
    """What the engine is asked for: the plan's aggregates on the request's records."""
    return GroupByQuery(
        unit=request.unit,
        by=tuple(parse_key(key) for key in request.by),
        measures=tuple(_measure(noisy) for noisy in plan.aggregates),
        where=request.where,
        null_keys=request.null_keys,
        public_keys=listed,
        want_total=plan.request.total,
    )


def _measure(noisy: AggregateNoise) -> Measure:
    aggregate = noisy.aggregate
    return Measure(
        name=aggregate.name,
        kind=aggregate.kind,
        column=aggregate.column,
        lower=aggregate.lower,
        upper=aggregate.upper,
        centre=aggregate.centre,
        step=aggregate.step,
        sensitivity_steps=aggregate.sensitivity_steps,
    )
