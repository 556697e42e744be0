"""The roads from records to a release: each runs, says what it does, and says why that is private.

Which one a release takes is decided once, with its plan (`Plan.strategy`). Nothing else asks where it is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from dphist.engines.base import ROUNDS, SELECTING, Arrays, Groups, Pairs, PairsByUnit, Records, Rows
from dphist.engines.histogram import ContributionBounds
from dphist.mechanisms import AdaptiveGaussian, Voting
from dphist.planning import Plan
from dphist.planning.describe import guarantee, in_some_groups
from dphist.planning.request import TOTAL_SHARE
from dphist.run import rounds, voting
from dphist.run.choice import decide, gain
from dphist.run.counting import Trees, count
from dphist.run.estimates import estimated_columns
from dphist.run.table import keys_alone, published
from dphist.words import about, number

if TYPE_CHECKING:
    from dphist.run.job import Job, Work
    from dphist.run.release import Release

Step = tuple[str, str, str]
"""A name, the argument, and SQL or a plan below it."""

_ALL: Final = "all units"
_SELECTING: Final = ("selection", "look", "election")
_COUNTING: Final = ("histogram", "counts")


def strategy_of(plan: Plan) -> Strategy:
    """The road of a plan."""
    return _STRATEGIES[plan.strategy](plan)


def bounds_of(plan: Plan) -> ContributionBounds:
    """How much one unit may contribute: what the plan's guarantee assumes."""
    return ContributionBounds(max_groups=plan.request.groups_per_unit)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One road, for one plan. Its words follow from public numbers alone."""

    plan: Plan

    def run(self, records: Records, work: Work) -> Release:
        """From records that are checked and paid for to what is published."""
        raise NotImplementedError

    def steps(self, job: Job) -> list[Step]:
        """Why it is private, step by step, between the plan and the totals."""
        raise NotImplementedError

    @property
    def estimand(self) -> str:
        """What a count estimates: intervals cover the noise, not what bounding left out."""
        raise NotImplementedError

    @property
    def what_was_done(self) -> str:
        """Which selection ran, what a count means and what was spent on what, in a line."""
        raise NotImplementedError

    @property
    def left_out(self) -> str:
        """The sentence that stands wherever counts are shown that leave units out; nothing where all of a group are counted."""
        return ""

    def _paid_before(self) -> dict[str, str]:
        """The shares of epsilon that pay for something beside the mechanism."""
        request = self.plan.request
        paid = {
            "choice of the way": request.choice_epsilon / request.epsilon,
            "total of units": TOTAL_SHARE * request.total,
        }
        return {name: _share(share) for name, share in paid.items() if share > 0}

    def _aggregates(self) -> str:
        return ", ".join(aggregate.name for aggregate in self.plan.request.aggregates)

    @property
    def _currency(self) -> str:
        return "epsilon" if self.plan.mechanism.splits_epsilon else "the squared Gaussian budget"


class OnePass(Strategy):
    """Groups nobody knows: each unit counts in a bounded number of them, and noisy counts below a threshold are hidden."""

    __slots__ = ()

    def run(self, records: Records, work: Work) -> Release:
        """One pass over the records."""
        return work.from_groups(records.groups(bounds_of(self.plan)))

    @property
    def _in_some_groups(self) -> str | None:
        """Of which units a count is, and what is missing, where max_groups bounds it."""
        most, keys = self.plan.request.max_groups, self.plan.request.keys
        return None if most is None or (keys is not None and most >= keys) else in_some_groups(most)

    @property
    def _counted_units(self) -> str:
        """Of which units a count is, in a few words."""
        request = self.plan.request
        if (limited := self._in_some_groups) is not None:
            return limited
        if request.sparsity is not None:
            return f"all units in the group, if no more than {request.sparsity:,} groups are not empty"
        return _ALL if request.keys == 1 else f"{_ALL} in the group"

    @property
    def left_out(self) -> str:
        """Nothing where a count is of all units."""
        units = self._counted_units
        return "" if units.removesuffix(" in the group") == _ALL else f"A count is of {units}."

    @property
    def estimand(self) -> str:
        """The number of units, of which some may be missing."""
        request = self.plan.request
        if (limited := self._in_some_groups) is not None:
            return f"the number of {limited}; intervals cover the noise, not what is missing"
        if request.sparsity is not None:
            return (
                f"the number of units, less the next largest count where more than {request.sparsity:,} groups are not"
                " empty; intervals cover the noise, not this"
            )
        return f"the number of units{'' if request.keys == 1 else ' in the group'}; intervals cover the noise"

    @property
    def _head(self) -> str:
        assert self.plan.mechanism.threshold is not None
        return f"Selected by noisy counts above {number(self.plan.mechanism.threshold)}"

    @property
    def what_was_done(self) -> str:
        """Counts, which also select; and sums."""
        request = self.plan.request
        share = 1 / (1 + request.sums_budget)
        parts = [self._head, f"counts: {_share(share)} of {self._currency}"]
        parts += [f"{self._aggregates()}: {_share(1 - share)}"] if request.measures else []
        if paid := self._paid_before():
            parts.append(f"before that {', '.join(f'{cost} of epsilon for the {name}' for name, cost in paid.items())}")
        return f"{'; '.join(parts)}. A count is of {self._counted_units}."

    def steps(self, job: Job) -> list[Step]:
        """Bound and count, noise, threshold."""
        mechanism = self.plan.mechanism
        words = guarantee(self.plan.request, mechanism, job.selection.unit)
        noise = (
            "Every remaining count gets noise from a cryptographic generator, drawn on a lattice so that no digit of the"
            f" result can tell the inputs apart. {words[:1].upper() + words[1:]}"
        )
        with job.engine.open(job.source, job.query, seed=0) as records:  # reads the schema of the source and no record
            sql = records.explain(bounds_of(self.plan))
        return [("Bound and count", self._bounding, sql), ("Noise", noise, ""), ("Threshold", self._threshold, "")]

    @property
    def _bounding(self) -> str:
        most = self.plan.request.groups_per_unit
        words = (
            f"Each unit keeps a uniformly random choice of at most {most:,} of its groups. The choice depends on the unit's"
            " own records and fresh randomness only, so adding or removing a unit changes nothing for the others: each"
            f" group's count changes by at most one, in at most {most:,} groups."
        )
        if self.plan.request.keys == 1:
            words = (
                "Each unit is counted once. What it adds depends on its own records only: adding or removing it adds one,"
                " or takes one away."
            )
        return words + (_CLAMPED if self.plan.measures else "")

    @property
    def _threshold(self) -> str:
        mechanism = self.plan.mechanism
        return (
            "Which groups exist is itself private. A group is released only if its noisy count is strictly above"
            f" {mechanism.threshold:g}; a group that exists because of one unit passes with probability at most"
            f" {mechanism.delta_infinity():.3g}, which is part of delta."
        )


class Listed(OnePass):
    """A public list of groups, all of which are released; or one group, of everybody."""

    __slots__ = ()

    @property
    def _head(self) -> str:
        return "One group, which is public" if self.plan.request.keys == 1 else "Keys are a public list"

    @property
    def _threshold(self) -> str:
        return "Which groups there are is public: there is nothing to hide, and all of them are released."


class Sketch(OnePass):
    """Groups nobody knows, counted in bounded memory."""

    __slots__ = ()

    @property
    def _counters(self) -> int:
        assert self.plan.request.sketch is not None
        return self.plan.request.sketch

    def run(self, records: Records, work: Work) -> Release:
        """One pass over the records, block by block."""
        return work.from_groups(records.sketch(self._counters))

    @property
    def _counted_units(self) -> str:
        return "units in a sketch of the data, which has no more of them than the data"

    @property
    def estimand(self) -> str:
        """What is left of a count in the sketch."""
        return "the count of units in a sketch of the data, which is never larger than the count in the data"

    @property
    def _bounding(self) -> str:
        return (
            "Units are put into blocks by a hash of the unit, so that one more unit moves no other. Each block is counted and"
            f" merged into {self._counters:,} counters by subtracting the next largest count; one unit moves all counters by"
            " at most one, all in the same direction."
        )


class Rounds(Strategy):
    """Keys are selected in rounds from a sample of each unit's groups; then all units of each selected group are counted."""

    __slots__ = ()

    def run(self, records: Records, work: Work) -> Release:
        """Over the pairs of units and groups, which decide between the ways if the plan has several."""
        with records.pairs() as pairs:
            plan = decide(self.plan, pairs)
            strategy = strategy_of(plan)
            assert isinstance(strategy, Rounds)
            return strategy.from_pairs(pairs, replace(work, plan=plan))

    def _select(self, pairs: Pairs) -> tuple[Groups, PairsByUnit]:
        """The selected groups with what selection has told of them; and the pairs as counting goes on with them."""
        mechanism = cast(AdaptiveGaussian, self.plan.mechanism)
        sampled = pairs.sampled(mechanism.max_groups)
        return rounds.select(mechanism, sampled), sampled

    def from_pairs(self, pairs: Pairs, work: Work) -> Release:
        """Select; then count and estimate, unless keys alone are asked for."""
        mechanism, measures, request = self.plan.mechanism, self.plan.measures, self.plan.request
        if work.diagnose is not None:
            work.diagnose({"non-empty groups": pairs.non_empty_groups()})
        work.tell(ROUNDS if mechanism.counted else SELECTING)
        selected, pairs_of_units = self._select(pairs)
        noise, tuning = mechanism.counts, mechanism.tuning
        if noise is None:
            return work.published(selected.publish(keys_alone, work.layout))
        level, probabilities = work.selection.intervals, request.probabilities
        trees = Trees(probabilities, level) if probabilities else None
        counted, counting = count(mechanism, pairs_of_units, selected, measures, trees)
        names = [noisy.name for noisy in measures if noisy.measure.tree is None]

        def estimate_groups(groups: Arrays) -> Rows:
            quantiles = {} if trees is None else trees.read(groups)
            noisy = counting.noisy_counts(names, groups)
            columns = estimated_columns(noise, request.aggregates, measures, noisy, tuning, quantiles)
            return Rows(np.arange(len(columns[0].values)), published(columns, mechanism, level))

        table = counted.publish(estimate_groups, work.layout, together=True)
        if request.other:  # the groups that were counted are those of the table
            return work.published(table, pairs_of_units.coverage(counted))
        return work.published(table, (pairs.total_units(),) if request.total else ())

    @property
    def estimand(self) -> str:
        """All units of a group, if anything is counted."""
        if not self.plan.mechanism.counted:
            return "nothing is counted; a key that is missing may belong to a group as large as some that are shown"
        return (
            "the number of units in the group, all of them; intervals cover the noise, what groups of one size differ, and an"
            " estimate of the few units in more groups than counting allows (sums and means: of values clamped to their"
            " bounds)"
        )

    @property
    def what_was_done(self) -> str:
        """Selecting, counting, sums. The shares of an election are of epsilon; those of rounds are of what is added up."""
        request, mechanism = self.plan.request, self.plan.mechanism
        split = mechanism.budget_split() or {"selection": 1.0}
        whole = request.mechanism_epsilon / request.epsilon if mechanism.splits_epsilon else 1.0
        selecting, counting = (whole * sum(split.get(name, 0.0) for name in names) for names in (_SELECTING, _COUNTING))
        parts = [f"Selected {mechanism.selection_in_words}: {_share(selecting)} of {self._currency}"]
        parts.append(
            f"counted all units in each group: {_share(counting)}" if mechanism.counted else "nothing was counted"
        )
        if request.measures:
            parts.append(f"{self._aggregates()}: {_share(whole * split['sums'])}")
        paid = self._paid_before()
        if mechanism.splits_epsilon:
            parts += [f"{name}: {share}" for name, share in paid.items()]
        elif paid:
            parts.append(f"before that {', '.join(f'{cost} of epsilon for the {name}' for name, cost in paid.items())}")
        return f"{'; '.join(parts)}."

    def steps(self, job: Job) -> list[Step]:
        """The pairs, the choice, and what each mechanism does that may run."""
        request = self.plan.request
        with job.engine.open(job.source, job.query, seed=0) as records:  # reads the schema of the source and no record
            steps: list[Step] = [("Pairs", _PAIRS, records.explain_pairs())]
        if request.choice_epsilon:
            most = 1.0 if request.emphasis == "groups" else max(map(gain, self.plan.branches))
            unless = f", an election only if it is predicted to release {most:.3g} times as many as rounds," * (
                most > 1
            )
            words = _CHOICE.format(epsilon=request.choice_epsilon, left=request.mechanism_epsilon, unless=unless)
            steps.append(("Choice", words, ""))
        for mechanism in (self.plan.mechanism, *self.plan.alternatives):
            if mechanism.in_rounds:
                steps += [(name, words, "") for name, words in mechanism.steps()]
                proof = guarantee(request, mechanism, job.selection.unit)
                steps.append(("Together", f"All of it is one proof: {proof}", ""))
        return steps


