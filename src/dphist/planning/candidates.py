"""The mechanisms that could serve a request, each calibrated as well as it can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from dphist.errors import Infeasible
from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    KnownGroups,
    LaplaceThreshold,
    Mechanism,
    SparseGaussian,
    discrete_correlated,
    discrete_gaussian,
)
from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.base import round_up, round_up_to_lattice, sampler_surcharge
from dphist.mechanisms.tuning import Tuning
from dphist.planning.aggregates import UP, require_drawable
from dphist.planning.request import Request
from dphist.privacy import correlated_design as design
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import sparse_gaussian as gshm
from dphist.privacy.search import edge
from dphist.privacy.unknown_domain import smallest_gap_laplace

_Builder = Callable[[], Mechanism]

_WEIGHTS = {"release95": gshm.Z95, "gap": 0.0, "noise": math.inf}


def candidates(request: Request) -> tuple[list[Mechanism], list[Infeasible]]:
    """Every calibrated mechanism for the request, and why the others are not among them."""
    found: list[Mechanism] = []
    failed: list[Infeasible] = []
    for build in _builders(request):
        try:
            mechanism = build()
        except Infeasible as problem:
            failed.append(problem)
            continue
        if mechanism.delta(request.mechanism_epsilon) > request.delta:  # only the forward map is trusted
            raise AssertionError(f"{mechanism} misses its own target")
        found.append(mechanism)
    return found, failed


def _builders(request: Request) -> Iterator[_Builder]:
    if request.unbounded:
        yield from _unbounded_builders(request)
        return
    if not request.thresholded:
        yield from (partial(known_groups, request, correlated=correlated) for correlated in (True, False))
        return
    if request.noise == "discrete":
        yield from _discrete_builders(request)
        return
    if request.sketch is None:
        yield from (partial(sparse_gaussian, request, analysis) for analysis in gshm.ANALYSES)
        yield partial(laplace_threshold, request)
    if request.bounded_groups is not None:
        # The paper's analyses know neither aggregates nor a contribution bound.
        whole = not request.aggregates and request.keys is None
        yield from (partial(correlated_gaussian, request, analysis) for analysis in csh.ANALYSES[: 3 if whole else 1])


def _discrete_builders(request: Request) -> Iterator[_Builder]:
    """The mechanisms whose noise is discrete: for comparison, and for who wants whole counts."""
    common = {"low_threshold": request.low_threshold}
    if request.bounded_groups is not None:
        yield lambda: discrete_correlated.calibrate(
            request.mechanism_epsilon, _target(request), request.bounded_groups or 1, **common
        )
    if request.sketch is None:
        yield lambda: discrete_gaussian.calibrate(
            request.mechanism_epsilon,
            _target(request),
            request.groups_per_unit,
            noise_std=request.noise_std,
            **common,
        )
        yield partial(laplace_threshold, request)


def _unbounded_builders(request: Request) -> Iterator[_Builder]:
    """What a release chooses from once it knows, roughly, how many groups units are in; the first where it cannot tell."""
    if request.choice == "max_groups":
        yield from (partial(_better_plain, request.for_branch("plain", groups)) for groups in Tuning().chosen_groups)
        return
    yield partial(adaptive, request)
    if request.choice == "law":
        yield from (
            partial(laplace_threshold, request.for_branch("laplace", groups)) for groups in Tuning().light_groups
        )


def adaptive(request: Request) -> AdaptiveGaussian:
    """The adaptive release with everything that epsilon leaves for it."""
    made = calibrate(request.mechanism_epsilon, request.delta, sums_budget=request.sums_budget)
    require_drawable(request, made)
    return made


def _better_plain(request: Request) -> Mechanism:
    """The law that releases the smaller groups at this bound, or the one asked for."""
    made: list[SparseGaussian | LaplaceThreshold] = []
    if request.mechanism in ("best", "sparse-gaussian"):
        made.append(sparse_gaussian(request, "exact"))
    if request.mechanism in ("best", "laplace"):
        made.append(laplace_threshold(request))
    return min(made, key=lambda mechanism: mechanism.count_released_with(0.95))


def _target(request: Request) -> float:
    """What is left of delta when the mechanism adds its sampler's own error."""
    counters = max(request.groups_per_unit, request.bounded_groups or 1)
    target = request.delta * (1 - 1e-12) - sampler_surcharge(request.mechanism_epsilon, counters)
    if target <= 0:
        raise Infeasible(
            "a delta above the error of the noise sampler", f"{request.delta:g}", "nobody needs so small a delta."
        )
    return target


