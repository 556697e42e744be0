"""One frozen dataclass per mechanism: calibrated parameters and the guarantee they have. `base` says what each can do."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dphist.mechanisms.adaptive import AdaptiveGaussian
from dphist.mechanisms.base import GroupMechanism, Mechanism, epsilon_at
from dphist.mechanisms.correlated_gaussian import CorrelatedGaussian
from dphist.mechanisms.discrete import DiscreteCorrelatedGaussian, DiscreteGaussianThreshold, KnownDiscrete
from dphist.mechanisms.known_groups import KnownGroups, KnownLaplace
from dphist.mechanisms.laplace import LaplaceThreshold
from dphist.mechanisms.lattice import Kept
from dphist.mechanisms.sparse_gaussian import SparseGaussian
from dphist.mechanisms.voting import Voting

if TYPE_CHECKING:
    from dphist.mechanisms.continual import ContinualCounts
    from dphist.mechanisms.correlated_top_k import CorrelatedTopK
    from dphist.mechanisms.from_top import FromTop
    from dphist.mechanisms.ranked import Ranked
    from dphist.mechanisms.truncated_laplace import TruncatedLaplace

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
"""The mechanisms of plans. Of equal ones the first is shown first."""

__all__ = [
    "GROUP_MECHANISMS",
    "AdaptiveGaussian",
    "ContinualCounts",
    "CorrelatedGaussian",
    "CorrelatedTopK",
    "DiscreteCorrelatedGaussian",
    "DiscreteGaussianThreshold",
    "FromTop",
    "GroupMechanism",
    "Kept",
    "KnownDiscrete",
    "KnownGroups",
    "KnownLaplace",
    "LaplaceThreshold",
    "Mechanism",
    "Ranked",
    "SparseGaussian",
    "TruncatedLaplace",
    "Voting",
    "epsilon_at",
]

_NOT_OF_PLANS: Final = {
    "ContinualCounts": "continual",
    "CorrelatedTopK": "correlated_top_k",
    "FromTop": "from_top",
    "Ranked": "ranked",
    "TruncatedLaplace": "truncated_laplace",
}
"""Loaded when they are first asked for: a plan of groups needs none of them."""


def __getattr__(name: str) -> Any:
    if name not in _NOT_OF_PLANS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_NOT_OF_PLANS[name]}"), name)
