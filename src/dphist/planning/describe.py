"""Plans in words, rendered from their objects: the one sentence of the guarantee, the facts, the table, the flat record."""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from dphist import columns
from dphist.aggregates.base import Aggregate
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.columns import Unit
from dphist.errors import InvalidParameter
from dphist.mechanisms import GroupMechanism, Mechanism
from dphist.mechanisms.base import Fact
from dphist.planning.request import BOUNDS_SHARE, TOTAL_SHARE, Request
from dphist.words import about, bounded_change, enough, number, rounded_up

PRECISE: Final = 0.25
"""Of half the range of a value: what the plan tells the size of a group for."""

_FAR: Final = 2**30
_WIDTH = 100
_LABEL = 13
_OBJECTIVES = {
    "release95": "the count released with 95 % probability",
    "gap": "the threshold",
    "noise": "the noise",
}


def check_neighbours(value: str) -> None:
    """Only adding or removing is supported: replacing one unit by another breaks these theorems as they stand."""
    if value != "add-remove":
        raise InvalidParameter(
            "neighbours that differ by adding or removing a unit (add-remove)",
            repr(value),
            "to replace a unit is to remove one and add one: the guarantee then holds at twice the epsilon and"
            " (1 + e^epsilon) times the delta.",
        )


def sentence(
    mechanism: Mechanism, epsilon: float, delta: float, unit: Unit | None = None, what: str = columns.ONE_UNIT
) -> str:
    """What adding or removing `what` changes, with the theorem that says so; a unit that is no column is named."""
    proved, named = mechanism.delta(epsilon), columns.protected(unit, what)
    return bounded_change(named, epsilon, proved, delta, mechanism.theorem, columns.not_protected(unit))


def stream_guarantee(mechanism: Mechanism, epsilon: float, delta: float, unit: Unit) -> str:
    """The guarantee of all rounds of a stream together, in one sentence."""
    return f"over all rounds, {sentence(mechanism, epsilon, delta, unit, 'what one unit adds in one round')}"


def guarantee(request: Request, mechanism: GroupMechanism, unit: Unit | None = None) -> str:
    """The guarantee of a release in one sentence, with its theorem. A plan knows no unit yet."""
    delta, named, other = stated_delta(request, mechanism), columns.protected(unit), columns.not_protected(unit)
    return bounded_change(named, request.epsilon, delta, request.delta, mechanism.theorem, other)


def stated_delta(request: Request, mechanism: GroupMechanism) -> float:
    """The delta to state: the mechanism's own, or the whole budget where the data chose the mechanism among several."""
    if request.choice_epsilon:
        return request.delta
    return request.with_trees(mechanism.delta(request.mechanism_epsilon))


def layout(title: str, facts: Sequence[Fact]) -> str:
    """A title and labelled, wrapped sentences."""
    lines = [title, ""]
    for label, text in facts:
        wrapped = textwrap.wrap(text, _WIDTH - _LABEL - 2)
        lines += [f"  {label if i == 0 else '':<{_LABEL}}{line}" for i, line in enumerate(wrapped)]
    return "\n".join(lines)


def describe(
    request: Request, mechanism: GroupMechanism, alternatives: Sequence[GroupMechanism], unit: Unit | None = None
) -> str:
    """The plan as text."""
    objective = (
        request.objective if request.thresholded else "noise"
    )  # without a threshold nothing else is left to compare
    head = f"Plan: {title(mechanism)}, the best found for {_OBJECTIVES[objective]}"
    if request.mechanism != "best" or request.analysis is not None:
        head = f"Plan: {title(mechanism)}, as asked"
    if request.bound is None:
        keys = "" if mechanism.counted else " of keys alone"
        head = f"Plan{keys}: {_ways(mechanism, alternatives) if request.choice_epsilon else title(mechanism)}"
    text = layout(head, facts(request, mechanism, unit))
    return "\n".join([text, "", *_table(request, mechanism, alternatives)]) if alternatives else text


def title(mechanism: GroupMechanism) -> str:
    """Mechanism and analysis in a few words."""
    return f"{mechanism.name} ({mechanism.analysis})"


