"""Counts and noise on a lattice: what is drawn, what passes a threshold, and what lies on it exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.noise import RoundedGaussian, sample
from dphist.noise.laws import Law

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

MOST_LATTICE_BITS: Final = 40
MOST_CORRELATION: Final = 1e6
LEAST_CORRELATION: Final = 1e-300
"""Below it 1/correlation, which formulas have, is no double."""

LARGEST_COUNT: Final = 2**40
"""A public limit on the units of one group: with up to 20 lattice bits and any noise a plan can have, int64 is enough."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The positions of released groups and their noisy counts, in steps of 2^-lattice_bits. Holds no true count."""

    index: Integers
    noisy: Integers
    lattice_bits: int

    @property
    def counts(self) -> Floats:
        """The noisy counts as numbers; exact below 2^53 steps."""
        return np.ldexp(self.noisy.astype(np.float64), -self.lattice_bits)


def add_noise(counts: Integers, law: Law, lattice_bits: int, shared: int = 0) -> Integers:
    """count + noise (+ a noise that all share), in lattice steps. Counts are saturated at the public limit first."""
    noisy = np.minimum(counts, LARGEST_COUNT) << lattice_bits
    noisy += sample(law, len(counts))
    noisy += shared
    return noisy


def above(noisy: Integers, eligible: Integers, threshold: float, lattice_bits: int) -> Kept:
    """Keep noisy counts strictly above a threshold on the lattice. With lattice noise, >= would be a leak."""
    passed = noisy > int(threshold * 2**lattice_bits)
    return Kept(eligible[passed], noisy[passed], lattice_bits)


def enforce_sparsity(counts: Integers, sparsity: int) -> Integers:
    """Subtract the (sparsity + 1)-th largest count from all and cut at 0: at most `sparsity` stay positive.

    Lemma 4.1 of [LR25]: the result moves by a 0/1 vector or its negative when one unit comes or goes, in up to `sparsity`
    places, whatever order equal counts stand in.
    """
    if len(counts) <= sparsity:
        return counts
    place = len(counts) - sparsity - 1
    return np.asarray(np.maximum(counts - np.partition(counts, place)[place], 0))


def shared_noise(independent_std: float, correlation: float, lattice_bits: int) -> int:
    """One draw of N(0, correlation * independent_std^2) on the lattice; 0 without correlation.

    The double nearest to sqrt(correlation) * independent_std stands for the shared noise: its square is off by at most
    a few 1e-16, which the rounding allowance of the profile covers.
    """
    law = common_law(independent_std, correlation, lattice_bits)
    return 0 if law is None else int(sample(law, 1)[0])


def common_law(independent_std: float, correlation: float, lattice_bits: int) -> RoundedGaussian | None:
    """The law of the noise that all groups share; None without correlation."""
    return RoundedGaussian(Fraction(math.sqrt(correlation) * independent_std), lattice_bits) if correlation else None


def round_up_to_lattice(value: float, lattice_bits: int) -> float:
    """The smallest multiple of 2^-lattice_bits that is not below value; exact in a double up to 2^53 steps."""
    return _on_lattice(math.ceil(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def round_down_to_lattice(value: float | Fraction, lattice_bits: int) -> float:
    """The largest multiple of 2^-lattice_bits that is not above value: for a threshold that is fixed already."""
    return _on_lattice(math.floor(Fraction(value) * 2**lattice_bits), lattice_bits, value)


def _on_lattice(steps: int, lattice_bits: int, value: float | Fraction) -> float:
    if abs(steps) > 2**53:
        most = f"a threshold of at most 2^{53 - lattice_bits} on this lattice"
        raise InvalidParameter(most, f"{float(value):g}", "a coarser lattice")
    return math.ldexp(steps, -lattice_bits)


def check_threshold(threshold: float, low_threshold: int, lattice_bits: int) -> None:
    """A threshold not below low_threshold, on a lattice that divides a half."""
    checks.check_positive("threshold", threshold)
    check_lattice(lattice_bits)
    if threshold < low_threshold:
        raise InvalidParameter(f"a threshold of at least low_threshold = {low_threshold}", threshold)
    if round_up_to_lattice(threshold, lattice_bits) != threshold:
        raise InvalidParameter(f"a threshold that is a multiple of 2^-{lattice_bits}", threshold, "round it up.")


def check_lattice(lattice_bits: int) -> None:
    """A lattice that divides a half and leaves room for counts in 64 bits."""
    checks.check_whole("lattice_bits", lattice_bits)
    if lattice_bits > MOST_LATTICE_BITS:
        raise InvalidParameter(f"lattice_bits of at most {MOST_LATTICE_BITS}", lattice_bits)


def check_correlation(correlation: float) -> None:
    """A correlation >= 0 that is not absurd."""
    checks.check_not_negative("correlation", correlation)
    if correlation > MOST_CORRELATION:
        raise InvalidParameter(f"a correlation of at most {MOST_CORRELATION:g}", correlation)
    if 0 < correlation < LEAST_CORRELATION:
        raise InvalidParameter(f"a correlation of 0, or of at least {LEAST_CORRELATION:g}", correlation)
