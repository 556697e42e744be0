"""The one place where a histogram and a plan meet: bounded counts in, a table that is safe to publish out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist import checks
from dphist.engines.duckdb import DuckDBEngine
from dphist.engines.pairs import open_pairs
from dphist.engines.query import GroupByQuery, NullKeys, parse_key
from dphist.engines.settings import PerformanceSettings
from dphist.errors import InvalidParameter
from dphist.histogram import ContributionBounds, Histogram, Measure
from dphist.mechanisms import AdaptiveGaussian, Kept, LaplaceThreshold
from dphist.noise import DiscreteLaplace, Entropy, Law, RoundedGaussian, sample
from dphist.noise.entropy import require_secure
from dphist.planning import Plan, plan_for
from dphist.planning import storage as plan_storage
from dphist.planning.aggregates import AggregateNoise
from dphist.planning.describe import guarantee
from dphist.publish import files
from dphist.publish.adaptive import decide, run_rounds
from dphist.publish.charge import Receipt, charging, spend_of_plan
from dphist.publish.columns import columns
from dphist.publish.keys import public_keys
from dphist.publish.table import ORDERS, Order, build_table, check_names
from dphist.report import html
from dphist.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Integers = NDArray[np.int64]
Progress = Callable[[str], None]
Diagnose = Callable[[dict[str, int]], None]

LARGEST_SUM = 2**61
"""Sums in steps are saturated at this public limit before noise: with noise of at most 2^58 steps int64 is enough."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is released beside the plan: which records, which keys, in which form. All of it public."""

    unit: str
    by: tuple[str, ...]
    where: str | None = None
    null_keys: NullKeys = "group"
    order: Order = "count"
    intervals: float | None = None
    integers: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("order", self.order, ORDERS)
        if self.intervals is not None and not 0 < self.intervals < 1:
            raise InvalidParameter("a level of intervals in (0, 1)", self.intervals, "0.95 is a common choice.")


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A private table with its plan. Holds no true value."""

    table: pa.Table
    plan: Plan
    request: Request
    total: float | None
    created: dt.datetime
    receipt: Receipt | None = None

    def to_arrow(self) -> pa.Table:
        """The table as Arrow."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def metadata(self) -> dict[str, Any]:
        """Plan, guarantee, noise, threshold, version and time. Nothing but public parameters and noisy values."""
        plan = self.plan
        summary = plan.summary()
        return {
            "format": "dphist-release",
            "version": 1,
            "dphist": __version__,
            "created": self.created.isoformat(timespec="seconds"),
            "unit": self.request.unit,
            "by": [parse_key(key).name for key in self.request.by],
            "keys": list(self.request.by),
            "where": self.request.where,
            "null_keys": self.request.null_keys,
            "order": self.request.order,
            "intervals": self.request.intervals,
            "integers": self.request.integers,
            "guarantee": guarantee(plan.request, plan.mechanism),
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "noise_std": summary.noise_std,
            "threshold": None if isinstance(plan.mechanism, AdaptiveGaussian) else summary.threshold,
            "total_units": None if self.total is None else {"value": self.total, "std_error": _total_std(plan)},
            "estimand": estimand(plan),
            "ledger": None if self.receipt is None else self.receipt.to_data(),
            "plan": plan_storage.to_data(plan.request, plan.mechanism, plan.alternatives),
        }

    def write(self, path: str | Path) -> None:
        """Write the table as Parquet, CSV or JSON by the name of the file, with its metadata inside or beside it."""
        files.write_table(self.table, self.metadata(), Path(path))

    def report(self, path: str | Path) -> None:
        """Write a report to look at: one HTML file that needs no network."""
        files.write_text(html.render(self.table, self.plan, self.metadata()), Path(path))


def estimand(plan: Plan) -> str:
    """What a count estimates, in words: intervals cover the noise, not what bounding left out."""
    most = plan.request.groups_per_unit
    if isinstance(plan.mechanism, AdaptiveGaussian):
        return (
            "the number of units in the group, all of them; intervals cover the noise and an estimate of what is lost where"
            " units in many groups are scaled down (sums and means: of values clamped to their bounds)"
        )
    if plan.request.sketch is not None:
        return "the count of units in a sketch of the data, which is never larger than the count in the data"
    return (
        f"the count of units after each unit was limited to {most:,} of its groups, chosen at random; intervals cover the"
        " noise, not what this limit left out"
    )


