"""Gaussian noise on whole counts, by either of two laws: what lists from the top and streams share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Mechanism
from dphist.mechanisms.surcharge import COST_UP
from dphist.noise import DiscreteGaussian, RoundedGaussian
from dphist.privacy.composition import smallest_std
from dphist.privacy.events import ConcentratedEvent, Event, GaussianEvent
from dphist.privacy.gaussian import largest_mu

_MOST_DISCRETE_STD: Final = 2.0
_Kind = TypeVar("_Kind", bound="WholeGaussian")


class WholeGaussian(Mechanism):
    """A mechanism with noise of one law on counts that stay whole.

    rounded: N(0, noise_std^2) rounded to whole numbers. Counts are whole, so rounding is post-processing and the exact profile
    of the Gaussian holds. Calibration gives it, but for very little noise. Otherwise a discrete Gaussian, accounted for by
    zCDP, which needs more of it.
    """

    __slots__ = ()
    theorem_number: ClassVar[int]

    if TYPE_CHECKING:
        noise_std: float
        rounded: bool

        @property
        def rho(self) -> float:
            """The zCDP parameter of the noise."""

    def _check_noise(self) -> None:
        checks.check_positive("noise_std", self.noise_std)
        if not isinstance(self.rounded, bool):
            raise InvalidParameter("true or false as rounded", repr(self.rounded))
        _ = self.law  # checks the size

    @property
    def law(self) -> RoundedGaussian | DiscreteGaussian:
        """What is drawn on one count."""
        std = Fraction(self.noise_std)
        return RoundedGaussian(std, 0) if self.rounded else DiscreteGaussian(std**2)

    @property
    def count_std(self) -> float:
        """The standard deviation of one draw: exact for rounded noise; that of a discrete Gaussian is a little smaller."""
        return RoundedGaussian(Fraction(self.noise_std), 0).drawn_std if self.rounded else self.noise_std

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        if self.rounded:
            return (
                f"[Rogers24] Theorem {self.theorem_number}, corrected, with the exact profile of Gaussian noise [BW18]"
            )
        law = "for discrete Gaussian noise and converted by [CKS20] Proposition 7"
        return f"[Rogers24] Theorem {self.theorem_number}, corrected, {law}"

    @property
    def _whole_event(self) -> Event:
        """The noise alone: mu^2 = 2 rho if it is rounded; else rho, and no mu of its own."""
        return GaussianEvent(math.sqrt(2 * self.rho) * COST_UP) if self.rounded else ConcentratedEvent(self.rho)


def least_std(epsilon: float, target_delta: float, squared: int, rounded: bool) -> float:
    """The least noise_std, rounded up, with which the noise alone meets the target; one unit moves counts by sqrt(squared)."""
    if rounded:
        return math.sqrt(squared) / largest_mu(epsilon, target_delta) * COST_UP
    return smallest_std(epsilon, target_delta, squared / 2)


def best_of_laws(
    calibrate: Callable[[float, bool], _Kind], shares: Sequence[float], objective: Callable[[_Kind], float]
) -> _Kind:
    """The best of both laws and some shares of delta for the noise; the discrete law only where it can be the better one.

    Its profile by zCDP is never below that of the Gaussian. Its tails are lighter, but at a noise_std of 2 by less than that.
    """
    best = min((calibrate(share, True) for share in shares), key=objective)
    if best.noise_std >= _MOST_DISCRETE_STD:
        return best
    return min(best, *(calibrate(share, False) for share in shares), key=objective)
