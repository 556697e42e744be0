"""A plan in words and one table, rendered from its objects."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from dphist.mechanisms import AdaptiveGaussian, CorrelatedGaussian, KnownGroups, Mechanism
from dphist.planning.request import TOTAL_SHARE, Aggregate, Request
from dphist.planning.sentence import bounded_change
from dphist.planning.summary import error95, objective_value, stated_delta, thresholded

_WIDTH = 100
_LABEL = 13
_UNDECIDED = {
    "law": "adaptive (rounds), or laplace where most units are in one group or two",
    "max_groups": "max_groups and its law, chosen from how many groups units are in",
}
_OBJECTIVES = {
    "release95": "the count released with 95 % probability",
    "gap": "the threshold",
    "noise": "the noise",
}


def describe(
    request: Request,
    mechanism: Mechanism,
    alternatives: Sequence[Mechanism],
    aggregates: Sequence[tuple[Aggregate, float]],
) -> str:
    """The plan as text."""
    lines = [f"Plan: {title(mechanism)}, the best found for {_OBJECTIVES[request.objective]}", ""]
    if request.mechanism != "best" or request.analysis is not None:
        lines[0] = f"Plan: {title(mechanism)}, as asked"
    if request.undecided:
        lines[0] = f"Plan: {_UNDECIDED[request.choice]}"
    for label, text in facts(request, mechanism, aggregates):
        wrapped = textwrap.wrap(text, _WIDTH - _LABEL - 2)
        lines += [f"  {label if i == 0 else '':<{_LABEL}}{line}" for i, line in enumerate(wrapped)]
    if alternatives:
        lines += ["", *_table(request, mechanism, alternatives)]
    return "\n".join(lines)


def title(mechanism: Mechanism) -> str:
    """Mechanism and analysis in a few words."""
    return f"{mechanism.name} ({mechanism.analysis})"


def facts(
    request: Request, mechanism: Mechanism, aggregates: Sequence[tuple[Aggregate, float]]
) -> list[tuple[str, str]]:
    """What a reader wants to know, as (label, sentence)."""
    found = [
        *_choice(request),
        *(_adaptive(mechanism) if isinstance(mechanism, AdaptiveGaussian) else _plain(mechanism)),
    ]
    for aggregate, noise_std in aggregates:
        found.append(
            (
                aggregate.name,
                f"each unit's value in a group clamped to [{aggregate.lower:g}, {aggregate.upper:g}]; noise of std"
                f" {number(noise_std)} on the recentred sum",
            )
        )
    if request.total_scale is not None:
        std = math.sqrt(2) * request.total_scale
        found.append(("total", f"the number of units, with noise of std {number(std)}: {TOTAL_SHARE:.0%} of epsilon"))
    if request.sketch is not None:
        most = f"the pairs of unit and group divided by {request.sketch + 1:,}"
        found.append(("sketch", f"counts are too small by at most {most}"))
    return [*found, ("guarantee", guarantee(request, mechanism)), ("provided", f"{mechanism.assumption}.")]


def _choice(request: Request) -> list[tuple[str, str]]:
    """What is chosen from the data, and what that costs."""
    if request.choice == "given":
        return []
    what = "between adaptive and laplace" if request.choice == "law" else "of max_groups and its law"
    std = number(math.sqrt(2) / request.choice_epsilon)
    return [
        (
            "choice",
            f"{request.choice_epsilon / request.epsilon:.0%} of epsilon pays for a histogram of how many groups units are in"
            f" (noise of std {std} on each bucket), from which the choice {what} is made",
        )
    ]


def _adaptive(mechanism: AdaptiveGaussian) -> list[tuple[str, str]]:
    """Budget, rounds, threshold and noise of an adaptive release."""
    split = mechanism.budget_split()
    shares = ", ".join(f"{share:.0%} {name}" for name, share in split.items() if share > 0)
    rounds = ", ".join(f"{number(std)}" for std in mechanism.round_stds)
    return [
        ("budget", f"of the squared Gaussian budget {shares}"),
        (
            "selection",
            f"{mechanism.tuning.rounds} rounds with noise of std {rounds} on the sum of weights; each unit gives weights of"
            f" norm 1 to a fixed sample of at most {mechanism.max_groups:,} of its groups, in later rounds to those that are"
            " still undecided",
        ),
        (
            "threshold",
            f"a group is selected when its weights add up to more than {number(mechanism.threshold)}: with probability 50 % at"
            f" {number(mechanism.count_released_with(0.5))} units that have no other undecided group, 95 % at"
            f" {number(mechanism.count_released_with(0.95))}; more units where they have",
        ),
        (
            "noise",
            f"std {number(mechanism.noise_std)} on the count of a selected group if its units are in no other selected group,"
            " times the square root of the norm that is allowed to units with more, which is chosen privately; every count is"
            " released with its own standard error",
        ),
    ]


def _plain(mechanism: Mechanism) -> list[tuple[str, str]]:
    """Noise and threshold of one pass."""
    noise = f"std {number(mechanism.noise_std)} on every count; 95 % of them within ±{number(error95(mechanism))}"
    if isinstance(mechanism, CorrelatedGaussian | KnownGroups) and mechanism.correlation > 0:
        noise += (
            f" ({number(mechanism.independent_std)} independent, the rest common to all groups,"
            f" correlation {number(mechanism.correlation)})"
        )
    found = [("noise", noise)]
    threshold = thresholded(mechanism)
    if threshold is not None:
        found.append(
            (
                "threshold",
                f"a group is released when its noisy count exceeds {number(threshold.threshold)}: with probability 50 %"
                f" at {number(threshold.count_released_with(0.5))} units, 95 % at"
                f" {number(threshold.count_released_with(0.95))} units",
            )
        )
        if threshold.low_threshold > 1:
            found.append(("", f"groups of fewer than {threshold.low_threshold:,} units are dropped first"))
    return found


def guarantee(request: Request, mechanism: Mechanism) -> str:
    """The guarantee in one sentence, with its theorem."""
    delta = stated_delta(request, mechanism)
    return bounded_change("all records of one unit", request.epsilon, delta, request.delta, mechanism.theorem)


def _table(request: Request, mechanism: Mechanism, alternatives: Sequence[Mechanism]) -> list[str]:
    header = ("", "noise std", "threshold", "50 % at", "95 % at", "against the plan")
    best = objective_value(mechanism, request.objective)
    rows = [header]
    for candidate in (mechanism, *alternatives):
        worse = objective_value(candidate, request.objective) / best - 1
        verdict = "the plan" if candidate is mechanism else comparison(worse)
        if request.choice != "given":
            verdict = standing(request, candidate, mechanism)
        threshold = thresholded(candidate)
        cells = ("-", "-", "-")
        if threshold is not None:
            counts = (threshold.threshold, threshold.count_released_with(0.5), threshold.count_released_with(0.95))
            cells = (number(counts[0]), number(counts[1]), number(counts[2]))
        rows.append((title(candidate), number(candidate.noise_std), *cells, verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return [
        "  "
        + f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def standing(request: Request, candidate: Mechanism, chosen: Mechanism) -> str:
    """What becomes of a mechanism where the data chooses."""
    bound = "no bound" if isinstance(candidate, AdaptiveGaussian) else f"max_groups {candidate.max_groups}"
    if request.undecided and not isinstance(chosen, AdaptiveGaussian):
        return bound
    return (
        f"{bound}, {'the plan' if candidate is chosen else 'if units are light'}"
        if request.undecided
        else (f"{bound}, chosen" if candidate is chosen else bound)
    )


def comparison(worse: float) -> str:
    """How much worse an alternative is, in words."""
    if abs(worse) < 5e-6:
        return "the same"
    return f"{worse:+.1%}" if worse < 9 else f"{1 + worse:,.0f} times"


def with_error(value: float, error: float) -> str:
    """value ± error, with the digits that the error leaves: two of its own."""
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def number(value: float) -> str:
    """A number with the digits that matter to a reader."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