def _total_std(plan: Plan) -> float | None:
    scale = plan.request.total_scale
    return None if scale is None else float(np.sqrt(2.0) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A release that is checked and planned but has not read a record."""

    source: object
    plan: Plan
    request: Request
    query: GroupByQuery
    engine: DuckDBEngine

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
        """Bound, count, charge, add noise, hide small groups. `charge` is called once, before any noise is drawn."""
        report = progress or (lambda phase: None)
        if self.plan.request.unbounded:
            return self._run_on_pairs(report, entropy, diagnose, charge or _nothing)
        histogram = self._histogram(report)
        if diagnose is not None:
            diagnose({"non-empty groups": len(histogram), "contributions": int(histogram.counts.sum())})
        report("adding noise")
        (charge or _nothing)()
        return privatise(histogram, self.plan, self.request, entropy)

    def _run_on_pairs(
        self, report: Progress, entropy: Entropy | None, diagnose: Diagnose | None, charge: Callable[[], None]
    ) -> Release:
        """What needs more than one pass: a choice from the data, and the rounds of an adaptive release."""
        with open_pairs(self.source, self.query, self.engine.settings, progress=report) as table:
            charge()  # the choice draws noise already
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
        return Release(built, plan, self.request, _noisy_total(total, plan, entropy), dt.datetime.now(dt.UTC))

    def _histogram(self, report: Progress) -> Histogram:
        if self.plan.request.sketch is not None:
            return self.engine.sketch(self.source, self.query, self.plan.request.sketch, progress=report)
        return self.engine.histogram(self.source, self.query, bounds_of(self.plan), progress=report)


def _nothing() -> None:
    pass


def prepare(
    source: object,
    *,
    unit: str,
    by: str | Sequence[str],
    plan: Plan | str | Path | None = None,
    keys: object = None,
    where: str | None = None,
    null_keys: NullKeys = "group",
    order: Order = "count",
    intervals: float | None = None,
    integers: bool = False,
    settings: PerformanceSettings | None = None,
    **budget: Any,
) -> Job:
    """Everything a release can check and choose before it reads a record."""
    names = (by,) if isinstance(by, str) else tuple(by)
    request = Request(unit, names, where, null_keys, order, intervals, integers)
    key_names = [parse_key(name).name for name in names]
    listed = None if keys is None else public_keys(keys, key_names)
    made = _plan(plan, budget, None if listed is None else listed.num_rows)
    check_names(key_names, made, intervals)
    query = build_query(made, request, listed)
    return Job(source, made, request, query, DuckDBEngine(settings or PerformanceSettings()))


def release(
    source: object,
    *,
    unit: str,
    by: str | Sequence[str],
    ledger: str | Path | None = None,
    dataset: str | None = None,
    progress: Progress | None = None,
    entropy: Entropy | None = None,
    **options: Any,
) -> Release:
    """Count units per group, add noise, hide small groups: a table that is safe to publish.

    source: a path or glob (Parquet, CSV, JSON), an Arrow table, a pandas or Polars frame, a DuckDB relation. unit: the column
    that names the person protected. by: the columns that make the groups, or ``name=SQL expression`` of a record's own
    columns.

    options: either ``plan`` (a plan, or the path of a saved one) or what `dphist.plan` takes (epsilon, delta, max_groups,
    sums, ...); ``keys`` (a public list of groups), ``where`` (an SQL condition on a record's own columns), ``null_keys``
    (group or drop), ``order`` (count or key), ``intervals`` (a level such as 0.95), ``integers``, ``settings`` (threads,
    memory).

    ledger, dataset: where the release is charged before its noise is drawn; without them nothing is recorded.

    A release does exactly what its plan paid for.
    """
    require_secure(entropy)
    job = prepare(source, unit=unit, by=by, **options)
    with charging(ledger, dataset, lambda: spend_of_plan(job.plan, unit)) as charge:
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


def bounds_of(plan: Plan) -> ContributionBounds:
    """How much one unit may contribute: what the plan's guarantee assumes."""
    return ContributionBounds(max_groups=plan.request.groups_per_unit)


def privatise(histogram: Histogram, plan: Plan, request: Request, entropy: Entropy | None = None) -> Release:
    """Draw the noise of the plan on a bounded histogram. The only function that turns true values into published ones."""
    _require_bounds(histogram, plan)
    assert not isinstance(plan.mechanism, AdaptiveGaussian)  # which has no bounded histogram
    kept = plan.mechanism.perturb(histogram.counts, entropy)
    sums = noisy_sums(plan, kept, histogram.sums, entropy)
    table = build_table(
        histogram.keys.take(pa.array(kept.index)),
        columns(plan, kept.counts, sums),
        plan,
        level=request.intervals,
        integers=request.integers,
        order=request.order,
    )
    return Release(table, plan, request, _noisy_total(histogram.total_units, plan, entropy), dt.datetime.now(dt.UTC))


def _require_bounds(histogram: Histogram, plan: Plan) -> None:
    """A histogram carries the evidence of its bounds; without it there is no guarantee."""
    sketch, bounds = plan.request.sketch, histogram.bounds
    held = bounds.sparsity if sketch is not None else bounds.max_groups
    needed = sketch if sketch is not None else plan.request.groups_per_unit
    if held is None or held > needed:
        raise InvalidParameter(f"a histogram bounded to {needed} groups per unit", held)
    if (plan.request.keys is not None) != histogram.listed:
        raise InvalidParameter("a histogram over the public list of keys, as the plan says", "another")


def noisy_sums(plan: Plan, kept: Kept, sums: Mapping[str, Integers], entropy: Entropy | None) -> dict[str, Integers]:
    """Fresh noise on the recentred sums of the released groups, in steps."""
    found = {}
    for noisy in plan.aggregates:
        true = np.clip(sums[noisy.aggregate.name][kept.index], -LARGEST_SUM, LARGEST_SUM)
        found[noisy.aggregate.name] = true + sample(aggregate_law(plan, noisy), len(true), entropy)
    return found


def aggregate_law(plan: Plan, noisy: AggregateNoise) -> Law:
    """The law of the noise on a recentred sum, in steps of its lattice."""
    aggregate = noisy.aggregate
    if isinstance(plan.mechanism, LaplaceThreshold):
        return DiscreteLaplace(
            Fraction(plan.mechanism.scale) * aggregate.sensitivity_steps / Fraction(aggregate.weight)
        )
    return RoundedGaussian(Fraction(noisy.noise_std) / Fraction(aggregate.step), 0)


def _noisy_total(units: int | None, plan: Plan, entropy: Entropy | None) -> float | None:
    """The number of units with discrete Laplace noise: one unit changes it by one."""
    scale = plan.request.total_scale
    if scale is None:
        return None
    assert units is not None
    return float(units + int(sample(DiscreteLaplace(Fraction(scale)), 1, entropy)[0]))
