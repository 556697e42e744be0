"""dphist: counts and sums per group under differential privacy, without knowing the groups in advance."""

from typing import TYPE_CHECKING, Any

from dphist.errors import (
    BudgetExceeded,
    DphistError,
    EngineFailure,
    Infeasible,
    InvalidParameter,
    InvalidPlan,
    MissingExtra,
    UnreadableSource,
    UnusableLedger,
)
from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    GaussianRecords,
    KnownGroups,
    LaplaceRecords,
    LaplaceThreshold,
    SparseGaussian,
    epsilon_at,
)
from dphist.planning import Plan, plan
from dphist.planning.top_k import TopKPlan, plan_top_k
from dphist.version import __version__

if TYPE_CHECKING:
    from dphist.continual import Continual
    from dphist.engines.settings import Files, PerformanceSettings
    from dphist.engines.spark import SparkEngine
    from dphist.ledger import DataSet, Ledger
    from dphist.publish.release import release
    from dphist.publish.released import Release
    from dphist.publish.stat import PrivateStatistic, stat
    from dphist.publish.top_k import TopK, release_largest, top_k
    from dphist.publish.verify import verify
    from dphist.session import Session

__all__ = [
    "AdaptiveGaussian",
    "BudgetExceeded",
    "Continual",
    "CorrelatedGaussian",
    "DataSet",
    "DphistError",
    "EngineFailure",
    "Files",
    "GaussianRecords",
    "Infeasible",
    "InvalidParameter",
    "InvalidPlan",
    "KnownGroups",
    "LaplaceRecords",
    "LaplaceThreshold",
    "Ledger",
    "MissingExtra",
    "PerformanceSettings",
    "Plan",
    "PrivateStatistic",
    "Release",
    "Session",
    "SparkEngine",
    "SparseGaussian",
    "TopK",
    "TopKPlan",
    "UnreadableSource",
    "UnusableLedger",
    "__version__",
    "epsilon_at",
    "plan",
    "plan_top_k",
    "release",
    "release_largest",
    "stat",
    "top_k",
    "verify",
]

# Planning needs no engine: what reads data is loaded when it is first asked for.
_LAZY = {
    "Continual": "dphist.continual",
    "DataSet": "dphist.ledger",
    "Files": "dphist.engines.settings",
    "Ledger": "dphist.ledger",
    "PerformanceSettings": "dphist.engines.settings",
    "PrivateStatistic": "dphist.publish.stat",
    "Release": "dphist.publish.released",
    "Session": "dphist.session",
    "SparkEngine": "dphist.engines.spark",
    "TopK": "dphist.publish.top_k",
    "release": "dphist.publish.release",
    "stat": "dphist.publish.stat",
    "release_largest": "dphist.publish.top_k",
    "top_k": "dphist.publish.top_k",
    "verify": "dphist.publish.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dphist' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
