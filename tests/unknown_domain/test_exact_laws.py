"""Enumerated output laws of neighbours, both directions: every guarantee holds, and every known error of the paper fails."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from records import GaussianRecords, LaplaceRecords

from dphist.audit.laws import (
    aligned,
    both_ways,
    from_top_law,
    hockey_stick,
    joint,
    neighbours,
    ranked_law,
    released,
    three_rounds,
    top,
)
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.from_top import FromTop
from dphist.mechanisms.ranked import Ranked
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian
from dphist.noise.tails import log_max_tail, log_pmf
from dphist.privacy import ranked, unknown_domain
from dphist.privacy.gaussian import delta_gaussian, quantile_for_infinity
from example_numbers import some

EPSILONS = (0.0, 0.3, 1.0, 2.0, 4.0, 8.0)
TINY = 1e-12


# Theorem 7


@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceRecords(2, 2, 2.0, 8.0),
        LaplaceRecords(2, 1, 1.0, 3.0),
        GaussianRecords(2, 2, 3.0, 9.0, discrete=True),
        GaussianRecords(2, 1, 1.0, 3.0, discrete=True),
    ],
)
def test_theorem_7_on_all_kinds_of_neighbours(mechanism: LaplaceRecords | GaussianRecords) -> None:
    law = DiscreteLaplace(Fraction(mechanism.scale)) if isinstance(mechanism, LaplaceRecords) else mechanism.law
    assert not hasattr(law, "lattice_bits")
    most, threshold = mechanism.max_per_group, int(mechanism.threshold)
    reach = 60
    for counts in [(0, 0), (0, 1), (0, threshold), (1, 1), (1, 9), (20, 20), (threshold, 20)]:
        for unit in [(most, most), (most, 0), (0, most), (1, most)]:
            laws = [
                joint([released(c, law, threshold, -reach, reach + 20) for c in each])
                for each in (counts, tuple(c + u for c, u in zip(counts, unit, strict=True)))
            ]
            for epsilon in EPSILONS:
                assert both_ways(laws[0], laws[1], epsilon) <= mechanism.delta(epsilon) + TINY


def test_theorem_7_with_the_threshold_rounded_down_fails() -> None:
    std, groups, delta = 5.0, 10, 1e-6
    exact = 1 + std * quantile_for_infinity(delta, groups)
    for threshold, holds in [(math.ceil(exact), True), (math.floor(exact), False)]:
        hidden = released(1, DiscreteGaussian(Fraction(25)), threshold, -80, 80)[0]
        seen = -math.expm1(groups * math.log(hidden))  # groups that are there only with the unit
        assert (seen <= delta) is holds


def test_theorem_7_rounded_gaussian_is_exact_in_both_directions() -> None:
    """One new group and one shared one, far above the threshold: the profile is attained."""
    mechanism = GaussianRecords(2, 3, 6.0, 16.0)
    fine = np.linspace(-80, 80, 64001)
    step = fine[1] - fine[0]
    density = np.exp(-((fine / 6) ** 2) / 2) / (6 * math.sqrt(2 * math.pi)) * step
    shifted = np.exp(-(((fine - 3) / 6) ** 2) / 2) / (6 * math.sqrt(2 * math.pi)) * step
    from scipy.special import ndtr

    hidden = float(ndtr((16 - 3) / 6))
    for epsilon in (0.2, 0.5, 1.0):
        mixed = 0.0
        for p, q in [(density, shifted), (shifted, density)]:
            out = hockey_stick(np.append(p * hidden, 1 - hidden), np.append(q, 0.0), epsilon)
            back = hockey_stick(np.append(q, 0.0), np.append(p * hidden, 1 - hidden), epsilon)
            mixed = max(mixed, out, back)
        both = max(
            mixed,
            1 - hidden**2,
            hockey_stick(np.multiply.outer(density[::40], density[::40]).ravel() * 1600,
                         np.multiply.outer(shifted[::40], shifted[::40]).ravel() * 1600, epsilon),
        )  # fmt: skip
        assert both <= mechanism.delta(epsilon) * (1 + 1e-4)
        assert both >= mechanism.delta(epsilon) * (1 - 1e-3)


# Theorem 8


def _worst_from_top(mechanism: FromTop, law: Law, labels: str, largest: int) -> dict[float, float]:
    """The largest hockey-stick divergence over all small neighbours, either way, with noise of this law."""
    most, threshold = mechanism.most_groups, mechanism.threshold
    high = threshold + largest + mechanism.max_per_group + 5
    worst = dict.fromkeys((*EPSILONS, 3.0), 0.0)
    for without, with_unit in neighbours(labels, largest, mechanism.max_groups or 3, mechanism.max_per_group):
        (few, base), (more, other) = top(without, most), top(with_unit, most)
        seen = sorted(set(few) | set(more))
        p = from_top_law(few, base, seen, law, threshold, high)
        q = from_top_law(more, other, seen, law, threshold, high)
        for epsilon in worst:
            worst[epsilon] = max(worst[epsilon], both_ways(p, q, epsilon))
    return worst


LISTS = [(1, 1, 1, 0.8, 3), (1, None, 1, 0.8, 3), (2, 1, 1, 0.8, 3), (1, 1, 2, 1.1, 5), (2, 2, 1, 0.7, 2)]


@pytest.mark.parametrize(
    ("most", "max_groups", "max_per_group", "std", "threshold", "rounded"),
    [*((*one, True) for one in LISTS), *some([(*one, False) for one in LISTS], 2)],
)
def test_theorem_8_on_all_small_neighbours(
    most: int, max_groups: int | None, max_per_group: int, std: float, threshold: int, rounded: bool
) -> None:
    mechanism = FromTop(most, std, threshold, max_groups, max_per_group, rounded)
    for epsilon, exact in _worst_from_top(mechanism, mechanism.law, "ABC", 2 if most == 1 else 1).items():
        assert exact <= mechanism.delta(epsilon) + 1e-9
        assert epsilon < 8 or exact > mechanism.delta_infinity() / 3


def test_theorem_8_for_rounded_noise_is_refuted_with_less_noise_a_lower_threshold_or_a_smaller_shift() -> None:
    """One group is exchanged, and the next largest count moves as well: d(1) alone, as if nothing else moved, is too small."""
    mechanism = FromTop(1, 0.8, 3, 1, rounded=True)
    exact = _worst_from_top(mechanism, mechanism.law, "AB", 2)
    assert all(value <= mechanism.delta(epsilon) + 1e-9 for epsilon, value in exact.items())
    less = _worst_from_top(mechanism, RoundedGaussian(Fraction(0.72), 0), "AB", 2)
    assert any(value > mechanism.delta(epsilon) for epsilon, value in less.items())
    lower = FromTop(1, 0.8, 2, 1, rounded=True)
    assert any(v > mechanism.delta(e) for e, v in _worst_from_top(lower, mechanism.law, "AB", 2).items())
    alone = {epsilon: max(mechanism.delta_infinity(), float(delta_gaussian(1 / 0.8, epsilon))) for epsilon in exact}
    assert any(value > 1.05 * alone[epsilon] for epsilon, value in exact.items())


def test_theorem_8_with_arbitrary_ties_fails() -> None:
    """All counts are equal; an order that depends on the data exchanges the whole list when one unit comes."""
    most, std = 100, 20.0
    law = DiscreteGaussian(Fraction(std) ** 2)
    threshold = next(t for t in range(1, 400) if FromTop(most, std, t, max_groups=1).delta_infinity() <= 1e-6)
    claimed = FromTop(most, std, threshold, max_groups=1).delta_infinity()
    # every label of one list is missing in the other: what is released of it tells the two apart
    leak = math.exp(log_max_tail(law, law, threshold, most))
    assert leak > 40 * claimed
    # the label order keeps the lists together, and m = most_groups would be enough for any order
    assert leak <= FromTop(most, std, threshold, max_groups=None).delta_infinity()


def test_theorem_8_enumerated_with_an_order_of_ties_that_follows_the_data_fails() -> None:
    """Nine groups of one unit each, another unit comes to the ninth: the other listed ones may not be exchanged as well.

    The outcome is which groups are released, enumerated: given the noisy threshold they are independent.
    """
    mechanism = FromTop(4, 8.0, 30, max_groups=1)
    law = DiscreteGaussian(Fraction(64))
    x = np.arange(-80, 81)
    chances = np.exp(log_pmf(law, x))
    seen = {c: np.array([chances[x + c > limit].sum() for limit in x + 1 + mechanism.threshold]) for c in (1, 2)}

    def sets(listed: dict[str, int]) -> dict[object, float]:
        found: dict[object, float] = {}
        for shown in product((False, True), repeat=len(listed)):
            parts = [seen[c] if s else 1 - seen[c] for s, c in zip(shown, listed.values(), strict=True)]
            labels = frozenset(label for label, s in zip(listed, shown, strict=True) if s)
            found[labels] = float(np.sum(chances * np.prod(parts, axis=0)))
        return found

    without, by_label, by_data = (
        dict.fromkeys("abcd", 1),
        {"i": 2, "a": 1, "b": 1, "c": 1},
        {"i": 2, "e": 1, "f": 1, "g": 1},
    )
    for epsilon in (1.0, 2.0, 4.0):
        claimed = mechanism.delta(epsilon)
        assert both_ways(*aligned(sets(without), sets(by_label)), epsilon) <= claimed
        assert both_ways(*aligned(sets(without), sets(by_data)), epsilon) > 2 * claimed


def _cut_elsewhere(counts: dict[str, int], most: int) -> tuple[dict[str, int], int]:
    """The list when a source cuts equal counts by another order of the keys (here backwards) than the list itself."""
    order = sorted((label for label, c in counts.items() if c > 0), reverse=True)
    cut = sorted(order, key=lambda label: -counts[label])[: most + 1]
    return top({label: counts[label] for label in cut}, most)


@pytest.mark.parametrize("listed_by", [top, _cut_elsewhere])
def test_theorem_8_needs_one_more_moved_group_than_the_list_has(
    listed_by: Callable[[dict[str, int], int], tuple[dict[str, int], int]],
) -> None:
    """l2 distance of (list, threshold) over all small neighbours: min(max_groups, most + 1), attained."""
    for most in (1, 2, 3):
        for max_groups in (1, 2, 3, 4):
            largest = 0
            for without, with_unit in neighbours("ABCD", 2, max_groups, 1):
                (few, base), (more, other) = listed_by(without, most), listed_by(with_unit, most)
                # a label that is in one list only is covered by the good event; it must be within one of the base
                for label in set(few) ^ set(more):
                    listed, least = (few, base) if label in few else (more, other)
                    assert listed[label] - least <= 1
                assert len(set(more) - set(few)) <= unknown_domain.new_groups(most, max_groups)
                assert len(set(few) - set(more)) <= unknown_domain.new_groups(most, max_groups)
                moved = sum((few[label] - more[label]) ** 2 for label in set(few) & set(more)) + (base - other) ** 2
                largest = max(largest, moved)
            assert largest <= unknown_domain.moved_groups(most, max_groups)


# Theorems 9 and 10


@pytest.mark.parametrize(
    ("mechanism", "labels", "largest"),
    [
        (Ranked(2, 2, 0.7, 5), "ABC", 3),
        (Ranked(3, 2, 0.7, 5), "ABC", 2),
        (Ranked(1, 3, 1.5, 3), "ABC", 3),
        (Ranked(2, 1, 0.8, 6, max_per_group=2), "ABC", 2),
        (Ranked(2, 2, 0.8, 5, max_per_group=2), "ABC", 2),
    ],
)
def test_theorem_9_on_all_small_neighbours(mechanism: Ranked, labels: str, largest: int) -> None:
    worst = dict.fromkeys((0.0, 0.2, 0.5, 1.0, 2.0), 0.0)
    for without, with_unit in neighbours(labels, largest, len(labels), mechanism.max_per_group):
        p, q = aligned(_ranked(mechanism, without), _ranked(mechanism, with_unit))
        for epsilon in worst:
            worst[epsilon] = max(worst[epsilon], both_ways(p, q, epsilon))
    for epsilon, exact in worst.items():
        assert exact <= mechanism.delta(epsilon) + TINY
        assert exact > mechanism.delta(epsilon) / 100


def _ranked(mechanism: Ranked, counts: dict[str, int], threshold: int | None = None) -> dict[object, float]:
    listed, base = top(counts, mechanism.shortlist)
    stop = base + (mechanism.threshold if threshold is None else threshold)
    coefficient = mechanism.symbol_epsilon / mechanism.max_per_group
    return dict(ranked_law(listed, stop, coefficient, mechanism.symbols))


def test_theorem_9_ties_may_be_arbitrary() -> None:
    """Whatever list of two an order of ties allows on either side, the claim holds."""
    mechanism = Ranked(2, 2, 0.7, 5)

    def lists(counts: dict[str, int]) -> list[dict[object, float]]:
        order = sorted(counts.values(), reverse=True)
        base = order[2]
        possible = [
            dict(pair)
            for pair in combinations(((label, c) for label, c in counts.items()), 2)
            if sorted((c for _, c in pair), reverse=True) == order[:2]
        ]
        coefficient = mechanism.symbol_epsilon
        return [dict(ranked_law({k: c for k, c in one.items() if c > 0}, base + 5, coefficient, 2)) for one in possible]

    for without, with_unit in neighbours("ABCD", 1, 4, 1):
        for one in lists(without):
            for other in lists(with_unit):
                p, q = aligned(one, other)
                for epsilon in (0.0, 0.5, 1.0):
                    assert both_ways(p, q, epsilon) <= mechanism.delta(epsilon) + TINY


def test_theorem_10_with_a_threshold_that_ignores_max_per_group_fails() -> None:
    """Two groups that exist only because of a unit with two records in each; the paper's T is 1 + ln(k/delta)/e."""
    e, delta, most = 1.0, 1e-3, 2
    scaled = ranked.smallest_threshold(delta, e, most, 2)
    unscaled = math.ceil(ranked.threshold_paper(delta, e, most, 1))
    for threshold, holds in [(scaled, True), (unscaled, False)]:
        law = ranked_law({"A": 2, "B": 2}, threshold, e / 2, 1)
        seen = sum(chance for symbols, chance in law.items() if symbols != ("STOP",))
        assert (seen <= delta * (1 + 1e-9)) is holds


