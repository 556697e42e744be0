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
    from dphist.engines.query import Files, PerformanceSettings
    from dphist.engines.spark.engine import SparkEngine
    from dphist.ledger import DataSet, Ledger
    from dphist.lists.continual import Continual
    from dphist.lists.session import Session
    from dphist.lists.top_k import TopK, release_largest, top_k
    from dphist.publish.result import Release
    from dphist.publish.run import release, select
    from dphist.publish.stat import PrivateStatistic, stat
    from dphist.verification.isolated import verify

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
    "select",
    "stat",
    "top_k",
    "verify",
]

# Planning needs no engine: what reads data is loaded when it is first asked for.
_LAZY = {
    "Continual": "dphist.lists.continual",
    "DataSet": "dphist.ledger",
    "Files": "dphist.engines.query",
    "Ledger": "dphist.ledger",
    "PerformanceSettings": "dphist.engines.query",
    "PrivateStatistic": "dphist.publish.stat",
    "Release": "dphist.publish.result",
    "Session": "dphist.lists.session",
    "SparkEngine": "dphist.engines.spark.engine",
    "TopK": "dphist.lists.top_k",
    "release": "dphist.publish.run",
    "select": "dphist.publish.run",
    "stat": "dphist.publish.stat",
    "release_largest": "dphist.lists.top_k",
    "top_k": "dphist.lists.top_k",
    "verify": "dphist.verification.isolated",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dphist' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
