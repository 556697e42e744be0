"""What was done, in words, rendered from the plan that ran: which selection, what a count means, what was spent on what.

One line for console, metadata and report. It tells public numbers alone; of the data it says which way they chose, which was
paid for.
"""

from __future__ import annotations

from dphist.mechanisms import GroupMechanism
from dphist.planning import Plan
from dphist.planning.counted import count_is_of, counted_units
from dphist.planning.request import TOTAL_SHARE, Request
from dphist.words import about, number

_SELECTING = ("selection", "look", "election")
_COUNTING = ("histogram", "counts")


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