class Election(Rounds):
    """Keys are selected by an election in which each unit has one vote; then all units of each selected group are counted."""

    __slots__ = ()

    def _select(self, pairs: Pairs) -> tuple[Groups, PairsByUnit]:
        voters = pairs.voters()
        return voting.vote(cast(Voting, self.plan.mechanism), voters), voters


_STRATEGIES: Final[dict[str, type[Strategy]]] = {
    "one pass": OnePass,
    "list": Listed,
    "sketch": Sketch,
    "rounds": Rounds,
    "election": Election,
}


def explain(job: Job, shown: Callable[[str], str] = str) -> str:
    """The SQL, the plan and each step's privacy argument. shown: the SQL as readers may see it."""
    plan = job.plan
    chosen = "Chosen from public parameters alone; no record is read for it."
    steps = [("Plan", chosen, plan.describe(job.selection.unit)), *strategy_of(plan).steps(job), *_totals(plan)]
    parts = []
    for position, (name, words, block) in enumerate([*steps, ("Publish", _publishing(plan), "")], 1):
        parts.append(f"{position}. {name}\n{textwrap.fill(words, 100, initial_indent='   ', subsequent_indent='   ')}")
        if block:
            parts.append(textwrap.indent(shown(block), "     "))
    return "\n\n".join(parts) + "\n"


