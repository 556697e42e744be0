"""The number of units, and of those in no released group: how they are noised, and what is told of their errors."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dphist.checks import proved
from dphist.mechanisms.lattice import LARGEST_COUNT
from dphist.noise import DiscreteLaplace, add_exactly
from dphist.noise.tails import log_tail, log_two_tail
from dphist.planning.request import Request


@dataclass(frozen=True, slots=True)
class Estimate:
    """A noisy number of units, with the standard error of its noise and, at a level, bounds that cover the true one."""

    value: float
    std_error: float
    low: float | None = None
    high: float | None = None

    def to_data(self) -> dict[str, float]:
        """As metadata has it: bounds where there are any."""
        bounds = {} if self.low is None or self.high is None else {"low": self.low, "high": self.high}
        return {"value": self.value, "std_error": self.std_error, **bounds}


@dataclass(frozen=True, slots=True)
class Totals:
    """The noisy number of all units; and of units in some released group, `covered`, and in none, `other`, if measured."""

    total: Estimate
    covered: Estimate | None = None
    other: Estimate | None = None


@proved("composition.md#theorem-totals")
def noisy_units(buckets: Sequence[int], request: Request) -> list[int]:
    """The units of every bucket, each with discrete Laplace noise of the scale s = `request.total_scale`.

    Theorem (docs/composition.md, *Totals*). Let K be what was published before, the released keys among it, and let every
    unit be in one bucket, which is a function of its own records and of K. For every K this is (1/s)-DP, however many buckets
    there are. So with K it is (epsilon + 1/s, delta)-DP if K is (epsilon, delta)-DP.

    Proof. One unit more or less changes one bucket, by one, and no other. The noises are independent, so the ratio of the
    probabilities of any result is that of one discrete Laplace law and its shift by one: at most e^(1/s). K is public when the
    buckets are counted: pure epsilons add up, adaptively. s is rounded up, 1/s down.
    """
    assert request.total_scale is not None, "the plan pays for it"
    exact = np.array([min(units, LARGEST_COUNT) for units in buckets], np.int64)
    noisy: list[int] = add_exactly(exact, DiscreteLaplace(Fraction(request.total_scale))).tolist()
    return noisy


def published_values(noisy: Sequence[int], *, allow_negative: bool) -> list[float]:
    """The total alone; or the total, covered and other units. What noise made negative is 0, unless that is asked for.

    The total adds up the noisy numbers before they are cut, so that cutting one of them does not shift it.
    """
    values = [noisy[0]] if len(noisy) == 1 else [sum(noisy), *noisy]
    return [float(value if allow_negative else max(value, 0)) for value in values]


def contradiction(values: Sequence[float], *, allow_negative: bool) -> str | None:
    """Why numbers cannot be a total, covered and other units, as `published_values` gives them; None if they can."""
    total, covered, other = values
    if min(values) < 0 and not allow_negative:
        return "one is negative, which was not asked for"
    whole = allow_negative or min(covered, other) > 0
    if total > covered + other or (whole and total != covered + other):
        return "units in some and in no released group do not add up to all"
    return None


def estimated(values: Sequence[float], request: Request, level: float | None, *, allow_negative: bool) -> Totals:
    """Published values with what follows from the plan: standard errors and, with a level, bounds.

    Bounds lie around the published value. Where that was cut to 0 they cover at least as often: a noisy value below 0 that is
    not farther from the truth than they reach leaves the truth, which is not negative, between 0 and there.
    """
    assert request.total_scale is not None, "the plan pays for it"
    law, parts = DiscreteLaplace(Fraction(request.total_scale)), len(values) - 1
    std = math.sqrt(2.0) * request.total_scale

    def estimate(value: float, noises: int) -> Estimate:
        error = std * math.sqrt(noises)
        if level is None:
            return Estimate(value, error)
        reach = half_width(law, noises, level)
        low = value - reach
        return Estimate(value, error, low if allow_negative else max(low, 0.0), value + reach)

    return Totals(estimate(values[0], max(parts, 1)), *(estimate(value, 1) for value in values[1:]))


def half_width(law: DiscreteLaplace, noises: int, level: float) -> int:
    """The smallest k such that one noise, or two added up, is within ±k with the probability of the level: by their law."""
    tail = log_tail if noises == 1 else log_two_tail
    outside = math.log((1 - level) / 2)  # on each side
    most = math.ceil(100 * law.scale) + 2  # beyond, there is less than any double 1 - level
    return bisect_left(range(most), True, key=lambda reach: bool(tail(law, reach) <= outside))
