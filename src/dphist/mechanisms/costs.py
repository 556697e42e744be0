"""What every mechanism costs in every way of adding up: one function each. docs/composition.md has the table and the proofs.

`epsilon` is where the mechanism's own profile is read. `composed_epsilon` is the epsilon of the budget it is added up in: the
error of the noise sampler, a distance of s on either side, costs (1 + e^composed_epsilon) s there and is part of every d.
"""

from __future__ import annotations

import math
from functools import singledispatch

from dphist.errors import InvalidParameter
from dphist.mechanisms.adaptive import AdaptiveGaussian, changed_counters
from dphist.mechanisms.base import LARGEST_EPSILON, Profile, round_up, sampler_surcharge
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.correlated_gaussian import CorrelatedGaussian
from dphist.mechanisms.correlated_top_k import CorrelatedTopK
from dphist.mechanisms.discrete_correlated import DiscreteCorrelatedGaussian
from dphist.mechanisms.discrete_gaussian import DiscreteGaussianThreshold
from dphist.mechanisms.from_top import FromTop
from dphist.mechanisms.known_groups import KnownGroups
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.ranked import Ranked
from dphist.mechanisms.records import GaussianRecords, LaplaceRecords
from dphist.mechanisms.sparse_gaussian import SparseGaussian
from dphist.mechanisms.truncated_laplace import TruncatedLaplace
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import ranked as choices
from dphist.privacy import truncated_laplace
from dphist.privacy.composition import (
    PrivacyCost,
    mu_of_pure,
    mu_of_range,
    of_gaussian,
    of_pure,
    of_rho,
    rho_of_pure,
    together,
)

_UP = 1 + 1e-11  # plans are checked with a slack of 1e-12


def privacy_cost(mechanism: Profile, epsilon: float, composed_epsilon: float = LARGEST_EPSILON) -> PrivacyCost:
    """The cost of one run of a mechanism."""
    if not 0 < composed_epsilon <= LARGEST_EPSILON:
        raise InvalidParameter(
            f"a budget with epsilon of at most {LARGEST_EPSILON:g}",
            composed_epsilon,
            "beyond it the noise samplers are not exact enough to add up.",
        )
    return _cost(mechanism, epsilon, composed_epsilon)


