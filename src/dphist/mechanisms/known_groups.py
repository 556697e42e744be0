"""Noise on a public list of groups: nothing to hide, no threshold."""

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
from dphist.mechanisms.base import (
    UP,
    Builder,
    GroupMechanism,
    Integers,
    Kept,
    add_noise,
    check_correlation,
    check_lattice,
    error_of_draws,
    shared_noise,
    target_delta,
    with_sampler_error,
)
from dphist.mechanisms.correlated_gaussian import correlated_lattice_bits, correlated_mu
from dphist.noise import RoundedGaussian
from dphist.privacy import correlated_design as design
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy.events import ApproximateEvent, Event, GaussianEvent

if TYPE_CHECKING:
    from dphist.planning.request import Request


class ListedGroups(GroupMechanism):
    """Noise on every group of a public list, also where nobody is in it; all of them are released."""

    __slots__ = ()
    threshold = low_threshold = gap = sparsity = None

    if TYPE_CHECKING:

        @property
        def groups(self) -> int:
            """How many are listed."""

    def _check_groups(self) -> None:
        checks.check_whole("the number of public keys", self.groups)
        checks.check_whole("max_groups", self.max_groups)
        if self.max_groups > self.groups:
            raise InvalidParameter(f"max_groups of at most the {self.groups} listed keys", self.max_groups)

    @property
    def assumption(self) -> str:
        """What must hold for the data."""
        if self.groups == 1:
            return "there is one group, which is public, and each unit is counted in it once (a release enforces it)"
        return (
            f"the list of {self.groups:,} keys is public, other keys are dropped, and each unit is counted in at most"
            f" {self.max_groups:,} groups (a release enforces it)"
        )

    def perturb(self, counts: Integers) -> Kept:
        """Noise every listed group, the empty ones too; all are kept."""
        if len(counts) != self.groups:
            raise InvalidParameter(f"the counts of all {self.groups} listed groups", len(counts))
        return GroupMechanism.perturb(self, counts)

    def misfits(self, request: Request) -> list[str]:
        """Why this is not what the request paid for."""
        listed = [] if self.groups == request.keys else ["the number of public keys differs"]
        return [*GroupMechanism.misfits(self, request), *listed]


@proved("[BW18] Theorem 8")
@dataclass(frozen=True, slots=True)
class KnownGroups(ListedGroups):
    """Every group of a public list gets N(0, s^2) of its own plus one common N(0, c s^2), also where nobody is in it.

    s = independent_std, c = correlation. [LR25] Lemma 2.8 with a free correlation and contribution bound.

    Example:
        >>> dp.KnownGroups(groups=100, max_groups=1, independent_std=6.0).delta(1.0) < 1e-8
        True
    """

    name: ClassVar[str] = "known-groups"

    groups: int
    max_groups: int
    independent_std: float
    correlation: float = 0.0
    sums_sensitivity: float = 0.0
    lattice_bits: int = 10

    def __post_init__(self) -> None:
        self._check_groups()
        checks.check_positive("independent_std", self.independent_std)
        check_correlation(self.correlation)
        checks.check_not_negative("sums_sensitivity", self.sums_sensitivity)
        check_lattice(self.lattice_bits)

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For a dense list of keys: with the best correlation, and with none."""
        if not request.thresholded and request.delta > 0 and request.noise == "rounded":
            yield from (partial(known_groups, request, correlated=correlated) for correlated in (True, False))

    @property
    def analysis(self) -> str:
        """Whether the common noise is used."""
        return "correlated" if self.correlation > 0 else "independent"

    @property
    def theorem(self) -> str:
        """Where the analysis is stated."""
        return "[BW18] Theorem 8" + (" with the sensitivity of [LR25] Lemma 2.8" if self.correlation > 0 else "")

    @property
    def noise_std(self) -> float:
        """The total noise on one count: s sqrt(1 + c)."""
        return self.independent_std * math.sqrt(1 + self.correlation)

    def draw_shared(self) -> int:
        """The common noise of one release, in lattice steps."""
        return shared_noise(self.independent_std, self.correlation, self.lattice_bits)

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise for some of the listed groups."""
        own = RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)
        noisy = add_noise(counts, own, self.lattice_bits, shared)
        return Kept(np.arange(len(counts)), noisy, self.lattice_bits)

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        return with_sampler_error(self.delta_noise, epsilon, self.groups)

    def delta_noise(self, epsilon: float) -> float:
        """The part of the noise alone: all of it."""
        return csh.delta_gauss(
            epsilon,
            sparsity=self.groups,
            max_groups=self.max_groups,
            independent_std=self.independent_std,
            correlation=self.correlation,
            sums_sensitivity=self.sums_sensitivity,
            lattice_step=2.0**-self.lattice_bits,
        )

    @property
    def noise_event(self) -> Event:
        """That of correlated noise without a threshold: nothing but the sampler's error is left as d."""
        return ApproximateEvent(GaussianEvent(correlated_mu(self, self.groups)), 0.0, error_of_draws(self.groups))


def known_groups(request: Request, *, correlated: bool) -> KnownGroups:
    """Gaussian noise on a public list of groups, with the best correlation or none."""
    assert request.keys is not None
    bits = correlated_lattice_bits(request.keys)
    setting = design.Setting(
        epsilon=request.mechanism_epsilon,
        target_delta=target_delta(request),
        sparsity=request.keys,
        max_groups=request.groups_per_unit,
        sums_budget=request.sums_budget,
        lattice_step=2.0**-bits,
        weight=math.inf,
    )
    correlation = 0.0
    if correlated:
        correlation = request.correlation if request.correlation is not None else design.quietest_correlation(setting)
    independent_std = design.smallest_independent_std(setting, correlation)
    if request.noise_std is not None:
        asked = request.noise_std / math.sqrt(1 + correlation)
        if asked < independent_std:
            raise Infeasible(
                f"noise_std of at least {independent_std * math.sqrt(1 + correlation):.6g}", f"{request.noise_std:.6g}"
            )
        independent_std = asked
    return KnownGroups(
        groups=request.keys,
        max_groups=setting.max_groups,
        independent_std=independent_std,
        correlation=correlation,
        sums_sensitivity=math.sqrt(setting.sums_ratio(correlation)) / independent_std * UP,
        lattice_bits=bits,
    )