def test_theorem_10_over_two_queries_that_adapt() -> None:
    """Two queries of one symbol each on the same groups, the second about other groups if the first said STOP."""
    mechanism = Ranked(2, 1, 0.9, 4, queries=2)
    for without, with_unit in neighbours("AB", 3, 2, 1):
        laws = []
        for counts in (without, with_unit):
            joint_law: dict[object, float] = {}
            one = Ranked(1, 1, 0.9, 4)
            for first, p in _ranked(one, counts).items():
                flipped = {"C": counts["B"], "D": counts["A"]} if first == ("STOP",) else counts
                for second, q in _ranked(one, flipped).items():
                    joint_law[(first, second)] = p * q
            laws.append(joint_law)
        p_all, q_all = aligned(laws[0], laws[1])
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            assert both_ways(p_all, q_all, epsilon) <= mechanism.delta(epsilon) + TINY


# Theorem 11


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(("std", "threshold"), [(1.0, 4), (1.4, 6)])
def test_theorem_11_over_three_rounds(std: float, threshold: int, rounded: bool) -> None:
    mechanism = ContinualCounts(3, 1, std, threshold, rounded)
    for epsilon, exact in _worst_of_three_rounds(mechanism, mechanism.law).items():
        assert exact <= mechanism.delta(epsilon) + 1e-10
    if rounded:
        less = _worst_of_three_rounds(mechanism, RoundedGaussian(Fraction(0.8 * std), 0))
        assert any(exact > mechanism.delta(epsilon) for epsilon, exact in less.items())


