"""dphist: counts and sums per group under differential privacy, without knowing the groups in advance."""

from dphist.errors import DphistError, Infeasible, InvalidParameter, InvalidPlan, MissingExtra
from dphist.mechanisms import CorrelatedGaussian, KnownGroups, LaplaceThreshold, SparseGaussian, epsilon_at
from dphist.planning import Plan, plan

__version__ = "0.1.0"

__all__ = [
    "CorrelatedGaussian",
    "DphistError",
    "Infeasible",
    "InvalidParameter",
    "InvalidPlan",
    "KnownGroups",
    "LaplaceThreshold",
    "MissingExtra",
    "Plan",
    "SparseGaussian",
    "epsilon_at",
    "plan",
]
