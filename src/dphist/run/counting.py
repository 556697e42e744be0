"""Counting the selected groups, whose keys are public by now: no threshold, all of a unit's records in them.

A unit in many selected groups would be counted with a large norm. A private histogram says how many units have which norm; from
it classes are chosen, with a bound for each, the last one above nearly all units. Every class is counted by itself, with noise
for its bound, and all units are counted together, heavy ones scaled down to the bound of a lighter class. Large groups, which
can afford it, get smaller weights from the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.aggregates.tree import Bins, NoisyQuantiles, noisy_quantiles
from dphist.engines.base import NOISY_VALUE, Arrays, Groups, Integers, OnGroups, PairsByUnit, Rows
from dphist.mechanisms import GroupMechanism
from dphist.mechanisms.counts import CountNoise, sum_shift
from dphist.mechanisms.tuning import LARGEST_CAP, LATTICE_BITS, ONE, SCALE_BITS, Tuning
from dphist.noise import sample
from dphist.run.sizes import RoundSums, known_columns, round_sums

Floats = NDArray[np.float64]

CENTRES: Final = 2.0 ** np.arange(-6, 15)
"""Octaves of norms, from 1/64 to 2^14: a unit outside is put into the nearest."""

UPPER: Final = CENTRES * 2**0.5
"""The buckets' upper ends."""


