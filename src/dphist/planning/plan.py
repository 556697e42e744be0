"""A plan: the mechanism a release will use, and what the others would have cost."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Unpack

from dphist import notebook
from dphist.aggregates import aggregates_of
from dphist.aggregates.base import Aggregate
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.columns import Unit
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import GROUP_MECHANISMS, GroupMechanism
from dphist.mechanisms.surcharge import counter_event
from dphist.planning import storage
from dphist.planning.choices import Strategy
from dphist.planning.describe import Summary, describe, facts, stated_delta, summarise, title
from dphist.planning.options import PlanOptions, read, spelled_out
from dphist.planning.request import Request, analysis_owner
from dphist.privacy.events import ApproximateEvent, ComposedEvent, Event, ProfileEvent, WholeEvent, WorstOfEvent
from dphist.privacy.search import smallest_whole
from dphist.words import budget, enough

STD_ERROR: Final = "_std_error"
"""What is appended to the name of a released column to name its standard error."""

LOW, HIGH = "_low", "_high"
"""The same for the ends of its interval."""

_GAUSSIAN: Final = ("sparse-gaussian", "correlated-gaussian")
_ASKED_FOR_AS: Final = {
    "discrete-gaussian": ("sparse-gaussian",),
    "discrete-correlated-gaussian": ("correlated-gaussian",),
    "known-groups": _GAUSSIAN,
    "known-discrete": _GAUSSIAN,
    "known-laplace": ("laplace",),
}
"""What a mechanism is called where one is asked for, if that is not its name."""

NOISY: Final = "_noisy"
"""The same for the plain noisy value of a count that is estimated given its release."""

_LITTLE_MORE: Final = 1.1

_EPSILONS: Final = [float(f"{digits}e{power}") for power in range(-10, 1) for digits in range(10, 100)]
"""Of two digits: one of them is proposed where a size that must not be missing needs more epsilon."""


@dataclass(frozen=True, repr=False)
class Plan:
    """A request, the mechanism chosen for it, and the alternatives. Holds everything a release needs; immutable.

    Example:
        >>> plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10, sums={"likes": (0, 1)})
        >>> plan
        Plan(sparse-gaussian; epsilon 1, delta 1e-08; count, sum_likes)
        >>> plan.delta <= 1e-8
        True
    """

    request: Request
    mechanism: GroupMechanism
    alternatives: tuple[GroupMechanism, ...] = ()

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee."""
        return self.request.epsilon

    @cached_property
    def delta(self) -> float:
        """The delta actually achieved, at most the one asked for."""
        return stated_delta(self.request, self.mechanism)

    @cached_property
    def measures(self) -> tuple[NoisyMeasure, ...]:
        """Every measure of its aggregates with its noise."""
        return self.mechanism.noisy(self.request.measures)

    @cached_property
    def branches(self) -> tuple[GroupMechanism, ...]:
        """What a release may run: the mechanism, or any of several where the data chooses."""
        return (self.mechanism, *self.alternatives) if self.request.choice_epsilon else (self.mechanism,)

    @cached_property
    def strategy(self) -> Strategy:
        """The road that a release takes with its mechanism."""
        return next(one for one in self.request.strategies if one in self.mechanism.strategies)

    @cached_property
    def event(self) -> WholeEvent:
        """What a release spends. Where the data chooses the mechanism, every branch is paid for, and the choice too."""
        request = self.request
        branches = tuple(branch.event(request.mechanism_epsilon) for branch in self.branches)
        delta = request.with_trees(max(branch.delta for branch in branches))
        main: Event = branches[0] if len(branches) == 1 else WorstOfEvent(branches)
        if request.tree_error:
            sampled = ApproximateEvent(main, 0.0, request.tree_error)
            main = ProfileEvent(request.mechanism_epsilon, delta, delta, sampled)
        pure = [request.choice_epsilon] if request.choice_epsilon else []
        pure += [1 / request.total_scale] if request.total_scale is not None else []
        pure += [request.bounds_epsilon / len(request.sized) for _ in request.sized]
        whole = ComposedEvent((main, *map(counter_event, pure))) if pure else main
        # What the plan states is proved as a whole, without the rounding of its parts.
        return WholeEvent(whole, self.epsilon, max(delta, request.delta) if request.choice_epsilon else delta)

    def with_epsilon(self, epsilon: float) -> Plan:
        """The plan for the same request with another epsilon.

        Args:
            epsilon: how much one unit may change the odds of any result.

        Returns:
            The best mechanism for it.

        Example:
            >>> dp.plan(epsilon=1, delta=1e-8, max_groups=10).with_epsilon(0.5)
            Plan(sparse-gaussian; epsilon 0.5, delta 1e-08)
        """
        return choose(replace(self.request, epsilon=epsilon))

    @cached_property
    def value_names(self) -> list[str]:
        """The names of the columns with values in a release."""
        counted = ["count"] if self.mechanism.counted else []
        return [*counted, *(name for aggregate in self.request.aggregates for name in aggregate.names)]

    @cached_property
    def limited_names(self) -> dict[str, Aggregate]:
        """Of these columns those whose values lie inside public bounds: what is lost in noise there is withheld."""
        return {name: one for one in self.request.aggregates if one.span is not None for name in one.names}

    @property
    def rounded_names(self) -> frozenset[str]:
        """Those that are rounded where whole numbers are asked for."""
        return frozenset({"count", *(one.name for one in self.request.aggregates if one.rounded)})

    def decided(self, mechanism: GroupMechanism) -> Plan:
        """The plan once one of its mechanisms is chosen: that one, with the others as alternatives.

        Args:
            mechanism: one of those that the plan may run.

        Returns:
            The same request with that mechanism.

        Example:
            >>> plan = dp.plan(epsilon=1, delta=1e-8)
            >>> plan.decided(plan.alternatives[-1]).mechanism.name
            'voting'
        """
        others = tuple(other for other in (self.mechanism, *self.alternatives) if other is not mechanism)
        return Plan(self.request, mechanism, others)

    def summary(self) -> Summary:
        """The chosen mechanism as one flat record.

        Returns:
            Noise, threshold, guarantee, and the counts that are released with 50 % and 95 % probability.

        Example:
            >>> dp.plan(epsilon=1, delta=1e-8, max_groups=10).summary().mechanism
            'sparse-gaussian'
        """
        return summarise(self.request, self.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data, with the alternatives.

        Returns:
            A dictionary that JSON can hold.

        Example:
            >>> [other["analysis"] for other in dp.plan(epsilon=1, delta=1e-8, max_groups=10).to_dict()["alternatives"]]
            ['f-dp', 'add-the-deltas', 'pure-and-tail']
        """
        others = [summarise(self.request, mechanism).to_dict() for mechanism in self.alternatives]
        return {**self.summary().to_dict(), "alternatives": others}

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the plan as JSON.

        Args:
            path: the file.
            overwrite: replace a file that exists.

        Raises:
            InvalidParameter: the file exists, or cannot be written.

        Example:
            >>> dp.plan(epsilon=1, delta=1e-8, max_groups=10).save("plan.json")
            >>> dp.Plan.load("plan.json")
            Plan(sparse-gaussian; epsilon 1, delta 1e-08)
        """
        storage.write(self.request, self.mechanism, self.alternatives, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan, and compute its guarantee anew.

        Args:
            path: a file that `save` wrote.

        Returns:
            The plan.

        Raises:
            InvalidPlan: it is damaged, or its guarantee does not hold.

        Example:
            >>> plan = dp.plan(epsilon=0.5, delta=1e-6, max_groups=2)
            >>> plan.save("half.json")
            >>> dp.Plan.load("half.json") == plan
            True
        """
        return cls(*storage.read(Path(path)))

    def to_json(self) -> str:
        """`to_dict` as one JSON object.

        Returns:
            The text.

        Example:
            >>> '"mechanism": "sparse-gaussian"' in dp.plan(epsilon=1, delta=1e-8, max_groups=10).to_json()
            True
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def describe(self, unit: Unit | None = None) -> str:
        """The plan as text, which `print` shows too.

        Args:
            unit: who is protected, for the sentence about the guarantee.

        Returns:
            What is done, what it promises, and what the alternatives would cost.

        Example:
            >>> print(dp.plan(epsilon=1, delta=1e-8, max_groups=10).describe("user_id").splitlines()[0])
            Plan: sparse-gaussian (exact), the best found for the count released with 95 % probability
        """
        return describe(self.request, self.mechanism, self.alternatives, unit)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        names = " or ".join(dict.fromkeys(branch.name for branch in self.branches))
        more = "" if len(self.value_names) < 2 else f"; {', '.join(self.value_names)}"
        return f"Plan({names}; {budget(self.epsilon, self.request.delta)}{more})"

    def _repr_html_(self) -> str:
        ways = " or ".join(title(branch) for branch in self.branches)
        return notebook.card(f"Plan: {ways}", facts(self.request, self.mechanism), self._picture())

    def _picture(self) -> str:
        """The probability that a group is released, by its size."""
        if self.mechanism.threshold is None or self.mechanism.in_rounds:
            return ""
        last = 1.1 * self.mechanism.count_released_with(0.99)
        grid = [last * i / 40 for i in range(41)]
        points = [(x, self.mechanism.release_probability(x)) for x in grid]
        often = enough(self.mechanism.count_released_with(0.95))
        return notebook.curve(
            points, "probability of release", f"A group of {often} people is released 95 times in 100"
        )


@spelled_out(PlanOptions)
def plan(**options: Unpack[PlanOptions]) -> Plan:
    """Choose the mechanism for a budget, and say what it will cost. Touches no data.

    With a budget and nothing more, keys are selected first, in rounds or by an election, which a noisy look at the data
    decides; then all units in each of them are counted.

    Args:
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed, such as 1e-8. May be 0 where the groups are public.
        max_groups: the most groups one unit may be counted in.
        sparsity: a public bound on the number of non-empty groups.
        keys: a public list of groups, or its length; then nothing needs hiding.
        sparse: with `keys`, publish only the large groups of the list.
        sketch: count in bounded memory with this many counters.
        sums: columns, or ``name=SQL expression`` of a record, with the bounds that values are clamped to, such as
            ``{"likes": (0, 1)}``; ``"auto"`` where the data is to choose them, privately.
        means: the same, for means.
        variances: the same, for variances of records.
        stds: the same, for standard deviations of records.
        quantiles: columns with probabilities and bounds, such as ``{"amount": ([0.25, 0.75], 0, 100)}``.
        medians: columns with bounds.
        count_of: columns; counts the units that have a value in them.
        rows: also count records, at most this many of one unit in a group, or ``"auto"``.
        distinct: columns, with how many of a group's distinct values one unit may add, or ``"auto"``.
        records: the most records of one unit that enter a variance, a standard deviation or a quantile of a group.
        weights: the share of the budget of each aggregate, by its name in the release (``sum_likes``), relative to the
            count's 1.
        total: also publish the noisy number of units, and of those in no released group.
        mechanism: the name of one, in place of the best.
        analysis: the analysis of its guarantee.
        objective: ``release95`` minimises the true count that is released with 95 % probability, ``gap`` the threshold,
            ``noise`` the noise.
        noise_std: the noise, where it is not to be chosen.
        correlation: that of correlated noise.
        low_threshold: groups of fewer units are never released.
        keep_above: groups of so many units must not be missing, but for about one in ten thousand; a budget with which they
            may be is refused with the epsilon that would do. Holds no elections.
        keep_groups: with `keep_above`, in at most how many of the groups each of these units is (10, or `max_groups`).
        noise: ``rounded`` Gaussian noise keeps the exact analysis, ``discrete`` keeps counts whole.
        emphasis: what gets more of the budget without `max_groups`: ``groups``, ``counts``, or ``balanced``.
        no_groups: one row for all units.
        keys_only: select keys without counting them, for `dphist.select`.

    Returns:
        The plan: print it, save it, or give it to `dphist.release`.

    Raises:
        InvalidParameter: a value outside its domain.
        Infeasible: each value is fine alone, but no mechanism meets them together.

    Example:
        >>> plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10)
        >>> plan.mechanism.name, round(plan.mechanism.noise_std, 1), round(plan.mechanism.threshold)
        ('sparse-gaussian', 16.1, 98)
    """
    return choose(_request(read(PlanOptions, options, plan)))


def _request(asked: PlanOptions) -> Request:
    keys, aggregates = _number_of_keys(asked["keys"], asked["no_groups"]), aggregates_of(asked)
    told: dict[str, Any] = {name: value for name, value in asked.items() if name in Request.__dataclass_fields__}
    request = Request(**{**told, "keys": keys, "aggregates": aggregates})
    no_election = request.keep_above is not None or any(measure.draws > 1 for measure in request.measures)
    if not (request.choice_epsilon and no_election):
        return request
    # An election may lose groups of any size, and its counts have Laplace noise, which suits no tree: `_with_quiet_trees`.
    # But rounds know no low threshold.
    return replace(request, mechanism="adaptive" if request.low_threshold == 1 else "voting")


def _number_of_keys(keys: object, no_groups: bool) -> int | None:
    """How many groups are listed; where there are none to tell apart, all units are one."""
    if no_groups:
        if keys is not None:
            raise InvalidParameter("no public list of keys without groups", "one", "leave out --keys or --no-groups.")
        return 1
    if keys is None or isinstance(keys, int):
        return keys
    if isinstance(keys, Mapping):
        return math.prod(len(set(values)) for values in keys.values())
    if isinstance(keys, str | bytes) or hasattr(keys, "__arrow_c_stream__") or not isinstance(keys, Iterable):
        hint = "dphist plan --keys counts those of a file or query; of a table, give their number."
        raise InvalidParameter("public keys as a list, a mapping or their number", type(keys).__name__, hint)
    return len(set(keys))


def candidates(request: Request) -> tuple[list[GroupMechanism], list[Infeasible]]:
    """Every calibrated mechanism for the request, and why the others are not among them."""
    feasible: list[GroupMechanism] = []
    infeasible: list[Infeasible] = []
    offering = (one for one in GROUP_MECHANISMS if not one.strategies.isdisjoint(request.strategies))
    for build in (build for one in offering for build in one.for_request(request)):
        try:
            mechanism = build()
            _check_drawable(mechanism, request)
        except Infeasible as problem:
            infeasible.append(problem)
            continue
        if mechanism.delta(request.mechanism_epsilon) > request.mechanism_delta:  # only the forward map is trusted
            raise AssertionError(f"{mechanism} misses its own target")
        feasible.append(mechanism)
    return feasible, infeasible


def _check_drawable(mechanism: GroupMechanism, request: Request) -> None:
    """Refuse, before anything is charged, noise on sums beyond what samplers draw."""
    if not mechanism.counted:
        return
    try:
        mechanism.noisy(request.measures)
    except InvalidParameter:
        hint = "raise epsilon, or lower --records or how far weights are apart."
        raise Infeasible("noise on sums that can be drawn", "more", hint) from None


def choose(request: Request) -> Plan:
    """The best candidate by the request's objective, and the others, best first."""
    feasible, infeasible = candidates(request)
    eligible = _eligible(feasible, request)
    if not eligible:
        raise infeasible[0] if infeasible else Infeasible("a mechanism for this request", "none")
    if request.keep_above is not None:
        eligible = _that_keep(eligible, request, request.keep_above)
    if request.bound is None:  # the choice is made from the data, later
        return Plan(request, feasible[0], tuple(feasible[1:]))
    values = {id(mechanism): mechanism.objective_value(request.objective) for mechanism in feasible}
    ordered = sorted(feasible, key=lambda mechanism: values[id(mechanism)])
    best = min(values[id(mechanism)] for mechanism in eligible)
    # Equal but for rounding: the one that releases smaller groups.
    close = [m for m in ordered if m in eligible and values[id(m)] <= best * (1 + 1e-9)]
    chosen = min(close, key=lambda mechanism: mechanism.objective_value("release95"))
    return Plan(request, chosen, tuple(mechanism for mechanism in ordered if mechanism is not chosen))


def _eligible(feasible: list[GroupMechanism], request: Request) -> list[GroupMechanism]:
    """Those that may be chosen: by the plan, or without a bound on groups by the data."""
    if request.bound is None:
        return feasible
    return _with_quiet_trees([mechanism for mechanism in feasible if _is_asked_for(mechanism, request)], request)


def _that_keep(eligible: list[GroupMechanism], request: Request, size: int) -> list[GroupMechanism]:
    """Those that hardly ever lose a group of this size; refused where there is none, with the epsilon that would do."""
    if (sure := _sure_size(eligible, request)) <= size:
        return [one for one in eligible if one.sure_size(request.kept_in) <= size]
    expected = f"groups of {size:,} units, each in at most {request.kept_in:,} of the groups, to be hardly ever missing"
    if math.isinf(sure):
        hint = "leave out --mechanism voting and --low-threshold: then keys are selected in rounds."
        raise Infeasible(expected, "an election, which may lose any", hint)

    def holds(index: int) -> bool:
        more = replace(request, epsilon=_EPSILONS[index])
        return _sure_size(_eligible(candidates(more)[0], more), more) <= size

    hint = f"--keep-above {math.ceil(sure)} holds with this budget"
    with suppress(Infeasible):
        index = smallest_whole(holds, limit=len(_EPSILONS) - 1, start=bisect_right(_EPSILONS, request.epsilon))
        hint = f"epsilon {_EPSILONS[index]:g} would do; {hint}"
    raise Infeasible(expected, f"that from {math.ceil(sure):,} units on", f"{hint}.")


def _sure_size(eligible: list[GroupMechanism], request: Request) -> float:
    """The least size from which on groups are hardly ever missing."""
    return min((one.sure_size(request.kept_in) for one in eligible), default=math.inf)


def _with_quiet_trees(mechanisms: list[GroupMechanism], request: Request) -> list[GroupMechanism]:
    """With quantiles only those whose trees have little more noise than the best.

    Laplace noise, which is often best for counts, grows with the levels of a tree, Gaussian noise with their root.
    """
    trees = [measure for measure in request.measures if measure.draws > 1]
    if not trees:
        return mechanisms
    noises = [max(noisy.noise_std for noisy in mechanism.noisy(trees)) for mechanism in mechanisms]
    return [one for one, noise in zip(mechanisms, noises, strict=True) if noise <= _LITTLE_MORE * min(noises)]


def _is_asked_for(mechanism: GroupMechanism, request: Request) -> bool:
    if request.analysis is not None:
        return mechanism.name == analysis_owner(request.analysis) and mechanism.analysis == request.analysis
    return request.mechanism in ("best", *_ASKED_FOR_AS.get(mechanism.name, (mechanism.name,)))
