"""What was done, what a count is of and what it leaves out: one text, wherever counts are shown, from public numbers alone."""

from __future__ import annotations

from typing import Final

from dphist.mechanisms import ContinualCounts, GroupMechanism
from dphist.planning.plan import Plan
from dphist.planning.request import TOTAL_SHARE, Request
from dphist.planning.top_k import TopKPlan
from dphist.words import about, number

_ALL: Final = "all units"
_SELECTING: Final = ("selection", "look", "election")
_COUNTING: Final = ("histogram", "counts")


def estimand(plan: Plan) -> str:
    """What a count estimates, in words: intervals cover the noise, not what bounding left out."""
    if plan.request.keys_only:
        return "nothing is counted; a key that is missing may belong to a group as large as some that are shown"
    if plan.mechanism.in_rounds:
        return (
            "the number of units in the group, all of them; intervals cover the noise, what groups of one size differ, and an"
            " estimate of the few units in more groups than counting allows (sums and means: of values clamped to their"
            " bounds)"
        )
    if plan.request.sketch is not None:
        return "the count of units in a sketch of the data, which is never larger than the count in the data"
    if (limited := bounded_counts(plan)) is not None:
        return f"the number of {limited}; intervals cover the noise, not what is missing"
    if plan.request.sparsity is not None:
        return (
            f"the number of units, less the next largest count where more than {plan.request.sparsity:,} groups are not empty;"
            " intervals cover the noise, not this"
        )
    of_group = "" if plan.request.keys == 1 else " in the group"
    return f"the number of units{of_group}; intervals cover the noise"


def bounded_counts(plan: Plan) -> str | None:
    """Of which units a count is, and what is missing, where max_groups bounds it."""
    request, mechanism = plan.request, plan.mechanism
    most = request.max_groups
    if mechanism.in_rounds or most is None or most >= (request.keys or most + 1):
        return None
    return in_some_groups(most)


def in_some_groups(most: int) -> str:
    """Units of which each keeps at most so many of its groups.

    They are chosen at random: one of C out of d groups leaves a unit missing from each with probability 1 - C/d.
    """
    groups = "one" if most == 1 else f"at most {most:,}"
    return (
        f"units with each unit in {groups} of its groups: units in more are missing from some of them, one in"
        f" {2 * most:,} groups from half"
    )


def counted_units(plan: Plan) -> str:
    """Of which units a count is, in a few words."""
    request = plan.request
    if (limited := bounded_counts(plan)) is not None:
        return limited
    if request.sketch is not None:
        return "units in a sketch of the data, which has no more of them than the data"
    if request.sparsity is not None:
        return f"all units in the group, if no more than {request.sparsity:,} groups are not empty"
    return _ALL if request.keys == 1 else f"{_ALL} in the group"


def left_out(plan: Plan) -> str:
    """The sentence that stands wherever counts are shown that leave units out; nothing where all of a group are counted."""
    if plan.request.keys_only or plan.mechanism.in_rounds or counted_units(plan).removesuffix(" in the group") == _ALL:
        return ""
    return count_is_of(counted_units(plan))


def left_out_of_list(plan: TopKPlan) -> str:
    """The same for the largest groups, which have counts or are ranked alone."""
    if plan.max_groups is None or plan.mechanism.noise_std is None:
        return ""
    return count_is_of(in_some_groups(plan.max_groups))


def left_out_of_rounds(mechanism: ContinualCounts) -> str:
    """The same for the running counts of a stream."""
    return f"A count adds up the rounds, each of {in_some_groups(mechanism.max_groups)}."


def count_is_of(units: str) -> str:
    """The sentence about some units."""
    return f"A count is of {units}."


def what_was_done(plan: Plan) -> str:
    """Which selection ran, what a count means and what was spent on what, in a line."""
    request, mechanism = plan.request, plan.mechanism
    parts = _selected_and_counted(request, mechanism) if request.unbounded else _counted_at_once(request, mechanism)
    paid = {
        "choice of the way": request.choice_epsilon / request.epsilon,
        "total of units": TOTAL_SHARE * request.total,
    }
    paid = {name: share for name, share in paid.items() if share > 0}
    if request.unbounded and mechanism.splits_epsilon:
        parts += [f"{name}: {_share(share)}" for name, share in paid.items()]
    elif paid:
        costs = ", ".join(f"{_share(share)} of epsilon for the {name}" for name, share in paid.items())
        parts.append(f"before that {costs}")
    words = "; ".join(parts)
    return f"{words}." if request.unbounded else f"{words}. {count_is_of(counted_units(plan))}"


def _selected_and_counted(request: Request, mechanism: GroupMechanism) -> list[str]:
    """Of keys that are selected first. The shares of an election are of epsilon; those of rounds are of what is added up."""
    split = mechanism.budget_split() or {"selection": 1.0}
    whole = request.mechanism_epsilon / request.epsilon if mechanism.splits_epsilon else 1.0
    selecting, counting = (whole * sum(split.get(name, 0.0) for name in names) for names in (_SELECTING, _COUNTING))
    of = "epsilon" if mechanism.splits_epsilon else "the squared Gaussian budget"
    parts = [f"Selected {mechanism.selection_in_words}: {_share(selecting)} of {of}"]
    parts.append(f"counted all units in each group: {_share(counting)}" if mechanism.counted else "nothing was counted")
    if request.measures:
        parts.append(f"{_names(request)}: {_share(whole * split['sums'])}")
    return parts


def _counted_at_once(request: Request, mechanism: GroupMechanism) -> list[str]:
    """Of counts that also select, by a threshold, or of public keys."""
    head = "One group, which is public" if request.keys == 1 else "Keys are a public list"
    if mechanism.threshold is not None:
        head = f"Selected by noisy counts above {number(mechanism.threshold)}"
    of = "epsilon" if mechanism.splits_epsilon else "the squared Gaussian budget"
    share = 1 / (1 + request.sums_budget)
    sums = [f"{_names(request)}: {_share(1 - share)}"] if request.measures else []
    return [head, f"counts: {_share(share)} of {of}", *sums]


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else about(share)


def _names(request: Request) -> str:
    return ", ".join(aggregate.name for aggregate in request.aggregates)