def facts(request: Request, mechanism: GroupMechanism, unit: Unit | None = None) -> list[Fact]:
    """What a reader wants to know, as (label, sentence)."""
    facts = [*_choice(request), *mechanism.facts(), *_kept(request, mechanism)]
    facts += [] if mechanism.counted else rates_in_words(mechanism)
    noisy = {one.name: one for one in mechanism.noisy(request.measures)}
    for one in request.aggregates:
        sizes = sizes_in_words(one, noisy, mechanism.noise_std)
        facts.append((one.name, one.fact(noisy) + request.sampled_in_words(one) + sizes))
    if request.sized:
        names = ", ".join(aggregate.name for aggregate in request.sized)
        scale = math.sqrt(2) * request.bounds_scale
        facts.append(
            (
                "bounds",
                f"of {names}: from a histogram of how large values are, one of each unit, with noise of std {number(scale)}:"
                f" {BOUNDS_SHARE:.0%} of epsilon; a size that fewer than about"
                f" {number(15 * request.bounds_scale)} units have is not seen",
            )
        )
    if request.total_scale is not None:
        std = math.sqrt(2) * request.total_scale
        words = f"the number of units, with noise of std {number(math.sqrt(2) * std if request.other else std)}"
        other = f", and of those in no released group, with noise of std {number(std)}" if request.other else ""
        facts.append(("total", f"{words}{other}: {TOTAL_SHARE:.0%} of epsilon"))
    if request.sketch is not None:
        most = f"the pairs of unit and group divided by {request.sketch + 1:,}"
        facts.append(("sketch", f"counts are too small by at most {most}"))
    return [*facts, ("guarantee", guarantee(request, mechanism, unit)), ("provided", f"{mechanism.assumption}.")]


def rates(mechanism: GroupMechanism) -> dict[str, Any]:
    """What a selection is expected to lose, and how rarely it shows a group of one unit: public numbers, no data.

    lost: the share of groups that are not released, by the number of `size_in_words` of the mechanism.
    """
    half = math.ceil(mechanism.count_released_with(0.5))
    sizes = [half, *(math.ceil(mechanism.count_released_with(share)) for share in (0.95, 0.999)), 2 * half, 4 * half]
    return {
        "size": mechanism.size_in_words,
        "lost": [{"size": size, "share": round(mechanism.share_lost(size), 6)} for size in sorted(set(sizes))],
        "fewest_units": mechanism.low_threshold,
        "single_unit": mechanism.delta_infinity() if mechanism.low_threshold == 1 else 0.0,
    }


def rates_in_words(mechanism: GroupMechanism) -> list[Fact]:
    """The same as labelled sentences."""
    expected = rates(mechanism)
    lost = ", ".join(f"{about(one['share'])} of groups of {one['size']:,} units" for one in expected["lost"])
    rare = f"a group of one unit is released with probability {rounded_up(expected['single_unit'])} at most"
    if expected["fewest_units"] > 1:
        rare = f"a group of fewer than {expected['fewest_units']:,} units is never released"
    return [("lost", f"{lost} ({expected['size']})"), ("spurious", rare)]


def in_some_groups(most: int) -> str:
    """Units of which each keeps at most so many of its groups.

    They are chosen at random: one of C out of d groups leaves a unit missing from each with probability 1 - C/d.
    """
    groups = "one" if most == 1 else f"at most {most:,}"
    return (
        f"units with each unit in {groups} of its groups: units in more are missing from some of them, one in"
        f" {2 * most:,} groups from half"
    )


def standard_error_in_words(mechanism: GroupMechanism) -> str:
    """What ± is beside a count: more than noise, where counts are estimated from several noisy numbers."""
    if mechanism.in_rounds:
        return "± is one standard error: of the noise, and of what had to be estimated."
    return "± is one standard error of the noise."


def _ways(mechanism: GroupMechanism, alternatives: Sequence[GroupMechanism]) -> str:
    ways = " or ".join(title(one) for one in (mechanism, *alternatives))
    return f"{ways}, chosen from how many groups units are in" if alternatives else ways


def _choice(request: Request) -> list[Fact]:
    """What is chosen from the data, and what that costs."""
    if not request.choice_epsilon:
        return []
    std = number(math.sqrt(2) / request.choice_epsilon)
    share = f"{request.choice_epsilon / request.epsilon:.0%} of epsilon pays for a histogram of how many groups units are in"
    return [("choice", f"{share} (noise of std {std} on each bucket), from which the way to select keys is chosen")]


def _kept(request: Request, mechanism: GroupMechanism) -> list[Fact]:
    """What must not be missing, and from which size on that holds."""
    if request.keep_above is None:
        return []
    words = f"groups of {request.keep_above:,} units, each in at most {request.kept_in:,} of the groups"
    if mechanism.threshold is None:
        return [("kept", f"{words}: none is missing, as all listed groups are published")]
    since = enough(mechanism.sure_size(request.kept_in))
    estimate = " (an estimate); no election is held, as it may lose any" if mechanism.in_rounds else ""
    return [("kept", f"{words}: about one in 10,000 is missing at most; that holds from {since} units on{estimate}")]


def compared(
    request: Request, mechanism: GroupMechanism, alternatives: Sequence[GroupMechanism], chosen: str, none: str
) -> list[tuple[str, ...]]:
    """What a plan chose among, below headings; the mechanism of the plan is told as `chosen`, what one lacks as `none`."""
    rows: list[tuple[str, ...]] = [("", "noise std", "threshold", "50 % at", "95 % at", "against the plan")]
    for candidate in (mechanism, *alternatives):
        cells = [none] * 3
        if candidate.threshold is not None:
            sizes = [enough(candidate.count_released_with(probability)) for probability in (0.5, 0.95)]
            cells = [number(candidate.threshold), *sizes]
        noise = number(candidate.noise_std) if candidate.counted else none
        rows.append((title(candidate), noise, *cells, standing(request, candidate, mechanism, chosen)))
    return rows


