"""A mechanism applied to the groups part by part, as tasks of a cluster do it.

What the groups have in common is settled before: the noise they share is drawn once, and the count that enforces a sparsity
is subtracted from all. After that each group's noise and threshold are its own affair, so the law of the whole does not
depend on how the groups are divided.
"""

from __future__ import annotations

from dphist.errors import InvalidParameter
from dphist.mechanisms.base import Integers, Kept
from dphist.mechanisms.correlated_gaussian import CorrelatedGaussian
from dphist.mechanisms.discrete_correlated import DiscreteCorrelatedGaussian
from dphist.mechanisms.discrete_gaussian import DiscreteGaussianThreshold
from dphist.mechanisms.known_groups import KnownGroups
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.sparse_gaussian import SparseGaussian
from dphist.noise import Entropy

Correlated = CorrelatedGaussian | DiscreteCorrelatedGaussian | KnownGroups
Independent = SparseGaussian | LaplaceThreshold | DiscreteGaussianThreshold


def draw_shared(mechanism: object, entropy: Entropy | None = None) -> int:
    """The noise that all groups share, in lattice steps: once per release. 0 where there is none."""
    return mechanism.draw_shared(entropy) if isinstance(mechanism, Correlated) else 0


def sparsity_to_enforce(mechanism: object) -> int | None:
    """How many groups may stay positive; the next largest count is subtracted from all, before the groups are divided."""
    return mechanism.sparsity if isinstance(mechanism, CorrelatedGaussian | DiscreteCorrelatedGaussian) else None


def perturb_part(mechanism: object, counts: Integers, shared: int, entropy: Entropy | None = None) -> Kept:
    """Own noise and threshold for some of the groups, whose sparsity has been enforced, around the shared noise."""
    if isinstance(mechanism, Correlated):
        return mechanism.perturb_part(counts, shared, entropy)
    if isinstance(mechanism, Independent):
        return mechanism.perturb(counts, entropy)
    raise InvalidParameter("a mechanism that noises each group by itself", type(mechanism).__name__)
