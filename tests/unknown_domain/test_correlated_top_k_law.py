"""The output law of correlated top-k, enumerated on its lattice for neighbouring data sets, both directions.

The outcome is everything the mechanism lets out: which groups pass, their noisy residuals and the noisy base. Its law given
the common noise is a product, so that the whole law is a sum over the common noise. Unlike in Theorem 8, the order of equal
counts plays no role here: what is equal to the (k+1)-th count has no residual and is never noised.
"""

import math
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from dphist.audit.laws import Floats, both_ways, top
from dphist.mechanisms import CorrelatedTopK
from dphist.noise.testing import SeededEntropy
from dphist.privacy.correlated_gaussian import CommonNoise, tight_bound
from dphist.privacy.gaussian import delta_gaussian
from word_sources import words_from

EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0)
TINY = 1e-8
"""The noise is cut at more than six standard deviations, a mass of less than 1e-8."""

State = tuple[tuple[int, ...], int]
"""The residuals of the groups that have one in either data set, and the base."""


def rounded(std: float, bits: int) -> tuple[Floats, Floats]:
    """Whole steps within six standard deviations and their chances under N(0, std^2) rounded to the lattice."""
    steps = std * 2**bits
    reach = math.ceil(6.2 * steps)
    z = np.arange(-reach, reach + 1)
    return z, ndtr((z + 0.5) / steps) - ndtr((z - 0.5) / steps)


def chance(z: Floats, pmf: Floats, at: Floats) -> Floats:
    """P(Z = at), 0 outside."""
    place = np.asarray(at - z[0], np.int64)
    return np.where((place >= 0) & (place < len(z)), pmf[np.clip(place, 0, len(z) - 1)], 0.0)


@lru_cache(maxsize=4096)
def law(made: CorrelatedTopK, state: State, threshold: float) -> Floats:
    """The chances of (hidden or a value, for each residual; noisy base), on one grid for all states of a test."""
    residuals, base = state
    bits, s = made.lattice_bits, made.independent_std
    own, own_pmf = rounded(s, bits)
    common, common_pmf = rounded(s * math.sqrt(made.correlation), bits)
    of_base, base_pmf = rounded(s * math.sqrt(made.base_variance), bits)
    limit = int(threshold * 2**bits)
    visible = np.arange(limit + 1, (FAR + 1) * 2**bits + int(own[-1] + common[-1]) + 1)
    total = np.ones((len(common), 1))
    for residual in residuals:
        if residual == 0:
            each = np.zeros((len(common), len(visible) + 1))
            each[:, 0] = 1.0
        else:
            seen = chance(own, own_pmf, visible[None, :] - residual * 2**bits - common[:, None])
            each = np.column_stack([1.0 - seen.sum(axis=1), seen])
        total = (total[:, :, None] * each[:, None, :]).reshape(len(common), -1)
    bases = np.arange(of_base[0] - common[-1], of_base[-1] + common[-1] + 2**bits + 1)
    shown = chance(of_base, base_pmf, bases[None, :] - base * 2**bits + common[:, None])
    found = (total.T @ (common_pmf[:, None] * shown)).ravel()
    assert abs(found.sum() - 1) < TINY
    return found


FAR = 14
"""A residual so far above every threshold here that the group is always released: the worst place for the noise."""


def neighbouring_states(labels: str, k: int, levels: tuple[int, ...], most: int) -> set[tuple[State, State]]:
    """(without, with) over all data sets with counts of these levels and one unit in at most `most` groups.

    A base common to both is left out: it shifts the outcome and nothing else.
    """
    found = set()
    for counts in product(levels, repeat=len(labels)):
        for unit in product((0, 1), repeat=len(labels)):
            if not 0 < sum(unit) <= most:
                continue
            sets = []
            for each in (counts, tuple(c + u for c, u in zip(counts, unit, strict=True))):
                listed, base = top(dict(zip(labels, each, strict=True)), k)
                sets.append(({label: c - base for label, c in listed.items() if c > base}, base))
            (few, base), (more, other) = sets
            seen = sorted(set(few) | set(more))
            assert len(seen) <= k  # Lemma 4.1: one unit moves residuals all up or all down
            pair = sorted((few.get(label, 0), more.get(label, 0)) for label in seen)
            found.add(((tuple(a for a, _ in pair), 0), (tuple(b for _, b in pair), other - base)))
    return found


def worst(made: CorrelatedTopK, states: set[tuple[State, State]], epsilon: float, threshold: float) -> float:
    laws = ((law(made, a, threshold), law(made, b, threshold)) for a, b in states)
    return max(both_ways(p, q, epsilon) for p, q in laws)


ONE = CorrelatedTopK(1, 1.0, 0.8, 0.9, 4.5, lattice_bits=2)
LIGHT_BASE = CorrelatedTopK(1, 1.1, 0.3, 2.0, 4.0, lattice_bits=2)
TWO = CorrelatedTopK(2, 1.0, 0.7, 0.7, 4.0, lattice_bits=1)


