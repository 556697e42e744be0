"""Laplace noise on a public list of groups: a pure epsilon, with no delta at all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dphist import checks
from dphist.checks import proved
from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms.base import LARGEST_COUNT, Builder, Integers, Kept, round_up
from dphist.mechanisms.known_groups import ListedGroups
from dphist.mechanisms.laplace import LaplaceNoise, scale_of_std
from dphist.noise import DiscreteLaplace, add_exactly
from dphist.noise.laws import Law
from dphist.privacy.events import Event

if TYPE_CHECKING:
    from dphist.planning.request import Request


@proved("[DMNS06] Proposition 1")
@dataclass(frozen=True, slots=True)
class KnownLaplace(LaplaceNoise, ListedGroups):
    """Discrete Laplace noise on every group of a public list, drawn without any sampler error.

    [DMNS06] Proposition 1: one unit moves max_groups counts by one, and their sums by their sensitivity: a pure epsilon of
    max_groups (1/scale + sums_epsilon), so delta is exactly 0 from there on. Noisy values are cut to a public range,
    which is post-processing.
    """

    name: ClassVar[str] = "known-laplace"
    analysis = "pure"
    theorem = "[DMNS06] Proposition 1 for discrete Laplace noise"
    lattice_bits = 0
    independent_std = correlation = None

    groups: int
    max_groups: int
    scale: float
    sums_epsilon: float = 0.0

    def __post_init__(self) -> None:
        self._check_groups()
        checks.check_positive("scale", self.scale)
        checks.check_not_negative("sums_epsilon", self.sums_epsilon)
        DiscreteLaplace(Fraction(self.scale))

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For a dense list of keys, unless it asks for noise that groups share."""
        if not request.thresholded and request.correlation is None:
            yield partial(known_laplace, request)

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise for some of the listed groups. Counts are saturated at the public limit first."""
        noisy = add_exactly(np.minimum(counts, LARGEST_COUNT), DiscreteLaplace(Fraction(self.scale)))
        return Kept(np.arange(len(counts)), noisy, 0)

    def perturb_sums(self, steps: Integers, law: Law) -> Integers:
        """Exact noise on sums, too."""
        assert isinstance(law, DiscreteLaplace)
        return add_exactly(steps, law)

    @property
    def _rounding(self) -> float:
        """One step; or scale ln 2, which is less for little noise: P(|Z| > x) <= 2 exp(-x/scale), by the geometric sum."""
        return min(1.0, self.scale * math.log(2))

    def delta(self, epsilon: float) -> float:
        """That of the noise: there is no threshold, and the sampler has no error."""
        return self.delta_noise(epsilon)

    @property
    def noise_event(self) -> Event:
        """Pure noise, and no d."""
        return self.pure_event


def known_laplace(request: Request) -> KnownLaplace:
    """Discrete Laplace noise of the smallest scale on a public list, or of the noise asked for.

    The epsilon that is met is the double below the one asked for: a ledger reads it in decimals.
    """
    assert request.keys is not None
    groups, weight = request.groups_per_unit, 1 + request.sums_budget
    scale = groups * weight / math.nextafter(request.mechanism_epsilon, 0.0) * (1 + 4e-16 * (3 + len(request.measures)))
    if request.noise_std is not None:
        asked = scale_of_std(request.noise_std)
        if asked < scale:
            least = KnownLaplace(request.keys, groups, scale).noise_std
            raise Infeasible(f"noise_std of at least {least:.6g} for laplace", f"{request.noise_std:.6g}")
        scale = asked
    sums = round_up(sum(Fraction(aggregate.weight) for aggregate in request.measures) / Fraction(scale))
    mechanism = KnownLaplace(groups=request.keys, max_groups=groups, scale=scale, sums_epsilon=sums)
    try:
        mechanism.noisy(request.measures)
    except InvalidParameter:
        raise Infeasible("Laplace noise that can be drawn on sums", "none", "use less extreme weights.") from None
    return mechanism
