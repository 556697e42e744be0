"""From noisy counts to estimates with standard errors. Functions of published values alone: nothing here costs budget.

What is estimated is the number of units in the group, all of them, without any limit on a unit's groups. The counts of classes
add up to it without bias, but those of heavy classes are noisy; the count of scaled units is precise, but heavy units weigh
less in it. What connects the two is a group's mix of classes. Groups of similar size are pooled to measure it, what groups
differ beyond the noise is measured, too, and each group's count is the best linear combination of all its noisy numbers.
docs/counting.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.base import Aggregate
from dphist.aggregates.noisy_sums import Column, NoisyMeasure, NoisySum
from dphist.aggregates.tree import NoisyQuantiles
from dphist.mechanisms.counts import CountNoise, sum_shift
from dphist.mechanisms.tuning import LATTICE_BITS, ONE, SCALE_BITS, Tuning
from dphist.run.counting import CENTRES, NoisyCounts
from dphist.run.sizes import FEWEST_SIZED, Sized, sizes_by_rounds, three_neighbours

Floats = NDArray[np.float64]

_TINY = 1e-9
"""So that a class without units divides nothing by 0."""

_MOST_SPREAD = 9.0
"""Squared and relative: by then a class's own noisy number is all that counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Noisy numbers of units per group, with variances: of scaled units, and by class. factors: how classes are scaled.
    far: standard deviations that noise hardly ever reaches."""

    weights: Floats
    scaled: Floats
    scaled_variance: Floats
    by_class: Floats
    variances: Floats
    factors: Floats
    far: float


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """How many units of each class there are for each scaled one, with variances, for every group."""

    ratios: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Numbers of units with standard errors; and, with variances, what sums need: the heavy units as they are counted, and
    what is hidden of units beyond the last bound."""

    counts: Floats
    std_errors: Floats
    heavy: Floats
    heavy_variance: Floats
    hidden: Floats
    hidden_variance: Floats


def estimated_columns(
    noise: CountNoise,
    aggregates: Sequence[Aggregate],
    measures: Sequence[NoisyMeasure],
    noisy: NoisyCounts,
    tuning: Tuning,
    quantiles: Mapping[str, NoisyQuantiles] = MappingProxyType({}),
) -> list[Column]:
    """The count and every aggregate, from published values alone."""
    estimates = estimate(noise, noisy, tuning)
    columns = [Column("count", estimates.counts, (estimates.std_errors,))]
    parts: dict[str, NoisySum | NoisyQuantiles] = {**quantiles}
    for measure in measures:
        if measure.name not in parts:
            parts[measure.name] = estimate_sums(noise, measure, noisy, estimates)
    return [*columns, *(column for aggregate in aggregates for column in aggregate.columns(parts))]


def estimate(noise: CountNoise, noisy: NoisyCounts, tuning: Tuning) -> Estimates:
    """Measure the mix, combine, add what is hidden, and say how sure one can be.

    After rounds their sums are a further observation of every group. Where that and the counts alone disagree by more than
    they should, the intervals are widened by the difference: a group whose units differ from those of its neighbours is one
    that the rounds take for another size.
    """
    if len(noisy.weights) == 0:
        empty = np.zeros(0)
        return Estimates(*[empty] * 6)
    seen, light = observe(noise, noisy), noisy.classes.light
    found = alone = by_counts(noisy, seen, tuning)
    if noisy.rounds is not None and len(noisy.weights) >= FEWEST_SIZED:
        found = by_counts(noisy, seen, tuning, sizes_by_rounds(noisy.rounds, seen.scaled, seen.scaled_variance))
    hidden, doubt = hidden_units(noisy, seen.weights, np.maximum(found.counts, 1.0), tuning)
    variance, heavy_variance = (
        own + np.maximum((value - other) ** 2 - np.maximum(others - own, 0.0), 0.0)
        for value, other, own, others in (
            (found.counts, alone.counts, *(tuning.model_error**2 * one.variance for one in (found, alone))),
            (*(one.by_class[:, light:].sum(axis=1) for one in (found, alone)),
             *(tuning.model_error**2 * one.heavy_variance for one in (found, alone))),
        )
    )  # fmt: skip
    heavy = found.by_class[:, light:].sum(axis=1)
    return Estimates(found.counts + hidden, np.sqrt(variance + doubt), heavy, heavy_variance, hidden, doubt)