def sparse_gaussian(request: Request, analysis: gshm.Analysis) -> SparseGaussian:
    """The sparse Gaussian with the best noise, or the noise asked for, and the smallest gap for it."""
    groups = request.groups_per_unit
    if request.noise_std is None:
        noise_std, gap = gshm.best_pair(
            request.mechanism_epsilon,
            _target(request),
            max_groups=groups,
            sums_ratio=request.sums_budget,
            analysis=analysis,
            weight=_WEIGHTS[request.objective],
        )
    else:
        noise_std = request.noise_std
        gap = gshm.smallest_gap(
            request.mechanism_epsilon,
            _target(request),
            max_groups=groups,
            noise_std=noise_std,
            sums_sensitivity=math.sqrt(request.sums_budget) / noise_std,
            analysis=analysis,
        )
    bits = lattice_bits(noise_std)
    return SparseGaussian(
        max_groups=groups,
        noise_std=noise_std,
        threshold=request.low_threshold + round_up_to_lattice(gap, bits),
        low_threshold=request.low_threshold,
        sums_sensitivity=math.sqrt(request.sums_budget) / noise_std * UP,
        analysis=analysis,
        lattice_bits=bits,
    )


def correlated_gaussian(request: Request, analysis: csh.Analysis) -> CorrelatedGaussian:
    """The correlated Gaussian with the best correlation, or the one asked for.

    max_groups is used only with a public list of keys: a sparsity bound is enforced by subtracting the next largest
    count, after which one unit can move all counters.
    """
    sparsity = request.bounded_groups
    assert sparsity is not None
    bits = correlated_lattice_bits(sparsity)
    setting = design.Setting(
        epsilon=request.mechanism_epsilon,
        target_delta=_target(request),
        sparsity=sparsity,
        max_groups=sparsity if request.keys is None else request.groups_per_unit,
        sums_budget=request.sums_budget,
        lattice_step=2.0**-bits,
        weight=_WEIGHTS[request.objective],
        analysis=analysis,
    )
    correlation = request.correlation if analysis == "tight" else 1 / math.sqrt(sparsity)
    if request.noise_std is not None:
        chosen = _with_total_noise(setting, request.noise_std, correlation)
    elif correlation is not None:
        chosen = design.design_for(setting, correlation)
    else:
        chosen = design.best_design(setting)
    return CorrelatedGaussian(
        sparsity=sparsity,
        max_groups=setting.max_groups,
        independent_std=chosen.independent_std,
        correlation=chosen.correlation,
        threshold=request.low_threshold + round_up_to_lattice(chosen.gap, bits),
        low_threshold=request.low_threshold,
        sums_sensitivity=math.sqrt(setting.sums_ratio(chosen.correlation)) / chosen.independent_std * UP,
        analysis=analysis,
        lattice_bits=bits,
    )


def _with_total_noise(setting: design.Setting, noise_std: float, correlation: float | None) -> design.Design:
    """The smallest gap for a given total noise on a count, over the correlation unless that is given too."""

    def attempt(c: float) -> design.Design:
        independent_std = noise_std / math.sqrt(1 + c)
        return design.Design(independent_std, c, design.smallest_gap(setting, independent_std, c))

    if correlation is not None:
        return attempt(correlation)
    quietest = design.quietest_correlation(setting)
    found = attempt(quietest)  # Infeasible if even this needs more noise
    if quietest == 0:
        return found

    def total(log_c: float) -> float:
        c = math.exp(log_c)
        return design.smallest_independent_std(setting, c) * math.sqrt(1 + c)

    # At a given total noise more correlation makes the largest of many noises smaller, and with it the threshold, until the
    # independent part gets too small; close to that end the mixed cases bind.
    most = edge(total, noise_std, math.log(quietest), 20.0, tolerance=1e-9)

    for share in (0.9, 0.99):
        candidate = attempt(max(share * math.exp(most), quietest))
        found = min(found, candidate, key=lambda design_: design_.gap)
    return found


