"""Noise on a public list of groups: nothing to hide, no threshold. Gaussian noise, or Laplace noise with no delta at all."""

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
from dphist.mechanisms.base import Builder, GroupMechanism
from dphist.mechanisms.correlated_gaussian import correlated_lattice_bits, correlated_mu
from dphist.mechanisms.laplace import LaplaceNoise, scale_of_std
from dphist.mechanisms.lattice import (
    LARGEST_COUNT,
    Integers,
    Kept,
    add_noise,
    check_correlation,
    check_lattice,
    common_law,
)
from dphist.mechanisms.surcharge import UP, error_of_draws, round_up, target_delta, with_sampler_error
from dphist.noise import DiscreteLaplace, RoundedGaussian, add_exactly
from dphist.noise.laws import Law
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

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Noise for some of the listed groups."""
        noisy = add_noise(counts, self.law, self.lattice_bits, shared)
        return Kept(np.arange(len(counts)), noisy, self.lattice_bits)

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
    strategies: ClassVar[frozenset[str]] = frozenset({"list"})

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
        if request.delta > 0 and request.noise == "rounded":
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

    @property
    def law(self) -> RoundedGaussian:
        """Each group's own noise, rounded."""
        return RoundedGaussian(Fraction(self.independent_std), self.lattice_bits)

    @property
    def common(self) -> RoundedGaussian | None:
        """The common noise of one release, rounded."""
        return common_law(self.independent_std, self.correlation, self.lattice_bits)

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


@proved("[DMNS06] Proposition 1")
@dataclass(frozen=True, slots=True)
class KnownLaplace(LaplaceNoise, ListedGroups):
    """Discrete Laplace noise on every group of a public list, drawn without any sampler error.

    [DMNS06] Proposition 1: one unit moves max_groups counts by one, and their sums by their sensitivity: a pure epsilon of
    max_groups (1/scale + sums_epsilon), so delta is exactly 0 from there on. Noisy values are cut to a public range,
    which is post-processing.
    """

    name: ClassVar[str] = "known-laplace"
    strategies: ClassVar[frozenset[str]] = frozenset({"list"})
    analysis = "pure"
    theorem = "[DMNS06] Proposition 1 for discrete Laplace noise"

    groups: int
    max_groups: int
    scale: float
    sums_epsilon: float = 0.0

    def __post_init__(self) -> None:
        self._check_groups()
        checks.check_positive("scale", self.scale)
        checks.check_not_negative("sums_epsilon", self.sums_epsilon)
        _ = self.law  # checks the size

    @classmethod
    def for_request(cls, request: Request) -> Iterator[Builder]:
        """For a dense list of keys, unless it asks for noise that groups share."""
        if request.correlation is None:
            yield partial(known_laplace, request)

    def perturb_part(self, counts: Integers, shared: int) -> Kept:
        """Own noise for some of the listed groups. Counts are saturated at the public limit first."""
        noisy = add_exactly(np.minimum(counts, LARGEST_COUNT), self.law)
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
