"""Which accountant for how many releases: what each leaves for one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dphist import checks
from dphist.privacy import filters
from dphist.privacy.filters import ACCOUNTANTS, Accountant
from dphist.privacy.gaussian import largest_mu


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The noise of one of `releases` equal releases under each accountant: Gaussian, on a count, one group per unit."""

    releases: int
    noise_std: dict[Accountant, float]

    @property
    def accountant(self) -> Accountant:
        """The one with the least noise."""
        return min(self.noise_std, key=self.noise_std.__getitem__)

    def __str__(self) -> str:
        best = self.noise_std[self.accountant]
        plural = "s" if self.releases > 1 else ""
        lines = [f"{self.releases:,} equal release{plural} of counts, one group per unit, Gaussian noise:", ""]
        for name, std in self.noise_std.items():
            more = "recommended" if name == self.accountant else f"+{100 * (std / best - 1):.1f} %"
            lines.append(f"  {name:<6}  noise std {std:10.4g}   {more}")
        return "\n".join(
            [*lines, "", "  zcdp is for spends with discrete noise, or known as rho: gdp pays more for those."]
        )


def recommend(epsilon: float, delta: float, releases: int, delta_share: float = filters.DELTA_SHARE) -> Recommendation:
    """Compare the accountants for `releases` equal releases.

    basic gives each epsilon/n and delta/n, for which the exact analysis of one group needs noise for the whole delta/n; gdp and
    zcdp give each an n-th of their limits.
    """
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
    checks.check_whole("the number of releases", releases)
    found: dict[Accountant, float] = {}
    for name in ACCOUNTANTS:
        if name == "basic":
            found[name] = 1 / largest_mu(epsilon / releases, delta / releases)
        else:
            noise = filters.value(filters.limit(name, epsilon, delta, delta_share).noise)
            squared = noise if name == "gdp" else 2 * noise
            found[name] = math.sqrt(releases / squared)
    return Recommendation(releases, found)