def by_counts(noisy: NoisyCounts, seen: Observed, tuning: Tuning, sized: Sized | None = None) -> Combined:
    """The counts of classes and of scaled units, and with `sized` what the rounds say, as one best linear estimate."""
    sizing, ratio = seen, np.ones(len(seen.factors))
    if sized is not None:  # groups are similar in size by all that is known of it
        precisions = np.stack([1 / seen.scaled_variance, 1 / sized.variance])
        both = (precisions * [seen.scaled, sized.number]).sum(axis=0) / precisions.sum(axis=0)
        sizing = replace(seen, scaled=both, scaled_variance=1 / precisions.sum(axis=0))
        ratio = np.sqrt(noisy.classes.sizes[0] / noisy.classes.sizes)  # a unit in d groups gives each 1/sqrt(d)
    bins = by_size(sizing.scaled, tuning.groups_per_bin)
    centres = np.array([max(float(sizing.scaled[members].mean()), _TINY) for members in bins])
    places = np.log(np.maximum.accumulate(centres))
    at = np.log(np.maximum(sizing.scaled, centres[0]))
    mix = measure_mix(noisy, sizing, bins, places, at, tuning)
    sizes, factors = np.maximum(sizing.scaled, 1.0), np.broadcast_to(seen.factors, mix.ratios.shape)
    loads = ratio * ((mix.ratios @ seen.factors) / (mix.ratios @ ratio))[:, None]
    scaled = Row(seen.scaled, seen.scaled_variance, factors)
    for _ in range(3):  # with better sizes each time
        spread = measure_spread(sizing, mix, sizes, bins, places, at, tuning)
        rows = [scaled]
        if sized is not None:  # what the mix explains of the groups' differences is not counted twice
            explained = ((factors - loads) ** 2 * np.maximum(spread - mix.ratios * sizes[:, None], 0.0)).sum(axis=1)
            differ = np.maximum(sized.spread - explained, 0.09 * sized.spread)
            rows.append(Row(sized.number, sized.noise + differ, loads))
        combined = combine(seen, mix, sizes, spread, noisy.classes.light, rows)
        sizes = combined.sizes
    return combined


def observe(noise: CountNoise, noisy: NoisyCounts) -> Observed:
    """Lattice steps and weights divided out."""
    a, bounds = noisy.weights / ONE, noisy.classes.sizes
    reach = np.array([noise.reach(float(bound)) for bound in bounds])
    return Observed(
        weights=a,
        scaled=np.ldexp(noisy.scaled.astype(np.float64), -(LATTICE_BITS + SCALE_BITS)) / a,
        scaled_variance=(noise.std(noise.scaled_noise) * noise.reach(noisy.classes.scaled_bound) / a) ** 2,
        by_class=np.ldexp(noisy.by_class.astype(np.float64), -LATTICE_BITS) / a[:, None],
        variances=(noise.std(noise.class_noise) * reach / a[:, None]) ** 2,
        factors=np.ldexp(np.array(noisy.classes.factors(noise), np.float64), -SCALE_BITS),
        far=noise.far,
    )