def _table(request: Request, mechanism: GroupMechanism, alternatives: Sequence[GroupMechanism]) -> list[str]:
    rows = compared(request, mechanism, alternatives, "the plan", "-")
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        f"  {row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def standing(request: Request, candidate: GroupMechanism, chosen: GroupMechanism, words: str) -> str:
    """How a candidate compares with the one that is chosen, which is told as `words`; or what becomes of it where the data
    chooses."""
    if request.choice_epsilon:
        return candidate.bound_in_words
    worse = candidate.objective_value(request.objective) / chosen.objective_value(request.objective) - 1
    return words if candidate is chosen else comparison(worse)


def comparison(worse: float) -> str:
    """How much worse an alternative is, in words."""
    if abs(worse) < 5e-6:
        return "the same"
    return f"{worse:+.1%}" if worse < 9 else f"{1 + worse:,.0f} times"


@dataclass(frozen=True, slots=True)
class Summary:
    """Every number of a plan that applies, as `--json` prints it; None where one does not."""

    mechanism: str
    analysis: str
    epsilon: float
    delta: float
    target_delta: float
    max_groups: int
    sparsity: int | None
    noise_std: float | None
    independent_std: float | None
    correlation: float | None
    gap: float | None
    low_threshold: int | None
    threshold: float | None
    delta_gauss: float
    delta_inf: float | None
    error95: float | None
    released_50: float | None
    released_95: float | None
    theorem: str
    choice: str = "given"
    choice_epsilon: float = 0.0
    budget_split: dict[str, float] | None = None
    keys_only: bool = False
    expected: dict[str, Any] | None = None
    kept: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data; without `kept` where nothing is asked to be."""
        data = asdict(self)
        return data if self.kept is not None else {name: value for name, value in data.items() if name != "kept"}


def summarise(request: Request, mechanism: GroupMechanism) -> Summary:
    """The record of a mechanism at the request's budget."""
    hides = mechanism.threshold is not None
    return Summary(
        mechanism=mechanism.name,
        analysis=mechanism.analysis,
        epsilon=request.epsilon,
        delta=stated_delta(request, mechanism),
        target_delta=request.delta,
        max_groups=mechanism.max_groups,
        sparsity=mechanism.sparsity,
        noise_std=mechanism.noise_std if mechanism.counted else None,
        independent_std=mechanism.independent_std,
        correlation=mechanism.correlation,
        gap=mechanism.gap,
        low_threshold=mechanism.low_threshold,
        threshold=mechanism.threshold,
        delta_gauss=mechanism.delta_noise(request.mechanism_epsilon),
        delta_inf=mechanism.delta_infinity(),
        error95=mechanism.noise_quantile(0.975) if mechanism.counted else None,
        released_50=mechanism.count_released_with(0.5) if hides else None,
        released_95=mechanism.count_released_with(0.95) if hides else None,
        theorem=mechanism.theorem,
        choice="law" if request.choice_epsilon else "given",
        choice_epsilon=request.choice_epsilon,
        budget_split=mechanism.budget_split(),
        keys_only=not mechanism.counted,
        expected=None if mechanism.counted else rates(mechanism),
        kept=None if request.keep_above is None else kept(request, request.keep_above, mechanism),
    )


def kept(request: Request, size: int, mechanism: GroupMechanism) -> dict[str, Any]:
    """The size that must not be missing, in how many groups its units are, and from which size on the mechanism keeps all."""
    sure = mechanism.sure_size(request.kept_in)
    return {"above": size, "groups": request.kept_in, "from": sure if math.isfinite(sure) else None}


def sizes_in_words(aggregate: Aggregate, noisy: Mapping[str, NoisyMeasure], count_std: float) -> str:
    """From how many units on an aggregate is published, and is precise; nothing of one that no bounds limit."""
    if aggregate.span is None or aggregate.chosen == "nothing":
        return ""
    published, precise = (enough(units_for(aggregate, noisy, count_std, share)) for share in (2 * 12**-0.5, PRECISE))
    return (
        f"; if values lie evenly between the bounds, groups of fewer than about {published} units with a value have none of it,"
        f" and from {precise} on its standard error is below {PRECISE * 100:.0f} % of half its range"
    )


def units_for(aggregate: Aggregate, noisy: Mapping[str, NoisyMeasure], count_std: float, share: float) -> int:
    """The least number of units, each with one value, at which the stated error is at most this share of half the range.

    The values lie evenly between the bounds; of several quantiles the worst counts.
    """
    low, high = aggregate.span or aggregate.bounds
    most = share * (high - low) / 2

    def is_enough(units: int) -> bool:
        return aggregate.error_of(units, noisy, count_std) <= most

    return 1 + bisect_left(range(1, _FAR), True, key=is_enough)
