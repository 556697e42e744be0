"""What a mechanism lets through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dphist.noise import Entropy, RoundedGaussian, sample
from dphist.noise.laws import Law

Integers = NDArray[np.int64]

LARGEST_COUNT = 2**40
"""A public limit on the units of one group: with up to 20 lattice bits and any noise a plan can have, int64 is enough."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The positions of released groups and their noisy counts, in steps of 2^-lattice_bits. Holds no true count."""

    index: Integers
    noisy: Integers
    lattice_bits: int

    @property
    def counts(self) -> NDArray[np.float64]:
        """The noisy counts as numbers; exact below 2^53 steps."""
        return np.ldexp(self.noisy.astype(np.float64), -self.lattice_bits)


def add_noise(counts: Integers, law: Law, lattice_bits: int, entropy: Entropy | None, common: int = 0) -> Integers:
    """count + noise (+ a noise common to all), in lattice steps. Counts are saturated at the public limit first."""
    noisy = np.minimum(counts, LARGEST_COUNT) << lattice_bits
    noisy += sample(law, len(counts), entropy)
    noisy += common
    return noisy


def above(noisy: Integers, eligible: Integers, threshold: float, lattice_bits: int) -> Kept:
    """Those strictly above a threshold that lies on the lattice: with lattice noise, >= would be a leak."""
    passed = noisy > int(threshold * 2**lattice_bits)
    return Kept(eligible[passed], noisy[passed], lattice_bits)


def draw_common(law: RoundedGaussian, entropy: Entropy | None) -> int:
    """The noise that all groups share, drawn once."""
    return int(sample(law, 1, entropy)[0])
