"""What a count is of, in words, and what it leaves out: one text, wherever counts are shown. Public numbers alone tell it."""

from __future__ import annotations

from typing import Final

from dphist.mechanisms import ContinualCounts
from dphist.planning.plan import Plan
from dphist.planning.top_k import TopKPlan

_ALL: Final = "all units"


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
