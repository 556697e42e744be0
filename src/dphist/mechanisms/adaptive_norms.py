"""What is known about the squared norms A of all units after counting's noise: a mean and a covariance for each bucket.

Clipping at C leaves min(A, sqrt(C A)) of a unit's A, and the A of all units add up to all counts, weighted. So the histogram
says how much clipping loses. Few units with a large A lose much and drown in the histogram's noise. For them, the tail above
the last bucket that can be seen, the noisy values are weighed against an expectation that falls from bucket to bucket, and the
totals of count and probe, which are sums over the same histogram, are weighed in afterwards. All of it is linear: estimate and
doubt come out together. Functions of noisy values alone: nothing here costs budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.mechanisms.adaptive_tuning import LARGEST_CAP, WEIGHT_BITS, Tuning

Floats = NDArray[np.float64]

CENTRES: Final = 2.0 ** (np.arange(-12, 29) / 2)
"""Half octaves of squared norms, from 1/64 to 2^14: a unit outside is put into the nearest."""

EDGES: Final = np.floor(2.0 ** ((np.arange(-12, 29) - 0.5) / 2) * 4**WEIGHT_BITS).astype(np.int64)
"""The buckets' lower ends as exact integers, in units of 4^-WEIGHT_BITS."""

CAPS: Final = 2.0 ** (np.arange(-8, 21) / 2)
"""The squared norms C to choose from: half octaves from 1/16 to `LARGEST_CAP`."""

assert CAPS[-1] == LARGEST_CAP


def kept_by(cap: float) -> Floats:
    """What clipping at C leaves of one unit of each bucket."""
    return np.asarray(np.minimum(CENTRES, np.sqrt(cap * CENTRES)))


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """How many units have which squared norm: an estimate with its covariance, and the last bucket that is not tail."""

    units: Floats
    covariance: Floats
    last: int

    @property
    def total(self) -> float:
        """All counts together, weighted; at least 1."""
        return max(float(self.units @ CENTRES), 1.0)

    def lost(self, cap: float) -> tuple[float, float]:
        """What clipping at C takes from the total: by units below the tail, and by units of the tail."""
        lost = self.units * (CENTRES - kept_by(cap))
        return max(float(lost[: self.last + 1].sum()), 0.0), max(float(lost[self.last + 1 :].sum()), 0.0)

    def doubt(self, cap: float) -> float:
        """The standard deviation of what clipping at C takes."""
        lost = CENTRES - kept_by(cap)
        return math.sqrt(max(float(lost @ self.covariance @ lost), 0.0))

    def updated(self, caps: tuple[float, ...], totals: Floats, variances: Floats) -> Norms:
        """With noisy totals of counts clipped at these caps: the linear estimate of least variance."""
        kept = np.array([kept_by(cap) for cap in caps])
        spread = self.covariance @ kept.T
        gain = np.linalg.solve(kept @ spread + np.diag(variances), spread.T).T
        return replace(
            self, units=self.units + gain @ (totals - kept @ self.units), covariance=self.covariance - gain @ spread.T
        )


def norms_from(noisy: Floats, std: float, largest: float, tuning: Tuning) -> Norms:
    """From a noisy histogram. largest: a public bound on any unit's squared norm, all weights together."""
    possible = np.ldexp(EDGES.astype(np.float64), -2 * WEIGHT_BITS) <= largest
    possible[0] = True
    seen = possible & (noisy >= tuning.histogram_cut * std)
    last = int(np.flatnonzero(seen)[-1]) if seen.any() else int(np.argmax(np.where(possible, noisy, -np.inf)))
    steps = np.arange(len(noisy)) - last
    tail = possible & (steps > 0)
    expected = max(float(noisy[last]), std) * tuning.tail_decay ** np.maximum(steps, 0)
    believed = expected**2 + (tuning.tail_doubt * std) ** 2
    trust = np.where(tail, believed / (believed + std**2), 1.0)
    units = np.where(tail, expected + trust * (noisy - expected), np.where(seen, noisy, 0.0))
    return Norms(units, np.diag(np.where(possible, trust * std**2, 0.0)), last)
