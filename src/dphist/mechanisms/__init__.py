"""One frozen dataclass per mechanism: calibrated parameters and the guarantee they have. `base` says what each can do."""

from typing import Final

from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.base import GroupMechanism, Kept, Mechanism, epsilon_at
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.correlated_gaussian import CorrelatedGaussian
from dphist.mechanisms.correlated_top_k import CorrelatedTopK
from dphist.mechanisms.discrete_correlated import DiscreteCorrelatedGaussian
from dphist.mechanisms.discrete_gaussian import DiscreteGaussianThreshold
from dphist.mechanisms.from_top import FromTop
from dphist.mechanisms.known_discrete import KnownDiscrete
from dphist.mechanisms.known_groups import KnownGroups
from dphist.mechanisms.known_laplace import KnownLaplace
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.ranked import Ranked
from dphist.mechanisms.records import GaussianRecords, LaplaceRecords
from dphist.mechanisms.sparse_gaussian import SparseGaussian
from dphist.mechanisms.truncated_laplace import TruncatedLaplace
from dphist.mechanisms.voting import Voting

GROUP_MECHANISMS: Final[tuple[type[GroupMechanism], ...]] = (
    AdaptiveGaussian,
    Voting,
    KnownGroups,
    KnownDiscrete,
    KnownLaplace,
    SparseGaussian,
    DiscreteCorrelatedGaussian,
    DiscreteGaussianThreshold,
    LaplaceThreshold,
    CorrelatedGaussian,
)
"""What a plan may choose from, in the order in which equals are told."""

__all__ = [
    "GROUP_MECHANISMS",
    "AdaptiveGaussian",
    "ContinualCounts",
    "CorrelatedGaussian",
    "CorrelatedTopK",
    "DiscreteCorrelatedGaussian",
    "DiscreteGaussianThreshold",
    "FromTop",
    "GaussianRecords",
    "GroupMechanism",
    "Kept",
    "KnownDiscrete",
    "KnownGroups",
    "KnownLaplace",
    "LaplaceRecords",
    "LaplaceThreshold",
    "Mechanism",
    "Ranked",
    "SparseGaussian",
    "TruncatedLaplace",
    "Voting",
    "epsilon_at",
]
