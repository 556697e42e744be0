"""What a user asks a plan for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final

from dphist import checks
from dphist.aggregates import from_data
from dphist.aggregates.base import Aggregate, merge
from dphist.aggregates.measures import MOST_MEASURES, Measure, check_names_of_values
from dphist.aggregates.tree import Tree
from dphist.errors import InvalidParameter
from dphist.files.stored import StoredAs
from dphist.mechanisms.counts import EMPHASES, Emphasis
from dphist.mechanisms.surcharge import LARGEST_EPSILON, TREE_DRAW_ERROR, error_of_draws, tree_surcharge
from dphist.mechanisms.tuning import LARGEST_CAP, Tuning
from dphist.planning.choices import MECHANISMS, NOISES, OBJECTIVES, Noise, Objective, Strategy
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm

TOTAL_SHARE: Final = 0.05
"""The share of epsilon that a total number of units costs."""

BOUNDS_SHARE: Final = 0.1
"""The share of epsilon that choosing bounds costs, all aggregates together."""

KEPT_IN: Final = 10
"""Groups of one unit where nothing is said of them beside the size that must not be missing."""

MOST_QUANTILES: Final = 16
"""Of all columns together."""

_TUNING: Final = Tuning()
_NOT_WITH_KEYS_ONLY: Final = ("max_groups", "sparsity", "keys", "sparse", "sketch", "total", "aggregates")
_GIVE_BOUND = "add --max-groups (try 10): only with a bound can these be chosen."


@dataclass(frozen=True)
class Request:
    """A budget, what one unit can contribute, and how mechanisms are to be compared.

    keys_only: no counts and nothing else beside the keys; all of the budget goes to selecting them. emphasis: what gets more of
    the budget where keys are selected and counted. keep_above: groups of so many units, each in at most keep_groups of the
    groups, must not be missing.
    """

    epsilon: float
    delta: float
    max_groups: int | None = None
    sparsity: int | None = None
    keys: int | None = None
    sparse: bool = False
    sketch: int | None = None
    total: bool = False
    aggregates: tuple[Annotated[Aggregate, StoredAs(from_data)], ...] = ()
    objective: Objective = "release95"
    mechanism: str = "best"
    analysis: str | None = None
    noise_std: float | None = None
    correlation: float | None = None
    low_threshold: int = 1
    noise: Noise = "rounded"
    keys_only: bool = False
    emphasis: Emphasis = "balanced"
    keep_above: int | None = None
    keep_groups: int | None = None

    def __post_init__(self) -> None:
        dense = self.keys is not None and not self.sparse
        checks.check_budget(self.epsilon, self.delta, pure=dense and self.sketch is None)
        checks.check_choice("objective", self.objective, OBJECTIVES)
        checks.check_choice("mechanism", self.mechanism, MECHANISMS)
        checks.check_whole("low_threshold", self.low_threshold)
        for name in ("max_groups", "sparsity", "keys", "sketch"):
            if (value := getattr(self, name)) is not None:
                checks.check_whole(name, value, hint="" if name == "keys" else "leave it out if you know no bound.")
        check_noise(self.noise_std, self.correlation)
        for name in ("sparse", "total", "keys_only"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameter(f"true or false as {name}", repr(getattr(self, name)))
        checks.check_choice("noise", self.noise, NOISES)
        checks.check_choice("emphasis", self.emphasis, EMPHASES)
        self._check_keys_only()
        self._check_groups()
        self._check_choice()
        self._check_analysis()
        self._check_noise()
        self._check_kept()
        if self.bound is None and any(aggregate.needs_max_groups for aggregate in self.aggregates):
            hint = "add --max-groups (try 10), or a public list with --keys."
            raise InvalidParameter("a bound on how many groups one unit may be in, with --distinct", "none", hint)
        if len({aggregate.name for aggregate in self.aggregates}) < len(self.aggregates):
            raise InvalidParameter("aggregates with different names", [a.name for a in self.aggregates])
        if sum(len(aggregate.probabilities) for aggregate in self.aggregates) > MOST_QUANTILES:
            raise InvalidParameter(f"at most {MOST_QUANTILES} quantiles", "more", "plan two releases.")
        check_names_of_values(measure for aggregate in self.aggregates for measure in aggregate.measures)
        if len(self.measures) > MOST_MEASURES:
            hint = "a mean takes two of them, a variance three."
            raise InvalidParameter(f"aggregates of at most {MOST_MEASURES} sums", len(self.measures), hint)

    def _check_keys_only(self) -> None:
        """A selection of keys has no bound on a unit's groups, nothing to add up, and no public list."""
        if not self.keys_only:
            return
        given = [name for name in _NOT_WITH_KEYS_ONLY if getattr(self, name)]
        given += ["objective"] if self.objective != "release95" else []
        if given:
            hint = "leave it out: no counts are published."
            raise InvalidParameter("keys only, without bounds, lists, sums or totals", ", ".join(given), hint)

    def _check_groups(self) -> None:
        if self.sketch is not None:
            self._check_sketch()
        elif not self.strategies:
            raise InvalidParameter(
                f"a bound on how many groups one unit may be in for {self.mechanism}",
                "none",
                "add --max-groups (try 10), or --sparsity, or leave the mechanism to us.",
            )
        if self.sparsity is not None and self.keys is not None:
            raise InvalidParameter("sparsity or keys", "both", "a public list of keys already bounds the groups.")
        if self.sparse and self.keys is None:
            raise InvalidParameter("keys together with --sparse", "none", "add --keys with a public list of groups.")
        bound = self.sparsity if self.sparsity is not None else self.keys
        name = "sparsity" if self.sparsity is not None else "number of keys"
        if bound is not None and self.max_groups is not None and self.max_groups > bound:
            raise InvalidParameter(
                f"{name} of at least max_groups = {self.max_groups}",
                bound,
                "a unit cannot be in more groups than there are; lower --max-groups.",
            )
        if self.mechanism == "correlated-gaussian" and bound is None and self.sketch is None:
            raise InvalidParameter(
                "a sparsity bound for correlated-gaussian",
                "none",
                "add --sparsity K, a public bound on the number of non-empty groups.",
            )

    def _check_choice(self) -> None:
        """What the adaptive release and a choice from the data can do without."""
        if self.mechanism == "adaptive" and self.bound is not None:
            raise InvalidParameter("no bound on groups with adaptive", "one", "it needs none: leave the bound out.")
        fixed = [
            name
            for name, usual in (("noise_std", None), ("correlation", None), ("analysis", None), ("noise", "rounded"))
            if getattr(self, name) != usual
        ]
        if self.low_threshold > 1 and not self.keys_only and self.mechanism == "adaptive":
            fixed.append("low_threshold")  # rounds know no such bound, an election does
        if self.bound is None and fixed:
            names = ", ".join(fixed)
            raise InvalidParameter(f"a bound on how many groups one unit may be in, with {names}", "none", _GIVE_BOUND)
        if self.emphasis != "balanced" and (self.keys_only or self.bound is not None):
            hint = "it divides the budget where keys are selected and then counted."
            raise InvalidParameter("an emphasis only without a bound on groups, and with counts", self.emphasis, hint)

    def _check_noise(self) -> None:
        if self.delta == 0 and (self.mechanism not in ("best", "laplace") or self.correlation is not None):
            raise InvalidParameter("delta > 0 for Gaussian noise", 0, "try 1e-8, or Laplace noise, which needs none.")
        listed = self.keys is not None and self.sparse
        if self.noise == "discrete" and (self.aggregates or listed or self.analysis is not None):
            raise InvalidParameter(
                "discrete noise on counts alone, of unknown groups or of all listed ones",
                "aggregates, --sparse or an analysis",
                "use rounded noise.",
            )

    def _check_kept(self) -> None:
        if self.keep_above is None:
            if self.keep_groups is not None:
                hint = "the number of units whose groups must not be missing."
                raise InvalidParameter("--keep-above beside --keep-groups", "none", hint)
            return
        for name in ("keep_above", "keep_groups"):
            if (value := getattr(self, name)) is not None:
                checks.check_whole(name, value)
        if self.sketch is not None:
            hint = "it makes counts smaller by a number that only the data tell."
            raise InvalidParameter("no --keep-above with a sketch", self.keep_above, hint)
        if self.kept_in > self.groups_per_unit:
            hint = "a unit in more groups is counted in some of them, drawn at random."
            raise InvalidParameter(f"keep_groups of at most {self.groups_per_unit}", self.kept_in, hint)

    def _check_sketch(self) -> None:
        if self.max_groups is not None or self.sparsity is not None or self.keys is not None:
            raise InvalidParameter(
                "sketch alone",
                "another bound beside it",
                "one unit can move all counters of a sketch; leave the bound out.",
            )
        if self.aggregates:
            raise InvalidParameter(
                "no aggregates with a sketch", self.aggregates[0].name, "a sketch carries counts only."
            )
        if self.mechanism not in ("best", "correlated-gaussian"):
            raise InvalidParameter("correlated-gaussian with a sketch", self.mechanism)

    def _check_analysis(self) -> None:
        if self.analysis is None:
            return
        owner = analysis_owner(self.analysis)
        if self.mechanism not in ("best", owner):
            raise InvalidParameter(f"an analysis of {self.mechanism}", repr(self.analysis), f"it belongs to {owner}.")

    @cached_property
    def thresholded(self) -> bool:
        """Whether groups are hidden below a threshold: always, but for a dense public list of keys."""
        return self.keys is None or self.sparse

    @cached_property
    def other(self) -> bool:
        """Whether a total is measured as two numbers, of units in some released group and in none.

        Where every listed group is released nobody is in none, and a sketch has no units to look at.
        """
        return self.total and self.thresholded and self.sketch is None

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """The roads that a release may take; decided here alone. Among several the data chooses, for `choice_epsilon`."""
        if self.sketch is not None:
            return ("sketch",)
        if self.bound is not None:
            return ("one pass",) if self.thresholded else ("list",)
        ways: dict[str, tuple[Strategy, ...]] = {
            "best": ("rounds", "election"),
            "adaptive": ("rounds",),
            "voting": ("election",),
        }
        return ways.get(self.mechanism, ())

    @cached_property
    def bound(self) -> int | None:
        """The most groups of one unit: max_groups, or all there can be; None where nothing bounds them."""
        given = (self.max_groups, self.sparsity, self.keys, self.sketch)
        return next((value for value in given if value is not None), None)

    @cached_property
    def groups_per_unit(self) -> int:
        """The most groups of one unit: their bound, or what rounds count a unit in."""
        return _TUNING.most_groups if self.bound is None else self.bound

    @cached_property
    def kept_in(self) -> int:
        """In how many of the groups each unit is, at most, of a group of `keep_above` units."""
        return min(KEPT_IN, self.groups_per_unit) if self.keep_groups is None else self.keep_groups

    @cached_property
    def choice_epsilon(self) -> float:
        """What a choice between strategies costs, by a noisy histogram of how many groups units are in; 0 without a choice."""
        return min(_TUNING.choice_share * self.epsilon, LARGEST_EPSILON) if len(self.strategies) > 1 else 0.0

    @cached_property
    def bounded_groups(self) -> int | None:
        """The public bound on the non-empty groups that correlated noise uses, if there is one."""
        return next((value for value in (self.sparsity, self.sketch, self.keys) if value is not None), None)

    @cached_property
    def total_scale(self) -> float | None:
        """The scale of the Laplace noise on numbers of units: it is paid for with `TOTAL_SHARE` of epsilon, once.

        Two numbers cost as much as one, by the theorem of `run.totals.noisy_units`.
        """
        return 1 / min(TOTAL_SHARE * self.epsilon, LARGEST_EPSILON) * (1 + 1e-12) if self.total else None

    @cached_property
    def sized(self) -> tuple[Aggregate, ...]:
        """The aggregates whose bounds a release chooses, one for each histogram that they are chosen from."""
        return tuple({one.source: one for one in self.aggregates if one.chosen != "given"}.values())

    @cached_property
    def bounds_epsilon(self) -> float:
        """What choosing bounds costs; 0 where all are given."""
        return min(BOUNDS_SHARE * self.epsilon, LARGEST_EPSILON) if self.sized else 0.0

    @cached_property
    def bounds_scale(self) -> float:
        """The scale of the Laplace noise on the histogram of each of them: they share the epsilon. Rounded up."""
        return len(self.sized) / self.bounds_epsilon * (1 + 1e-12)

    @cached_property
    def mechanism_epsilon(self) -> float:
        """What is left of epsilon for the groups: pure epsilons add up. Never more than what samplers are exact enough for."""
        left = self.epsilon if self.total_scale is None else math.nextafter(self.epsilon - 1 / self.total_scale, 0.0)
        if self.choice_epsilon:
            left = math.nextafter(left - self.choice_epsilon, 0.0)
        if self.bounds_epsilon:
            left = math.nextafter(left - self.bounds_epsilon, 0.0)
        return min(left, LARGEST_EPSILON)

    @cached_property
    def probabilities(self) -> dict[str, tuple[float, ...]]:
        """Which quantiles are read off the tree of each measure of bins."""
        return {
            one.measures[0].name: one.probabilities for one in self.aggregates if one.probabilities and one.measures
        }

    def sampled_in_words(self, aggregate: Aggregate) -> str:
        """What is to be added to the estimand of an aggregate, where a unit does not take part in all of its groups."""
        if self.bound is not None or not aggregate.probabilities:
            return ""
        return "; a unit in more released groups than most others takes part in as many as these, drawn at random"

    @cached_property
    def tree_draws(self) -> int:
        """How many draws of the trees of quantiles one unit can change: all of those in all of its groups."""
        groups = LARGEST_CAP if self.bound is None else max(self.bound, self.bounded_groups or 1)
        # With bounds that are not chosen yet, too: the shape of a tree does not depend on them.
        shape = Tree(0.0, 1.0)
        return groups * sum(shape.most_draws(len(one.probabilities)) for one in self.aggregates if one.probabilities)

    @cached_property
    def _tree_surcharge(self) -> float:
        """What the sampler of trees adds to delta. Nothing where delta is 0: only noise without any error meets that."""
        return 0.0 if self.delta == 0 else tree_surcharge(self.mechanism_epsilon, self.tree_draws)

    @cached_property
    def mechanism_delta(self) -> float:
        """What is left of delta when the sampler of trees has its part: all of it without quantiles."""
        return math.nextafter(self.delta - self._tree_surcharge, 0.0) if self._tree_surcharge else self.delta

    def with_trees(self, delta: float) -> float:
        """A delta of the mechanism and what the sampler of trees adds to it, rounded up."""
        return math.nextafter(delta + self._tree_surcharge, math.inf) if self._tree_surcharge else delta

    @cached_property
    def tree_error(self) -> float:
        """How far the laws drawn for trees are from their ideals; nothing where they add nothing to delta."""
        return error_of_draws(self.tree_draws, TREE_DRAW_ERROR) if self._tree_surcharge else 0.0

    @cached_property
    def sums_budget(self) -> float:
        """The budget of the aggregates relative to the count's."""
        return sum(measure.weight for measure in self.measures)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """What engines add up for the aggregates."""
        return merge(self.aggregates)


def check_noise(noise_std: float | None, correlation: float | None) -> None:
    """Noise that somebody fixes, within public limits: far above use, far below where doubles or samplers give up."""
    if noise_std is not None:
        checks.check_positive("noise_std", noise_std)
        checks.check_between("noise_std", noise_std, 1e-6, 1e9)
    if correlation is not None:
        checks.check_not_negative("correlation", correlation)
        if correlation > 0:
            checks.check_between("correlation", correlation, 1e-9, 1e9, "0 is none at all.")


def analysis_owner(analysis: str) -> str:
    """The mechanism that an analysis belongs to."""
    if analysis in gshm.ANALYSES:
        return "sparse-gaussian"
    checks.check_choice("analysis", analysis, (*gshm.ANALYSES, *csh.ANALYSES))
    return "correlated-gaussian"
