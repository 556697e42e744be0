"""A sampler that writes down every law it is asked for, and gives noise of which each number can be told from all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from dphist.noise import exact, sampling
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian

Integers: TypeAlias = NDArray[np.int64]
Noise: TypeAlias = Callable[[int, int], Integers]


@dataclass(frozen=True, eq=False)
class Draw:
    """A law, and the noise that was given for it."""

    law: Law
    noise: Integers


def distinct(position: int, size: int) -> Integers:
    """Numbers that no other draw has."""
    return np.asarray(100 * (position + 1) + np.arange(size), np.int64)


def silence(position: int, size: int) -> Integers:
    """No noise at all."""
    return np.zeros(size, np.int64)


@contextmanager
def recorded(noise: Noise = distinct) -> Iterator[list[Draw]]:
    """Every draw of the package inside this block, in order. `noise` makes the numbers from the draw's number and size."""
    draws: list[Draw] = []

    def sample(law: Law, n: int) -> Integers:
        draws.append(Draw(law, noise(len(draws), n)))
        return draws[-1].noise.copy()

    originals = {"sample": sampling.sample, "sample_exactly": exact.sample_exactly}
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            for function, original in originals.items():
                if name.startswith("dphist.") and vars(module).get(function) is original:
                    patch.setattr(module, function, sample)
        yield draws


def weaker(law: Law, part: float = 0.9) -> Law:
    """The law with this part of the noise. What mutants draw from."""
    if isinstance(law, RoundedGaussian):
        return replace(law, std=law.std * Fraction(part))
    if isinstance(law, DiscreteGaussian):
        return replace(law, variance=law.variance * Fraction(part) ** 2)
    if isinstance(law, DiscreteLaplace):
        return replace(law, scale=law.scale * Fraction(part))
    return replace(law, epsilon=law.epsilon / Fraction(part))