def pure_cost(epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Discrete Laplace noise on one counter: a pure epsilon and the sampler's error."""
    return of_pure(epsilon, sampler_surcharge(composed_epsilon, 1))


@singledispatch
def _cost(mechanism: Profile, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Any profile: (epsilon, delta) is all that is used of it."""
    return of_pure(epsilon, mechanism.delta(epsilon))


@_cost.register
def _sparse_gaussian(mechanism: SparseGaussian, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """mu^2 = max_groups (1/noise_std^2 + sums_sensitivity^2); d: a group of one unit is released."""
    mu = math.sqrt(mechanism.max_groups * (1 / mechanism.noise_std**2 + mechanism.sums_sensitivity**2)) * _UP
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.max_groups)
    return of_gaussian(mu, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _correlated_gaussian(mechanism: CorrelatedGaussian, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """mu^2 = S2/independent_std^2 on the lattice; d: 1 - E Phi(t - sqrt(c) xi)^max_groups, for every analysis (Lemma 4)."""
    d = csh.delta_infinity(
        mechanism.gap, mechanism.max_groups, mechanism.independent_std, mechanism.correlation
    ) + sampler_surcharge(composed_epsilon, mechanism.sparsity)
    mu = _correlated_mu(mechanism, mechanism.sparsity)
    return of_gaussian(mu, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _known_groups(mechanism: KnownGroups, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """The same without a threshold: nothing but the sampler's error is left as d."""
    d = sampler_surcharge(composed_epsilon, mechanism.groups)
    return of_gaussian(_correlated_mu(mechanism, mechanism.groups), d, epsilon=epsilon, delta=mechanism.delta(epsilon))


def _correlated_mu(mechanism: CorrelatedGaussian | KnownGroups, groups: int) -> float:
    squared = csh.squared_sensitivity(
        groups,
        mechanism.max_groups,
        mechanism.correlation,
        sums_ratio=(mechanism.sums_sensitivity * mechanism.independent_std) ** 2,
        lattice_step=2.0**-mechanism.lattice_bits,
    )
    return math.sqrt(float(squared)) / mechanism.independent_std * _UP


@_cost.register
def _correlated_top_k(mechanism: CorrelatedTopK, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """mu^2 = S2 with the base released anti-correlated, over independent_std^2; d: a new one of k counters is released."""
    squared = csh.squared_sensitivity_with_base(
        mechanism.k,
        mechanism.correlation,
        mechanism.base_variance,
        lattice_step=2.0**-mechanism.lattice_bits,
    )
    d = csh.delta_infinity(
        mechanism.gap, mechanism.k, mechanism.independent_std, mechanism.correlation
    ) + sampler_surcharge(composed_epsilon, mechanism.k + 1)
    mu = math.sqrt(float(squared)) / mechanism.independent_std * _UP
    return of_gaussian(mu, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _adaptive(mechanism: AdaptiveGaussian, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """mu of all rounds, the histogram, the counts and the sums; d: a group that one unit alone sampled is selected."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, changed_counters(mechanism.tuning))
    return of_gaussian(mechanism.mu * _UP, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _laplace(mechanism: LaplaceThreshold, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Per group a pure 1/scale for the count, a pure sums_epsilon for the sums; d: a group of one unit is released."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.max_groups)
    parts = (1 / mechanism.scale * _UP, mechanism.sums_epsilon)
    return _pure_per_group(mechanism, mechanism.max_groups, parts, d, epsilon)


@_cost.register
def _laplace_records(mechanism: LaplaceRecords, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Per group a pure max_per_group/scale, with the tighter rho of discrete Laplace noise."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.max_groups)
    parts = (mechanism.max_per_group / mechanism.scale * _UP,)
    found = _pure_per_group(mechanism, mechanism.max_groups, parts, d, epsilon)
    return PrivacyCost(found.epsilon, found.delta, min(mechanism.rho * _UP, found.rho), d, found.mu, d)


@_cost.register
def _truncated_laplace(mechanism: TruncatedLaplace, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Per bar (e, f(0))-DP: a pure e, and d the chance that the outermost atom shows which it is."""
    one = truncated_laplace.delta_one_bar(float(mechanism.epsilon_per_group), mechanism.q)
    bars = mechanism.max_groups
    infinite = 1.0 if one >= 1 else -math.expm1(bars * math.log1p(-one)) * _UP
    d = infinite + sampler_surcharge(composed_epsilon, bars)
    parts = (round_up(mechanism.epsilon_per_group) * _UP,)
    return _pure_per_group(mechanism, bars, parts, d, epsilon)


def _pure_per_group(mechanism: Profile, groups: int, parts: tuple[float, ...], d: float, epsilon: float) -> PrivacyCost:
    """`groups` times some pure mechanisms: rhos and squares of mus add up."""
    rho = groups * math.fsum(map(rho_of_pure, parts)) * _UP
    mu = math.sqrt(groups) * math.hypot(*map(mu_of_pure, parts)) * _UP
    return PrivacyCost(epsilon, mechanism.delta(epsilon), rho, d, mu, d)


@_cost.register
def _discrete_gaussian(mechanism: DiscreteGaussianThreshold, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """rho of discrete Gaussian noise, which is not mu-GDP with the mu of its std: mu from (epsilon, delta)."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.max_groups)
    return of_rho(mechanism.rho, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _discrete_correlated(mechanism: DiscreteCorrelatedGaussian, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """The same with common noise."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.sparsity)
    return of_rho(mechanism.rho, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _gaussian_records(mechanism: GaussianRecords, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Rounded noise: mu = max_per_group sqrt(max_groups)/noise_std. Discrete noise: rho."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.max_groups)
    delta = mechanism.delta(epsilon)
    if mechanism.discrete:
        return of_rho(mechanism.rho, d, epsilon=epsilon, delta=delta)
    return of_gaussian(math.sqrt(2 * mechanism.rho) * _UP, d, epsilon=epsilon, delta=delta)


@_cost.register
def _from_top(mechanism: FromTop, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """rho of discrete Gaussian noise; d: a new group passes the noisy threshold."""
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, mechanism.most_groups + 1)
    return of_rho(mechanism.rho, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _continual(mechanism: ContinualCounts, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """rho of all nodes of the tree; d: a new group is ever released. The whole stream, whatever comes in between."""
    changed = 2 * mechanism.max_groups * mechanism.rounds
    d = mechanism.delta_infinity() + sampler_surcharge(composed_epsilon, changed)
    return of_rho(mechanism.rho, d, epsilon=epsilon, delta=mechanism.delta(epsilon))


@_cost.register
def _ranked(mechanism: Ranked, epsilon: float, composed_epsilon: float) -> PrivacyCost:
    """Per symbol a privacy loss within a range; d for each query, added up: other releases may come in between.

    The choices are exact, so no sampler's error is added.
    """
    e = mechanism.symbol_epsilon
    per_query = choices.delta_infinity(mechanism.threshold, e, mechanism.shortlist, mechanism.max_per_group)
    d = min(1.0, min(mechanism.queries, mechanism.symbols) * per_query * _UP)
    mu = math.sqrt(mechanism.symbols) * mu_of_range(e) * _UP
    return PrivacyCost(epsilon, mechanism.delta(epsilon), mechanism.rho, d, mu, d)


def with_pure_parts(main: PrivacyCost, pure: list[float], composed_epsilon: float) -> PrivacyCost:
    """A mechanism and some pure mechanisms on one counter each, such as a noisy total, as one cost."""
    return together([main, *(pure_cost(epsilon, composed_epsilon) for epsilon in pure)]) if pure else main
