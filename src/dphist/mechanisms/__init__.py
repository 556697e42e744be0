"""One frozen dataclass per mechanism: calibrated parameters and the guarantee they have."""

from typing import TypeAlias

from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.base import Kept, Profile, epsilon_at
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

Thresholded: TypeAlias = (
    SparseGaussian | CorrelatedGaussian | LaplaceThreshold | DiscreteGaussianThreshold | DiscreteCorrelatedGaussian
)
"""The mechanisms that hide groups below a threshold, in one pass over the counts."""

Mechanism: TypeAlias = Thresholded | KnownGroups | AdaptiveGaussian
"""Every mechanism on the counts of groups."""

__all__ = [
    "AdaptiveGaussian",
    "ContinualCounts",
    "CorrelatedGaussian",
    "CorrelatedTopK",
    "DiscreteCorrelatedGaussian",
    "DiscreteGaussianThreshold",
    "FromTop",
    "GaussianRecords",
    "Kept",
    "KnownGroups",
    "LaplaceRecords",
    "LaplaceThreshold",
    "Mechanism",
    "Profile",
    "Ranked",
    "SparseGaussian",
    "Thresholded",
    "TruncatedLaplace",
    "epsilon_at",
]