@pytest.mark.parametrize(
    ("made", "labels", "levels"),
    [(ONE, "ABC", (0, 1, 2, FAR)), (LIGHT_BASE, "ABC", (0, 1, 3, FAR)), (TWO, "ABC", (0, 1, FAR))],
)
def test_the_guarantee_holds_on_all_small_neighbours(
    made: CorrelatedTopK, labels: str, levels: tuple[int, ...]
) -> None:
    states = neighbouring_states(labels, made.k, levels, len(labels))
    for epsilon in EPSILONS:
        exact, claimed = worst(made, states, epsilon, made.threshold), made.delta(epsilon)
        assert exact <= claimed + TINY
        assert exact > 0.5 * claimed  # what is claimed is not far from what is true


def test_a_threshold_one_count_lower_fails() -> None:
    """Also three steps of the lattice lower; the claim is that of the right threshold, where new groups decide."""
    for made, labels, lower in [(ONE, "AB", 1.0), (TWO, "ABC", 1.0), (ONE, "AB", 0.75)]:
        states = neighbouring_states(labels, made.k, (0, 1), len(labels))
        assert worst(made, states, 4.0, made.threshold) <= made.delta(4.0)
        assert worst(made, states, 4.0, made.threshold - lower) > made.delta(4.0)


def test_a_bound_on_the_groups_of_a_unit_may_not_be_used() -> None:
    """A unit in one group raises the base, and every residual falls: the claim for one moved counter or base is false."""
    made = CorrelatedTopK(2, 1.2, 0.2, 2.0, 6.0, lattice_bits=1)
    block, inverse = 1 / made.base_variance, 1 / made.correlation
    total = made.k + block + inverse
    moved = max(weight - weight**2 / total for weight in (1.0, block)) + total * 2.0 ** (-2 * made.lattice_bits) / 4
    mu = math.sqrt(moved) / made.independent_std
    common = CommonNoise(made.correlation, made.gap / made.independent_std, 1)
    states = neighbouring_states("ABC", 2, (0, 1, FAR), most=1)
    for epsilon in (0.3, 1.0):
        wrong = tight_bound(epsilon, lambda new: np.full(np.shape(new), mu), common, 1)
        assert wrong < worst(made, states, epsilon, made.threshold) <= made.delta(epsilon) + TINY


def test_the_base_moves_with_the_new_groups() -> None:
    """Neither the noise alone nor new groups alone: where all residuals vanish because the base rises, both count."""
    made = CorrelatedTopK(1, 1.0, 0.8, 0.9, 2.5, lattice_bits=4)
    states: set[tuple[State, State]] = {(((1,), 0), ((0,), 1))}
    step = 2.0**-made.lattice_bits
    total = 1 + 1 / made.base_variance + 1 / made.correlation
    for epsilon in (0.8, 1.0):
        infinity = float(
            CommonNoise(made.correlation, made.gap / made.independent_std, 1).delta_infinity(np.array([1]))[0]
        )
        sensitivity = max(w - w**2 / total for w in (0.0, 1.0, 1 / made.base_variance, 1 + 1 / made.base_variance))
        noise = float(delta_gaussian(math.sqrt(sensitivity + total * step**2 / 4) / made.independent_std, epsilon))
        exact = worst(made, states, epsilon, made.threshold)
        assert max(infinity, noise) < exact <= made.delta(epsilon) + TINY


def test_the_enumerated_law_is_what_is_drawn() -> None:
    """Hidden or not against the sign of the base's noise, chi-square, alpha = 1e-6, n = 1,500; half a count off is rejected."""
    n, counts = 1500, np.array([24, 20], np.int64)
    seen = np.zeros((2, 2))
    with words_from(SeededEntropy(8)):
        for _ in range(n):
            kept, base = ONE.perturb(counts)
            seen[len(kept.index), int(base > 20 << ONE.lattice_bits)] += 1

    def statistic(threshold: float) -> float:
        exact = law(ONE, ((4,), 0), threshold).reshape(-1, _bases(ONE))
        middle = (_bases(ONE) - 2**ONE.lattice_bits) // 2
        halves = np.column_stack([exact[:, : middle + 1].sum(axis=1), exact[:, middle + 1 :].sum(axis=1)])
        expected = n * np.vstack([halves[0], halves[1:].sum(axis=0)])
        return float(np.sum((seen - expected) ** 2 / expected))

    assert statistic(ONE.threshold) < chi2.isf(1e-6, 3)
    assert statistic(ONE.threshold - 0.5) > chi2.isf(1e-6, 3)


def _bases(made: CorrelatedTopK) -> int:
    """How many values the noisy base has on the grid: 2 m + 1 about 0, and one count more."""
    reach = [
        rounded(made.independent_std * math.sqrt(c), made.lattice_bits)[0][-1]
        for c in (made.correlation, made.base_variance)
    ]
    return int(2 * sum(reach) + 1 + 2**made.lattice_bits)