def laplace_threshold(request: Request) -> LaplaceThreshold:
    """Discrete Laplace noise of the smallest scale, or of the noise asked for, and the smallest threshold for it."""
    groups = request.groups_per_unit
    share = 1 / (1 + request.sums_budget)  # of epsilon, which adds up linearly here
    scale = groups / (request.mechanism_epsilon * share) * (1 + 4e-16 * (2 + len(request.aggregates)))
    if request.noise_std is not None:
        asked = scale_of_std(request.noise_std)
        if asked < scale:
            raise Infeasible(
                f"noise_std of at least {math.sqrt(2) * scale:.6g} for laplace", f"{request.noise_std:.6g}"
            )
        scale = asked
    gap = smallest_gap_laplace(_target(request), scale, groups)
    return LaplaceThreshold(
        max_groups=groups,
        scale=scale,
        threshold=float(request.low_threshold + gap),
        low_threshold=request.low_threshold,
        sums_epsilon=round_up(sum(Fraction(a.weight) for a in request.aggregates) / Fraction(scale)),
    )


def scale_of_std(noise_std: float) -> float:
    """The scale at which discrete Laplace noise has this standard deviation: 2r/(1-r)^2 = variance, r = exp(-1/scale).

    cosh(1/scale) = 1 + 1/variance, so sinh(1/(2 scale))^2 = 1/(2 variance): written so that nothing cancels. Within a few
    units in the last place.
    """
    return 1 / (2 * math.asinh(1 / (math.sqrt(2) * noise_std)))


def known_groups(request: Request, *, correlated: bool) -> KnownGroups:
    """Gaussian noise on a public list of groups, with the best correlation or none."""
    assert request.keys is not None
    bits = correlated_lattice_bits(request.keys)
    setting = design.Setting(
        epsilon=request.mechanism_epsilon,
        target_delta=_target(request),
        sparsity=request.keys,
        max_groups=request.groups_per_unit,
        sums_budget=request.sums_budget,
        lattice_step=2.0**-bits,
        weight=math.inf,
    )
    correlation = 0.0
    if correlated:
        correlation = request.correlation if request.correlation is not None else design.quietest_correlation(setting)
    independent_std = design.smallest_independent_std(setting, correlation)
    if request.noise_std is not None:
        asked = request.noise_std / math.sqrt(1 + correlation)
        if asked < independent_std:
            raise Infeasible(
                f"noise_std of at least {independent_std * math.sqrt(1 + correlation):.6g}", f"{request.noise_std:.6g}"
            )
        independent_std = asked
    return KnownGroups(
        groups=request.keys,
        max_groups=setting.max_groups,
        independent_std=independent_std,
        correlation=correlation,
        sums_sensitivity=math.sqrt(setting.sums_ratio(correlation)) / independent_std * UP,
        lattice_bits=bits,
    )


def lattice_bits(noise_std: float) -> int:
    """A lattice on which rounding the threshold up costs at most about a thousandth of the noise."""
    return min(max(10, 10 - math.floor(math.log2(noise_std))), 40)


def correlated_lattice_bits(sparsity: int) -> int:
    """A lattice so fine that the shift of correlated noise costs below 1e-9 of the squared sensitivity.

    (k + 1/c) g^2/4 against S2 >= k/4, about: g = 2^-16 and below, growing slowly with k where 1/c does.
    """
    return 16 + min(4, sparsity.bit_length() // 8)
