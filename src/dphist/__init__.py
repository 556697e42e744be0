"""dphist: counts and sums per group under differential privacy, without knowing the groups in advance."""

from typing import TYPE_CHECKING, Any

from dphist.errors import (
    DphistError,
    EngineFailure,
    Infeasible,
    InvalidParameter,
    InvalidPlan,
    MissingExtra,
    UnreadableSource,
)
from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    KnownGroups,
    LaplaceThreshold,
    SparseGaussian,
    epsilon_at,
)
from dphist.planning import Plan, plan
from dphist.version import __version__

if TYPE_CHECKING:
    from dphist.engines.settings import Files, PerformanceSettings
    from dphist.publish.release import Release, release
    from dphist.publish.stat import PrivateStatistic, stat
    from dphist.publish.verify import verify

__all__ = [
    "AdaptiveGaussian",
    "CorrelatedGaussian",
    "DphistError",
    "EngineFailure",
    "Files",
    "Infeasible",
    "InvalidParameter",
    "InvalidPlan",
    "KnownGroups",
    "LaplaceThreshold",
    "MissingExtra",
    "PerformanceSettings",
    "Plan",
    "PrivateStatistic",
    "Release",
    "SparseGaussian",
    "UnreadableSource",
    "__version__",
    "epsilon_at",
    "plan",
    "release",
    "stat",
    "verify",
]

# Planning needs no engine: what reads data is loaded when it is first asked for.
_LAZY = {
    "Files": "dphist.engines.settings",
    "PerformanceSettings": "dphist.engines.settings",
    "PrivateStatistic": "dphist.publish.stat",
    "Release": "dphist.publish.release",
    "release": "dphist.publish.release",
    "stat": "dphist.publish.stat",
    "verify": "dphist.publish.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dphist' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