def by_size(sizes: Floats, per_bin: int) -> list[NDArray[np.intp]]:
    """Groups of similar size together, smallest first."""
    return np.array_split(np.argsort(sizes, kind="stable"), max(1, len(sizes) // per_bin))


def measure_mix(
    noisy: NoisyCounts, seen: Observed, bins: list[NDArray[np.intp]], places: Floats, at: Floats, tuning: Tuning
) -> Mix:
    """The classes' numbers over that of scaled units, bin by bin; what is noise there is drawn to a straight line."""
    levels = np.exp(places)
    ratios = np.stack([seen.by_class[members].mean(axis=0) for members in bins]) / levels[:, None]
    variances = (
        np.stack([seen.variances[members].mean(axis=0) / len(members) for members in bins]) / levels[:, None] ** 2
    )
    norms = np.array([(seen.weights[members] ** noisy.classes.power).sum() for members in bins]) * levels
    means, doubts = np.empty((len(at), ratios.shape[1])), np.empty((len(at), ratios.shape[1]))
    for column in range(ratios.shape[1]):
        total = class_total(noisy, column, tuning)
        line, doubt = draw_to_line(places, ratios[:, column], variances[:, column], norms, total, tuning.mix_slope)
        means[:, column] = np.interp(at, places, np.maximum(line, 0.0)) + _TINY
        doubts[:, column] = np.interp(at, places, doubt)
    return Mix(means, doubts)


def class_total(noisy: NoisyCounts, column: int, tuning: Tuning) -> tuple[float, float]:
    """The norms of all units of a class, added up, with its variance: by the histogram. Beyond the last bound they are cut."""
    bounds = noisy.classes.sizes
    belongs = np.minimum(np.searchsorted(bounds, CENTRES), len(bounds) - 1) == column
    kept = CENTRES[belongs]
    kept = kept * np.minimum(1.0, bounds[-1] / kept) ** (1 / noisy.classes.power)
    total = float(noisy.norms.units[belongs] @ kept)
    return total, float(noisy.norms.variances[belongs] @ kept**2) + (tuning.bucket_error * total) ** 2


def draw_to_line(
    places: Floats, ratios: Floats, variances: Floats, norms: Floats, total: tuple[float, float], slope: float
) -> tuple[Floats, Floats]:
    """A line through noisy ratios of bins, by least squares; then each ratio between its own value and the line.

    Two facts more than the ratios: norms @ ratios is the total of the histogram, and the slope is about 0, give or take
    `slope` of the level. How far bins are from the line beyond their noise is measured ([PM82]: the variance at which the
    weighted squares are as many as the bins), and says how much a bin's own value is worth.
    """
    middle = norms @ places / norms.sum()
    design = np.stack([np.ones(len(places)), places - middle], axis=1)
    of_total = norms @ design
    level = max(total[0], math.sqrt(total[1])) / norms.sum()
    prior = np.diag([0.0, 1 / (slope * level) ** 2])
    apart = 0.0
    for _ in range(30):
        weights = 1 / (variances + apart)
        total_weight = 1 / (total[1] + apart * float(norms @ norms))
        precision = design.T @ (weights[:, None] * design) + total_weight * np.outer(of_total, of_total) + prior
        line = np.linalg.solve(precision, design.T @ (weights * ratios) + total_weight * total[0] * of_total)
        off = ratios - design @ line
        squares = float(weights @ off**2)
        if apart == 0 and squares <= len(ratios):
            break
        apart = min(max(0.0, apart + (squares - len(ratios)) / float(weights**2 @ off**2)), _MOST_SPREAD * level**2)
    doubt = np.einsum("ij,jk,ik->i", design, np.linalg.inv(precision), design)
    own = apart / (apart + variances)
    return design @ line + own * off, own * variances + (1 - own) ** 2 * doubt


def measure_spread(
    seen: Observed, mix: Mix, sizes: Floats, bins: list[NDArray[np.intp]], places: Floats, at: Floats, tuning: Tuning
) -> Floats:
    """The variance of each class around its mix, group by group: what differs beyond noise and chance, and its doubt.

    Chance alone gives a variance equal to the number. The rest is taken as relative, k^2 number^2; k^2 is measured for each
    class over three neighbouring bins, drawn to that of all classes together where it is too noisy, and raised by its own
    standard error: what is not known is not taken for equal. A class that is far off in one group, beyond what all of that
    explains, is left to its own noisy number there: the group is of another kind than its neighbours.
    """
    number = mix.ratios * sizes[:, None]
    noise = seen.variances + mix.ratios**2 * seen.scaled_variance[:, None] + number
    beyond = (seen.by_class - mix.ratios * seen.scaled[:, None]) ** 2 - noise
    trust = 1 / (noise + number**2 / 20) ** 2  # no class is so precise that it alone decides
    weighted, weights = beyond * number**2 * trust, number**4 * trust
    excess = three_neighbours(np.stack([weighted[members].sum(axis=0) for members in bins]))
    weight = three_neighbours(np.stack([weights[members].sum(axis=0) for members in bins])) + 1e-300
    common = np.maximum(excess.sum(axis=1) / weight.sum(axis=1), 0.0)[:, None]
    own, doubt = excess / weight, 2 / weight
    prior = tuning.spread_doubt**2
    squared = np.maximum((own * prior + common * doubt) / (prior + doubt), 0.0) + np.sqrt(
        prior * doubt / (prior + doubt)
    )
    relative = np.stack([np.interp(at, places, column) for column in np.minimum(squared, _MOST_SPREAD).T], axis=1)
    spread = number + relative * number**2
    off = (seen.by_class - number) ** 2
    return np.asarray(spread + np.maximum(off - seen.far**2 * (seen.variances + spread), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Each group's number of units with its variance, and that of heavy ones alone; its size in scaled units; its classes."""

    counts: Floats
    variance: Floats
    heavy_variance: Floats
    sizes: Floats
    by_class: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A noisy number of each group to which its classes add up with these loads, and the variance of its noise."""

    values: Floats
    variance: Floats
    loads: Floats


def combine(seen: Observed, mix: Mix, sizes: Floats, spread: Floats, light: int, rows: Sequence[Row]) -> Combined:
    """The best linear estimate, group by group: the classes are (mix + spread) times an unknown size.

    y_l = p_l t + e_l + noise and, for every row, m = sum f_l (p_l t + e_l) + noise, with var e_l the spread and t free. First
    e_l given y_l and t, then the rows, then t; the error of the mix, which all groups of a size share, is added at first order.
    """
    p, loads = mix.ratios, np.stack([row.loads for row in rows], axis=1)
    share = spread / (spread + seen.variances)  # of a class's own noisy number
    left = share * seen.variances  # the variance of e_l that it leaves
    own = np.stack([row.values for row in rows], axis=1)
    rest = own - np.einsum("krl,kl->kr", loads, share * seen.by_class)
    rest_variance = np.einsum("krl,kl,ksl->krs", loads, left, loads)
    places = np.arange(len(rows))
    rest_variance[:, places, places] += np.stack([row.variance for row in rows], axis=1)
    slope = np.einsum("krl,kl->kr", loads, (1 - share) * p)
    inverse = np.linalg.inv(rest_variance)
    by_slope = np.einsum("krs,ks->kr", inverse, slope)
    pull = p / (spread + seen.variances)
    information = (pull * p).sum(axis=1) + (slope * by_slope).sum(axis=1)
    size = ((pull * seen.by_class).sum(axis=1) + (by_slope * rest).sum(axis=1)) / information
    gain = np.einsum("krs,ksl->krl", inverse, left[:, None] * loads)  # what the rest of each row says about each e_l
    by_class = p * size[:, None] * (1 - share) + share * seen.by_class
    by_class += np.einsum("krl,kr->kl", gain, rest - slope * size[:, None])
    known = np.maximum(size, 1.0)[:, None]
    of_size = -(pull + np.einsum("kr,krl->kl", by_slope, loads) * (1 - share)) * known / information[:, None]

    def variance(first: int) -> Floats:
        """Of the number of units in this class and all heavier ones."""
        part = np.arange(p.shape[1]) >= first
        gains = gain[:, :, part].sum(axis=2)
        per_size = ((1 - share) * p)[:, part].sum(axis=1) - (gains * slope).sum(axis=1)
        together = np.einsum("krl,kl->kr", loads[:, :, part], left[:, part])
        alone = left[:, part].sum(axis=1) - (together * gains).sum(axis=1)
        of_mix = known * (1 - share) * (part - np.einsum("kr,krl->kl", gains, loads)) + per_size[:, None] * of_size
        return np.asarray(np.maximum(alone + per_size**2 / information, 0.0) + (of_mix**2 * mix.variances).sum(axis=1))

    return Combined(
        counts=by_class.sum(axis=1),
        variance=variance(0),
        heavy_variance=variance(light),
        sizes=np.maximum(size, 1.0),
        by_class=by_class,
    )


def hidden_units(noisy: NoisyCounts, a: Floats, sizes: Floats, tuning: Tuning) -> tuple[Floats, Floats]:
    """What units beyond the last bound are missing in each group, and the variance of that number.

    By the histogram there are so many of them; each is missing by the part it was scaled down, in the groups where it is. No
    unit is in a group more than once, so large groups miss no more than all of them.
    """
    power, last = noisy.classes.power, noisy.classes.sizes[-1]
    missing = 1 - np.minimum(1.0, last / CENTRES) ** (1 / power)
    even, fair = sizes**tuning.tail_power, sizes
    even, fair = (part / (a**power @ part) for part in (even, fair))
    hidden, doubt = np.zeros(len(a)), np.zeros(len(a))
    for place in np.flatnonzero(missing):
        hidden += noisy.norms.units[place] * missing[place] * np.minimum(1.0, CENTRES[place] * even)
        often = np.minimum(1.0, CENTRES[place] * np.maximum(even, fair))
        doubt += noisy.norms.variances[place] * (missing[place] * often) ** 2
    return np.maximum(hidden, 0.0), doubt


def estimate_sums(
    noise: CountNoise, noisy_aggregate: NoisyMeasure, noisy: NoisyCounts, estimates: Estimates
) -> NoisySum:
    """Recentred sums of all units with standard errors.

    Light units are added up with little noise. The sum of heavy units is drawn to their number times their mean value, as far
    as it is noise; what groups differ from that beyond noise is measured over all of them. If their number is wrong, so is
    the count, to which the centre is added: one error, not two.
    """
    aggregate = noisy_aggregate.measure
    step = math.ldexp(aggregate.step, -sum_shift(aggregate))
    a = noisy.weights / ONE
    light, heavy = (part.astype(np.float64) * step / a for part in noisy.sums[noisy_aggregate.name])
    light_std, heavy_std = (noisy_aggregate.noise_std * noise.reach(bound) / a for bound in noisy.classes.split_bounds)
    limit = aggregate.sensitivity
    mean, mean_variance, has_heavy = 0.0, 0.0, noisy.classes.light < len(noisy.classes.bounds)
    number = np.maximum(estimates.heavy, 1.0)
    if has_heavy:
        mean, mean_variance = mean_of_heavy(number, estimates.heavy_variance, heavy, 1 / heavy_std**2, limit)
    towards = math.copysign(1.0, aggregate.centre + mean)  # so that errors add up
    values, variance = light, light_std**2 + (estimates.hidden * limit) ** 2  # of hidden units no mean is known
    of_units = [towards * limit * np.sqrt(estimates.hidden_variance)]
    if has_heavy:
        trust = 1 / heavy_std**2
        beyond = (heavy - mean * number) ** 2 - heavy_std**2
        relative = max(float((beyond * number**2 * trust**2).sum()) / float((number**4 * trust**2).sum()), 0.0)
        doubt = math.sqrt(2 / float((number**4 * trust**2).sum()))
        spread = min(relative + doubt, limit**2) * number**2
        share = spread / (spread + heavy_std**2)
        values = light + mean * number + share * (heavy - mean * number)
        variance = variance + share**2 * heavy_std**2
        most = min(max(mean + towards * math.sqrt(mean_variance), -limit), limit)
        of_units.append((1 - share) * most * np.sqrt(estimates.heavy_variance))
        of_units.append((1 - share) * number * towards * math.sqrt(mean_variance))
    return NoisySum(aggregate, values, (np.sqrt(variance),), estimates.counts, estimates.std_errors, tuple(of_units))


def mean_of_heavy(number: Floats, variance: Floats, sums: Floats, trust: Floats, limit: float) -> tuple[float, float]:
    """The mean value of heavy units in all groups, with its variance: a line through noisy sums over noisy numbers.

    Errors of the numbers make squares of them too large, by their variance, and the line too flat: that is taken off, up to
    half. The variance is that of the noise and, as the line may hang on few groups, of leaving out each of them. As far as the
    line, or the numbers, are noise, all that is known of the mean is that it lies within the limit.
    """
    parts = trust * number * sums, trust * number**2, trust * variance
    products, squares, by_chance = (part.sum() for part in parts)

    def line(products: Floats, squares: Floats, by_chance: Floats) -> Floats:
        true = np.maximum(squares - by_chance, squares / 2).clip(1e-300)
        return np.asarray(np.clip(products / true, -2 * limit, 2 * limit))

    mean = line(products, squares, by_chance)
    others = line(products - parts[0], squares - parts[1], by_chance - parts[2])
    noise = squares / max(squares - by_chance, squares / 2) ** 2
    doubt = float(noise + ((others - mean) ** 2).sum())
    known = limit**2 / (limit**2 + doubt) * max(1 - float(by_chance / squares), 0.0)
    return min(max(known * float(mean), -limit), limit), (1 - known) ** 2 * limit**2 + known**2 * doubt
