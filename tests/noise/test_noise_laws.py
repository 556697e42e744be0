from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dphist.errors import DphistError, InvalidParameter
from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    TruncatedDiscreteLaplace,
    largest_value,
    require_headroom,
    sample,
)

EXTREMES: list[Law] = [
    RoundedGaussian(Fraction(1 << 45), 0),
    RoundedGaussian(Fraction(1, 1 << 40), 0),
    RoundedGaussian(Fraction(1 << 25), 20),
    DiscreteGaussian(Fraction(1 << 90)),
    DiscreteGaussian(Fraction(1, 1 << 80)),
    DiscreteLaplace(Fraction(1 << 45)),
    DiscreteLaplace(Fraction(1, 1 << 40)),
    TruncatedDiscreteLaplace(Fraction(1, 1 << 45), 1 << 61),
    TruncatedDiscreteLaplace(Fraction(1 << 40), 0),
    TruncatedDiscreteLaplace(Fraction(1 << 40), 1 << 61),
]


@pytest.mark.parametrize("law", EXTREMES)
def test_the_extremes_that_are_allowed_work_and_stay_in_range(law: Law) -> None:
    samples = sample(law, 1000)
    assert int(np.abs(samples).max()) <= largest_value(law) < 1 << 62
    assert pickle.loads(pickle.dumps(law)) == law


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        (RoundedGaussian, (Fraction(1 << 45) + 1, 0)),
        (RoundedGaussian, (Fraction(1 << 26), 20)),
        (RoundedGaussian, (Fraction(1, 1 << 41), 0)),
        (RoundedGaussian, (Fraction(0), 10)),
        (RoundedGaussian, (Fraction(-1), 10)),
        (RoundedGaussian, (Fraction(1), -1)),
        (RoundedGaussian, (Fraction(1), 53)),
        (RoundedGaussian, (Fraction(1), 1.5)),
        (RoundedGaussian, (Fraction(1), True)),
        (RoundedGaussian, (1.5, 10)),
        (RoundedGaussian, (True, 10)),
        (DiscreteGaussian, (Fraction(0),)),
        (DiscreteGaussian, ((1 << 90) + 1,)),
        (DiscreteGaussian, (Fraction(1, 1 << 81),)),
        (DiscreteGaussian, (float("nan"),)),
        (DiscreteLaplace, (0,)),
        (DiscreteLaplace, ((1 << 45) + 1,)),
        (DiscreteLaplace, ("1",)),
        (TruncatedDiscreteLaplace, (0, 10)),
        (TruncatedDiscreteLaplace, (Fraction(1, 1 << 46), 10)),
        (TruncatedDiscreteLaplace, ((1 << 40) + 1, 10)),
        (TruncatedDiscreteLaplace, (1, -1)),
        (TruncatedDiscreteLaplace, (1, (1 << 61) + 1)),
        (TruncatedDiscreteLaplace, (1, 2.0)),
    ],
)
def test_what_is_outside_the_public_limits_is_refused_at_construction(law: Any, parameters: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        law(*parameters)
    assert isinstance(caught.value, DphistError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).startswith("Expected ")


def test_parameters_are_exact_and_frozen() -> None:
    law = DiscreteLaplace(3)  # type: ignore[arg-type]
    assert law.scale == Fraction(3)
    assert isinstance(law.scale, Fraction)
    assert law == DiscreteLaplace(Fraction(3))
    with pytest.raises(FrozenInstanceError):
        law.scale = Fraction(4)  # type: ignore[misc]
    assert RoundedGaussian(Fraction(3, 4), 2).lattice_std == 3


@pytest.mark.parametrize("n", [-1, 1.0, True, None, (1 << 40) + 1])
def test_sample_size_must_be_a_whole_number(n: Any) -> None:
    with pytest.raises(InvalidParameter, match="n as an int"):
        sample(DiscreteGaussian(Fraction(1)), n)


def test_headroom_is_checked_from_public_limits() -> None:
    law = RoundedGaussian(Fraction(1000), 20)
    room = (1 << 63) - 1 - largest_value(law)
    require_headroom(law, room)
    require_headroom(law, room - largest_value(law), terms=2)
    with pytest.raises(InvalidParameter, match="coarser lattice"):
        require_headroom(law, room + 1)
    with pytest.raises(InvalidParameter, match="2 noise terms"):
        require_headroom(law, room, terms=2)


def test_the_limit_that_the_design_promises_holds() -> None:
    """|count| < 2^(61 − k) leaves room for two noises on the lattice 2^−k."""
    for bits in (0, 10, 20):
        require_headroom(RoundedGaussian(Fraction(10**6), bits), 1 << 61, terms=2)
