"""The noise on counts of keys that are public by then, apart from how they were selected. A keys-only release has none."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dphist import checks
from dphist.mechanisms.tuning import LARGEST_CAP

if TYPE_CHECKING:
    from dphist.mechanisms.tuning import Tuning


@dataclass(frozen=True, slots=True)
class CountNoise:
    """What counting the selected keys draws and costs.

    histogram_std: the noise on the number of units in a bucket. noise_std, probe_std: the noise on the clipped counts, for a
    unit whose weights have norm 1; both grow with the norm that is allowed. sums_sensitivity: how far one unit moves the
    other aggregates, in units of their noise.
    """

    histogram_std: float
    noise_std: float
    probe_std: float
    sums_sensitivity: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            (checks.check_not_negative if name == "sums_sensitivity" else checks.check_positive)(name, value)

    @property
    def gaussian_parts(self) -> list[float]:
        """Noise over sensitivity of every Gaussian mechanism in here, for `privacy.adaptive.gdp`."""
        sums = [] if self.sums_sensitivity == 0 else [1 / self.sums_sensitivity]
        return [self.histogram_std, self.noise_std, self.probe_std, *sums]

    @property
    def squared_budget(self) -> dict[str, float]:
        """The squared Gaussian budget by what it is spent on."""
        return {
            "histogram": 1 / self.histogram_std**2,
            "counts": 1 / self.noise_std**2 + 1 / self.probe_std**2,
            "sums": self.sums_sensitivity**2,
        }

    @property
    def largest_std(self) -> float:
        """The noise on a count at the largest norm that a unit can be allowed."""
        return math.sqrt(LARGEST_CAP) * max(self.noise_std, self.probe_std)


def share_counts(mu: float, tuning: Tuning, sums_budget: float) -> tuple[CountNoise, float]:
    """The noise on counts, histogram and sums at a Gaussian budget mu, and the share of mu^2 that is left to the selection."""
    counts = tuning.counts(sums_budget)
    one_count = mu * math.sqrt(counts / (1 + tuning.probe_share + sums_budget))
    noise = CountNoise(
        histogram_std=1 / (mu * math.sqrt(tuning.histogram_share)),
        noise_std=1 / one_count,
        probe_std=1 / (one_count * math.sqrt(tuning.probe_share)),
        sums_sensitivity=math.sqrt(sums_budget) * one_count * (1 + 2.0**-48),  # past the rounding of weights and of 1/x
    )
    return noise, 1 - counts - tuning.histogram_share
