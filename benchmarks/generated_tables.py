"""Generated tables of many kinds, on which the constants of the adaptive release were chosen: nothing of anybody's data.

Kinds differ in how many groups units have (from one each to hundreds, with light and heavy tails, with a handful of very heavy
units among light ones), in how many groups there are and how fast they get smaller (Zipf-like), and in whether heavy units are
in the same groups as light ones, rather in the large, or rather in the small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True, eq=False)
class Data:
    """Distinct pairs of units and groups."""

    name: str
    unit: Codes
    group: Codes

    @property
    def units(self) -> int:
        """How many units."""
        return int(self.unit.max()) + 1

    @property
    def groups(self) -> int:
        """How many groups."""
        return int(self.group.max()) + 1

    @property
    def true(self) -> NDArray[np.int64]:
        """Units per group."""
        return np.bincount(self.group, minlength=self.groups).astype(np.int64)


def _with_heavy(degrees: Floats, rng: Random, heavy: int) -> Floats:
    degrees[:heavy] = rng.integers(100, 600, heavy)
    return degrees


KINDS: dict[str, Callable[[int, Random], Floats]] = {
    "one group each": lambda n, rng: np.ones(n),
    "mostly one, heavy tail": lambda n, rng: rng.zipf(2.2, n).clip(max=2000).astype(np.float64),
    "mostly one, 60 very heavy": lambda n, rng: _with_heavy(rng.zipf(3.0, n).clip(max=50).astype(np.float64), rng, 60),
    "two or three": lambda n, rng: np.asarray(rng.poisson(1.5, n) + 1.0, np.float64),
    "a few": lambda n, rng: np.ceil(rng.lognormal(1.1, 0.7, n)),
    "a few, heavy tail": lambda n, rng: np.ceil(2 * (1 - rng.random(n)) ** (-1 / 1.6)).clip(max=3000),
    "many": lambda n, rng: np.ceil(rng.lognormal(2.5, 1.1, n)),
    "very many": lambda n, rng: np.ceil(rng.lognormal(3.8, 1.0, n)),
}

SHAPES = ((20_000, 20_000, 1.0), (20_000, 4_000, 0.8), (60_000, 2_000, 1.3))
"""Units, groups, slope."""

LEANINGS = {"alike": 0.0, "heavy units in large groups": 0.3, "heavy units in small groups": -0.3}
"""How much steeper than for the others the sizes of groups fall, as the heaviest tenth of units sees them."""


def generated(seed: int = 20, fewer: int = 1) -> Iterator[Data]:
    """Every kind in every shape, the leanings taking turns; `fewer` divides the number of units."""
    turn = 0
    for kind, draw in KINDS.items():
        for units, groups, slope in SHAPES:
            leaning = list(LEANINGS)[turn % len(LEANINGS)]
            turn += 1 if groups != SHAPES[-1][1] else 2  # a Latin square: each kind meets each leaning
            rng = np.random.default_rng([seed, turn])
            name = f"{kind}; {units // fewer:,} × {groups:,}, slope {slope}; {leaning}"
            yield table(name, draw(units // fewer, rng), groups, slope, LEANINGS[leaning], rng)


def table(name: str, degrees: Floats, groups: int, slope: float, leaning: float, rng: Random) -> Data:
    """Each unit draws as many groups as it has degrees, some of them more than once."""
    wanted = degrees.clip(max=4 * groups).astype(np.int64)
    heavy = np.repeat(wanted > np.quantile(wanted, 0.9), wanted)
    unit = np.repeat(np.arange(len(wanted)), wanted)
    group = np.empty(len(unit), np.int64)
    for members, steepness in ((~heavy, slope), (heavy, slope + leaning)):
        weights = np.arange(1, groups + 1.0) ** -steepness
        edges = np.cumsum(weights) / weights.sum()
        group[members] = np.searchsorted(edges, rng.random(int(members.sum()))).clip(max=groups - 1)
    pairs = np.unique(unit * groups + group)
    unit, group = pairs // groups, np.unique(pairs % groups, return_inverse=True)[1]
    return Data(name, unit.astype(np.int32), group.astype(np.int32))