def _totals(plan: Plan) -> list[Step]:
    """The step in which units are counted by themselves; none if the plan has no total."""
    if plan.request.total_scale is None:
        return []
    noise = f"discrete Laplace noise of epsilon = {1 / plan.request.total_scale:g}"
    words = f"The number of units gets {noise}: one unit changes it by one."
    if plan.request.other:
        words = (
            "When the released keys are known, and public, each unit is either in some of these groups or in none, by all of"
            f" its own records. Both numbers get {noise}: one unit changes one of them, by one. Their sum is the total."
        )
    return [("Totals", words, "")]


def _publishing(plan: Plan) -> str:
    if not plan.mechanism.counted:
        return "The selected keys are published in their own order, and nothing else."
    words = (
        "Sums, means, standard errors, intervals and the order of rows are computed from noisy values alone, which cannot"
        f" weaken the guarantee. A count estimates {strategy_of(plan).estimand}."
    )
    if plan.mechanism.hides_small_counts:
        words += " It is estimated given that the group was released; the plain noisy count stands beside it."
    return words


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else about(share)


_CLAMPED: Final = (
    " Every unit's value in a group is clamped to public bounds, recentred and rounded to whole steps: sums are exact"
    " integers, and one unit moves each by at most its public sensitivity."
)
_PAIRS: Final = (
    "The different pairs of unit and group are written down once, in a private temporary table. Each unit draws one random"
    " sample of its groups, by a keyed hash of the unit and the group: adding or removing a unit changes no other sample."
)
_CHOICE: Final = (
    "How many units are in how many groups is counted in public buckets, each unit in one, with discrete Laplace noise of"
    " epsilon = {epsilon:g}. The mechanism that this histogram predicts to release most groups{unless} runs with the"
    " remaining epsilon = {left:g} and all of delta: a pure epsilon adds up with any other guarantee."
)