def _worst_of_three_rounds(mechanism: ContinualCounts, law: Law) -> dict[float, float]:
    worst, threshold = dict.fromkeys((0.0, 0.5, 1.5, 3.0, 6.0), 0.0), mechanism.threshold
    for others in [
        (0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 2), (3, 4, 5), (threshold, threshold + 1, threshold + 2), (20, 20, 20)
    ]:  # fmt: skip
        for event in (1, 2, 3):
            with_event = tuple(c + (t >= event) for t, c in enumerate(others, 1))
            p, q = aligned(three_rounds(others, law, threshold, 8), three_rounds(with_event, law, threshold, 8))
            for epsilon in worst:
                worst[epsilon] = max(worst[epsilon], both_ways(p, q, epsilon))
    return worst


@pytest.mark.parametrize("rounded", [False, True])
def test_theorem_11_one_step_below_the_threshold_fails(rounded: bool) -> None:
    """The chance that a group of one event is shown in some round, exactly, against the delta it was chosen for."""
    std, delta = 1.4, 2e-4
    least = next(t for t in range(1, 60) if ContinualCounts(3, 1, std, t, rounded).delta_infinity() <= delta)
    for threshold, holds in [(least, True), (least - 1, False)]:
        law = three_rounds((1, 1, 1), ContinualCounts(3, 1, std, threshold, rounded).law, threshold, 12)
        assert (1 - law[(None, None, None)] <= delta) is holds
