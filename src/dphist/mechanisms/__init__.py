"""One frozen dataclass per mechanism: calibrated parameters and the guarantee they have."""

from dphist.mechanisms.correlated_gaussian import CorrelatedGaussian
from dphist.mechanisms.known_groups import KnownGroups
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.mechanism import Mechanism, ThresholdMechanism, epsilon_at
from dphist.mechanisms.sparse_gaussian import SparseGaussian

__all__ = [
    "CorrelatedGaussian",
    "KnownGroups",
    "LaplaceThreshold",
    "Mechanism",
    "SparseGaussian",
    "ThresholdMechanism",
    "epsilon_at",
]