def edges(power: int) -> Integers:
    """The buckets' lower ends as exact integers, in units of 2^-(WEIGHT_BITS power)."""
    return np.asarray(np.floor(CENTRES / 2**0.5 * ONE**power), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """How many units have which norm, in buckets, with variances; and the first and the last bucket that was seen."""

    units: Floats
    variances: Floats
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Classes:
    """How units are divided by their norms, which are sums of weights to the given power. Public by then.

    bounds: the largest norm of each class, in units of 2^-(WEIGHT_BITS power); what is beyond the last is scaled down to it.
    light: how many of the classes are light: they have half of all units, and are taken together in sums. whole: how many of
    them are not scaled down in the count of scaled units.
    """

    bounds: tuple[int, ...]
    light: int
    power: int
    whole: int

    @property
    def sizes(self) -> Floats:
        """The bounds as numbers. Exact."""
        return np.array(self.bounds) / float(ONE**self.power)

    def factors(self, noise: CountNoise) -> tuple[int, ...]:
        """What each class is scaled with in the count of scaled units, in steps of 2^-SCALE_BITS."""
        return tuple(noise.scaled_factor(self.bounds[self.whole - 1], bound) for bound in self.bounds)

    @property
    def scaled_bound(self) -> float:
        """The bound of every unit in the count of scaled units: that of the last class that is whole.

        The lighter it is, the less noise has the count of scaled units, and the more does it depend on a group's mix.
        """
        return float(self.sizes[self.whole - 1])

    @property
    def most_in_trees(self) -> int:
        """In how many of the selected groups the records of a unit count for quantiles: as many as light units are in.

        The noise of every tree is for so many; a unit in more of them takes part in as many, drawn at random.
        """
        return min(max(math.ceil(self.split_bounds[0]), 1), LARGEST_CAP)

    @property
    def split_bounds(self) -> tuple[float, float]:
        """The bounds of the light and of the heavy units in sums."""
        return float(self.sizes[self.light - 1]), float(self.sizes[-1])


@dataclass(frozen=True, slots=True)
class Trees:
    """Which quantiles are read off the tree of each measure of bins, and the level of their intervals."""

    probabilities: Mapping[str, tuple[float, ...]]
    level: float | None

    @property
    def names(self) -> list[str]:
        """The names of the columns between noise and table."""
        return [name for measure in self.probabilities for kind in self._kinds for name in self._rows(kind, measure)]

    @property
    def _kinds(self) -> tuple[str, ...]:
        return ("values", "std_errors", "totals", *(() if self.level is None else ("low", "high")))

    def _rows(self, kind: str, measure: str) -> list[str]:
        """Numbered: names from outside do not suit every file format."""
        tree = list(self.probabilities).index(measure)
        return [f"{NOISY_VALUE}{kind}_{tree}_{position}" for position in range(len(self.probabilities[measure]))]

    def columns(self, measure: str, noisy: NoisyQuantiles) -> dict[str, Floats]:
        """The quantiles of a measure as these columns."""
        tables = {kind: getattr(noisy, kind) for kind in self._kinds}
        return {
            name: row
            for kind, table in tables.items()
            for name, row in zip(self._rows(kind, measure), table, strict=True)
        }

    def read(self, groups: Arrays) -> dict[str, NoisyQuantiles]:
        """The quantiles from these columns."""
        found = {}
        for measure in self.probabilities:
            tables = [np.stack([groups[name] for name in self._rows(kind, measure)]) for kind in self._kinds]
            found[measure] = NoisyQuantiles(*tables, *([None] * (5 - len(tables))))
        return found


def noise_trees(
    noise: CountNoise, classes: Classes, noisy: NoisyMeasure, bins: Bins, trees: Trees | None
) -> dict[str, Floats]:
    """The quantiles of some of the selected groups, from trees with noise for units in `most_in_trees` of them."""
    tree, law = noisy.measure.tree, noise.sum_law(noisy, classes.most_in_trees, 0)
    assert trees is not None, "a plan with bins has probabilities"
    assert tree is not None
    asked = trees.probabilities[noisy.name]
    return trees.columns(noisy.name, noisy_quantiles(bins, tree, law, asked, trees.level))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyCounts:
    """What counting publishes of all selected groups, in lattice steps. Holds no true value.

    scaled: the count of scaled units. by_class: one column for each class. sums: of light and of heavy units, by aggregate.
    rounds: what the rounds have told of the groups, if there were any.
    """

    weights: Integers
    norms: Norms
    classes: Classes
    scaled: Integers
    by_class: Integers
    sums: Mapping[str, tuple[Integers, Integers]] = field(default_factory=dict)
    rounds: RoundSums | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """What is known of the units' norms, and the classes that were chosen, by a mechanism. Public by then."""

    norms: Norms
    classes: Classes
    mechanism: GroupMechanism | None = None

    def noisy_counts(self, names: Sequence[str], groups: Arrays) -> NoisyCounts:
        """The noisy numbers of all groups, as estimates need them."""
        sums = {name: (groups[f"light_{i}"], groups[f"heavy_{i}"]) for i, name in enumerate(names, 1)}
        by_class = np.stack([groups[name] for name in class_names(len(self.classes.bounds))], axis=1)
        rounds = None if self.mechanism is None else round_sums(self.mechanism, groups)
        return NoisyCounts(groups["weight"], self.norms, self.classes, groups["scaled"], by_class, sums, rounds)


def class_names(number: int) -> list[str]:
    """The names of the columns with counts of classes."""
    return [f"class_{position}" for position in range(1, number + 1)]


def sum_names(number: int) -> list[str]:
    """The names of the columns with sums of light and heavy units."""
    return [f"{kind}_{position}" for position in range(1, number + 1) for kind in ("light", "heavy")]


def count(
    mechanism: GroupMechanism,
    pairs: PairsByUnit,
    selected: Groups,
    aggregates: Sequence[NoisyMeasure] = (),
    trees: Trees | None = None,
) -> tuple[Groups, Counting]:
    """Histogram of norms, choice of classes, noisy counts and sums; with them what the rounds have told of the groups."""
    noise, tuning = mechanism.counts, mechanism.tuning
    assert noise is not None
    known = known_columns(mechanism)
    weights = selected.together(weigh_groups(mechanism, noise), ("weight", "norm", *known))
    exact = pairs.norm_histogram(weights, edges(noise.power), noise.power)
    norms = noise_norms(noise, tuning, exact, float(weights.sum_of("norm")))
    classes = choose_classes(norms, noise.power, tuning)
    shifts = [sum_shift(noisy.measure) for noisy in aggregates if noisy.measure.tree is None]
    counted = pairs.by_class(weights, classes.bounds, classes.light, classes.power, shifts, classes.most_in_trees)
    names = ["weight", *known, "scaled", *class_names(len(classes.bounds)), *sum_names(len(shifts))]
    names += [] if trees is None else trees.names
    work = noise_classes(noise, classes, aggregates, trees, known)
    return counted.each(work, names), Counting(norms, classes, mechanism)


def weigh_groups(mechanism: GroupMechanism, noise: CountNoise) -> OnGroups:
    """The weights of the selected groups in the counts, from their sizes by the rounds or by the look of an election, and what
    they add to a norm; beside the sums of the rounds.
    """

    def weigh(groups: Arrays) -> Rows:
        rounds = round_sums(mechanism, groups)
        sizes = np.ldexp(groups["first"].astype(np.float64), -LATTICE_BITS) if rounds is None else rounds.sizes
        weights = group_weights(sizes, mechanism.tuning)
        known = {name: groups[name] for name in known_columns(mechanism)}
        return Rows(np.arange(len(weights)), {"weight": weights, "norm": weights**noise.power, **known})

    return weigh


def group_weights(noisy_sizes: Floats, tuning: Tuning) -> Integers:
    """a = min(1, q/y)^(1/4), y noisy sizes and q their tenth percentile: from published values alone.

    Noise costs a small group more than a large one, so the large ones lend their share of the norm. Rounded down to the
    lattice, at least one step. (The power and the quantile are those of `tuning`.)
    """
    if len(noisy_sizes) == 0:
        return np.zeros(0, np.int64)
    least = max(float(np.quantile(noisy_sizes, tuning.size_quantile)), 2.0**-LATTICE_BITS)
    ratio = least / np.maximum(noisy_sizes, least)
    for _ in range(tuning.weight_roots):
        ratio = np.sqrt(ratio)
    return np.asarray(np.maximum(np.floor(ratio * ONE), 1), np.int64)


def noise_norms(noise: CountNoise, tuning: Tuning, exact: Integers, most: float) -> Norms:
    """Noise on the buckets: each unit is in one public bucket, so one unit changes one of them by one.

    most: the norm of all selected groups together, which is public: no unit can have more.
    """
    noisy = (exact << LATTICE_BITS) + sample(noise.histogram_law(), len(exact))
    std = noise.std(noise.histogram_noise)
    return norms_from(np.ldexp(noisy.astype(np.float64), -LATTICE_BITS), std, most / ONE**noise.power, tuning)


def norms_from(noisy: Floats, std: float, largest: float, tuning: Tuning) -> Norms:
    """From a noisy histogram. largest: a public bound on any unit's norm, all weights together.

    Behind the last bucket that was seen each one is expected to hold a part of what the one before it does; its noisy value is
    weighed against that. Few very heavy units, spread over some buckets, are seen if they are together.
    """
    possible = np.concatenate([[True], UPPER[:-1] <= largest])
    seen = np.flatnonzero(possible & (noisy >= tuning.histogram_cut * std))
    together = np.cumsum((noisy * possible)[::-1])[::-1]
    deviations = std * np.sqrt(np.maximum(np.cumsum(possible[::-1])[::-1], 1))
    seen_together = np.flatnonzero(possible & (together >= tuning.histogram_cut * deviations))
    last = max([0, *seen[-1:], *seen_together[-1:]])
    first = min([last, *seen[:1]])
    units, variances = np.where(possible, noisy, 0.0), np.where(possible, std**2, 0.0)
    before = max(float(noisy[last]), 0.0)
    for place in range(last + 1, int(possible.sum())):
        expected = tuning.tail_decay * before
        believed = expected**2 + (tuning.tail_doubt * std) ** 2
        trust = believed / (believed + std**2)
        units[place] = expected + trust * (noisy[place] - expected)
        variances[place] = trust * std**2
        before = max(float(units[place]), 0.0)
    return Norms(units, variances, int(first), int(last))


def choose_classes(norms: Norms, power: int, tuning: Tuning) -> Classes:
    """Octaves up to one above the last bucket that was seen, as far as any unit can be and as counting allows.

    The light classes are those with half of all units; after rounds, which have Gaussian noise, more of them are whole.
    """
    possible = np.flatnonzero((norms.variances > 0) & (UPPER <= LARGEST_CAP))
    top = min(norms.last + 1, int(possible[-1]))
    places = np.arange(min(norms.first, top), top + 1)
    bounds = np.floor(UPPER[places] * ONE**power).astype(np.int64)
    units = np.maximum(norms.units, 0.0)
    light, whole = (
        min(int(np.searchsorted(np.cumsum(units)[places], units.sum() * share)) + 1, len(bounds))
        for share in (0.5, tuning.whole_share if power == 2 else 0.5)
    )
    return Classes(tuple(bounds.tolist()), light, power, whole)


def noise_classes(
    noise: CountNoise,
    classes: Classes,
    aggregates: Sequence[NoisyMeasure],
    trees: Trees | None = None,
    known: Sequence[str] = (),
) -> OnGroups:
    """Fresh noise on the counts and sums of some of the selected groups: each group by itself. known: columns that stay."""
    factors, names = classes.factors(noise), class_names(len(classes.bounds))

    def add_noise_to_counts(groups: Arrays) -> Rows:
        size = len(groups["weight"])
        scaled = sum(
            (groups[name] * factor for name, factor in zip(names, factors, strict=True)), np.zeros(size, np.int64)
        )
        scaled_law = noise.scaled_law(classes.scaled_bound)
        columns = {name: groups[name] for name in ("weight", *known)}
        columns["scaled"] = scaled + sample(scaled_law, size)
        for name, bound in zip(names, classes.sizes, strict=True):
            columns[name] = groups[name] + sample(noise.class_law(float(bound)), size)
        for position, noisy in enumerate(aggregates, 1):
            if noisy.measure.tree is not None:
                columns |= noise_trees(noise, classes, noisy, groups[f"bins_{position}"], trees)
                continue
            for kind, bound in zip(("light", "heavy"), classes.split_bounds, strict=True):
                law = noise.sum_law(noisy, bound, sum_shift(noisy.measure))
                name = f"{kind}_{position}"
                columns[name] = groups[name] + sample(law, size)
        return Rows(np.arange(size), columns)

    return add_noise_to_counts


assert SCALE_BITS + LATTICE_BITS <= 26, "sums of 2^31 units stay below 2^57"
