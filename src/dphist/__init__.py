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
from dphist.version import __version__

if TYPE_CHECKING:
    from dphist.engines.query import PerformanceSettings
    from dphist.engines.source import Files
    from dphist.engines.spark.engine import SparkEngine
    from dphist.ledger import DataSet, Ledger
    from dphist.mechanisms import (
        AdaptiveGaussian,
        CorrelatedGaussian,
        KnownGroups,
        LaplaceThreshold,
        SparseGaussian,
        epsilon_at,
    )
    from dphist.planning.plan import Plan, plan
    from dphist.planning.top_k import TopKPlan, plan_top_k
    from dphist.run.bounds import PrivateBounds, bounds
    from dphist.run.continual import Continual
    from dphist.run.job import release, select
    from dphist.run.release import Answer, Release
    from dphist.run.session import Session
    from dphist.run.statistics import PrivateStatistic, stat
    from dphist.run.top_k import TopK, release_largest, top_k
    from dphist.sql.connection import Connection, connect
    from dphist.sql.names import public
    from dphist.verification.verify import verify

__all__ = [
    "AdaptiveGaussian",
    "Answer",
    "BudgetExceeded",
    "Connection",
    "Continual",
    "CorrelatedGaussian",
    "DataSet",
    "DphistError",
    "EngineFailure",
    "Files",
    "Infeasible",
    "InvalidParameter",
    "InvalidPlan",
    "KnownGroups",
    "LaplaceThreshold",
    "Ledger",
    "MissingExtra",
    "PerformanceSettings",
    "Plan",
    "PrivateBounds",
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
    "bounds",
    "connect",
    "epsilon_at",
    "plan",
    "plan_top_k",
    "public",
    "release",
    "release_largest",
    "select",
    "stat",
    "top_k",
    "verify",
]

# Loaded when it is first asked for: numerical libraries take a second, and planning needs no engine.
_LAZY = {
    "AdaptiveGaussian": "dphist.mechanisms",
    "Answer": "dphist.run.release",
    "Connection": "dphist.sql.connection",
    "connect": "dphist.sql.connection",
    "public": "dphist.sql.names",
    "Continual": "dphist.run.continual",
    "CorrelatedGaussian": "dphist.mechanisms",
    "DataSet": "dphist.ledger",
    "Files": "dphist.engines.source",
    "KnownGroups": "dphist.mechanisms",
    "LaplaceThreshold": "dphist.mechanisms",
    "Ledger": "dphist.ledger",
    "PerformanceSettings": "dphist.engines.query",
    "Plan": "dphist.planning.plan",
    "PrivateBounds": "dphist.run.bounds",
    "PrivateStatistic": "dphist.run.statistics",
    "Release": "dphist.run.release",
    "Session": "dphist.run.session",
    "SparkEngine": "dphist.engines.spark.engine",
    "SparseGaussian": "dphist.mechanisms",
    "TopK": "dphist.run.top_k",
    "TopKPlan": "dphist.planning.top_k",
    "bounds": "dphist.run.bounds",
    "epsilon_at": "dphist.mechanisms",
    "plan": "dphist.planning.plan",
    "plan_top_k": "dphist.planning.top_k",
    "release": "dphist.run.job",
    "release_largest": "dphist.run.top_k",
    "select": "dphist.run.job",
    "stat": "dphist.run.statistics",
    "top_k": "dphist.run.top_k",
    "verify": "dphist.verification.verify",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dphist' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
