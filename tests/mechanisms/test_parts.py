"""A mechanism part by part: the same law, whatever the parts; what is shared is drawn once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dphist.mechanisms import CorrelatedGaussian, KnownGroups, LaplaceThreshold, SparseGaussian
from dphist.mechanisms.discrete import DiscreteCorrelatedGaussian, DiscreteGaussianThreshold
from dphist.mechanisms.lattice import enforce_sparsity
from dphist.noise.testing import SeededEntropy
from word_sources import words_from

COUNTS = np.array([40, 9, 0, 55, 7, 12, 30, 2], np.int64)
MECHANISMS = {
    "sparse": SparseGaussian(3, 2.0, 9.0),
    "laplace": LaplaceThreshold(max_groups=3, scale=2.0, threshold=9.0),
    "discrete": DiscreteGaussianThreshold(3, 2.0, 9.0),
    "correlated": CorrelatedGaussian(4, 4, 2.0, 0.5, 9.0),
    "discrete correlated": DiscreteCorrelatedGaussian(4, Fraction(16), Fraction(8), 9.0),
    "known": KnownGroups(8, 3, 2.0, 0.5),
}


class ZeroEntropy:
    def words(self, count: int) -> np.typing.NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


@pytest.mark.parametrize("name", MECHANISMS)
def test_parts_of_groups_without_noise_are_the_whole(name: str) -> None:
    mechanism: Any = MECHANISMS[name]
    most = mechanism.sparsity
    sparse = COUNTS if most is None else enforce_sparsity(COUNTS, most)
    with words_from(ZeroEntropy()):
        shared = mechanism.draw_shared()
        whole = mechanism.perturb(COUNTS)
        parts = [mechanism.perturb_part(part, shared) for part in np.array_split(sparse, 3)]
    starts = np.cumsum([0, *(len(part) for part in np.array_split(sparse, 3))])
    index = np.concatenate([start + part.index for start, part in zip(starts, parts, strict=False)])
    assert index.tolist() == whole.index.tolist()
    assert np.concatenate([part.noisy for part in parts]).tolist() == whole.noisy.tolist()


@pytest.mark.parametrize("name", ["correlated", "discrete correlated", "known"])
def test_parts_share_one_noise_and_draw_their_own(name: str) -> None:
    """alpha = 1e-6 per mechanism, n = 600 releases of two parts: correlation c/(1 + c) between them, and not 0."""
    mechanism: Any = MECHANISMS[name]
    many = np.array([1000], np.int64)
    pairs = []
    for seed in range(600):
        with words_from(SeededEntropy(seed)):
            shared = mechanism.draw_shared()
            pairs.append([int(mechanism.perturb_part(many, shared).noisy[0]) for _ in range(2)])
    found = np.arctanh(np.corrcoef(np.array(pairs).T)[0, 1]) * np.sqrt(len(pairs) - 3)
    expected = np.arctanh(mechanism.correlation / (1 + mechanism.correlation)) * np.sqrt(len(pairs) - 3)
    assert abs(found - expected) < stats.norm.isf(5e-7)
    assert abs(found) > stats.norm.isf(5e-7)
