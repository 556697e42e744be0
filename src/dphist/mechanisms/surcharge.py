"""Surcharges: what a delta or a cost gets on top of its formula, for the noise sampler and for the rounding of doubles."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dphist.checks import proved
from dphist.errors import Infeasible
from dphist.noise import delta_surcharge
from dphist.privacy.events import ApproximateEvent, Event, PureEvent

if TYPE_CHECKING:
    from dphist.planning.request import Request

MOST_DRAWS: Final = 1 + 16 + 1 + 1
"""The most draws for one group: its count, up to 16 aggregates, and, in one group more than in the others, a total and the
bucket of the histogram from which a mechanism is chosen."""

SAMPLER_ERROR: Final = Fraction(1, 2**110)
"""A bound on the error of all `MOST_DRAWS` draws for one group. A test holds `noise.sampler_error` of the laws to its share.

A total and a choice have an epsilon of their own, so theirs counts with 1 + e^that, less than what it is added to.
"""

TREE_DRAW_ERROR: Final = Fraction(1, 2**116)
"""A bound on the error of each draw for the tree of a quantile. There may be hundreds for one group, so they are counted by
themselves: a request leaves `tree_surcharge` of its delta to them. The same test holds the laws to it."""

LARGEST_EPSILON: Final = 30.0
"""What the sampler's error adds to delta grows with e^epsilon. A delta at 30 holds for every larger epsilon too."""

UP: Final = 1 + 2.0**-48
"""Past the rounding of a few floating-point operations and of a sum of sixteen weights."""

COST_UP: Final = 1 + 1e-11
"""Past the rounding of a cost: plans are checked with a slack of 1e-12."""


def target_delta(request: Request) -> float:
    """The delta that is left to a mechanism after the error of its sampler."""
    counters = max(request.groups_per_unit, request.bounded_groups or 1)
    target = request.mechanism_delta * (1 - 1e-12) - sampler_surcharge(request.mechanism_epsilon, counters)
    if target <= 0:
        raise Infeasible(
            "a delta above the error of the noise sampler", f"{request.delta:g}", "nobody needs so small a delta."
        )
    return target


def with_sampler_error(delta_at: Callable[[float], float], epsilon: float, changed_counters: int) -> float:
    """delta_at(epsilon) plus what the sampler's distance from its law can add to it; at most 1.

    Rounded up, past the sums and products in which a delta is put together.
    """
    capped = min(epsilon, LARGEST_EPSILON)
    return min(1.0, (delta_at(capped) + sampler_surcharge(capped, changed_counters)) * (1 + 2.0**-49))


@proved("composition.md#lemma-2")
@lru_cache(maxsize=256)
def sampler_surcharge(epsilon: float, changed_counters: int) -> float:
    """What is added to delta for the sampler, at an epsilon of at most `LARGEST_EPSILON`.

    Kept, since a profile is asked at one epsilon again and again, and an enclosure of e^epsilon takes longer than the rest.
    """
    return delta_surcharge(epsilon, changed_counters, SAMPLER_ERROR)


@proved("composition.md#lemma-2")
def error_of_draws(changed_counters: int, each: Fraction = SAMPLER_ERROR) -> float:
    """How far the laws drawn are from their ideals: `each` per counter that one unit changes, and one that all share."""
    return round_up((changed_counters + 1) * each)


@proved("composition.md#lemma-2")
def tree_surcharge(epsilon: float, draws: int) -> float:
    """The delta of the sampler, for so many draws of trees that one unit can change; 0 without any."""
    return delta_surcharge(min(epsilon, LARGEST_EPSILON), draws, TREE_DRAW_ERROR) if draws else 0.0


def counter_event(epsilon: float) -> Event:
    """Discrete Laplace noise on one counter, such as a noisy total: a pure epsilon and the sampler's error."""
    return ApproximateEvent(PureEvent(epsilon), 0.0, error_of_draws(1))


def next_double(value: float) -> float:
    """The next double, whose decimal is above this one's value; 0 is exact."""
    return math.nextafter(value, math.inf) if value else 0.0


def round_up(value: Fraction | int) -> float:
    """The smallest double that is not below an exact value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
