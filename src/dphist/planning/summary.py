"""A mechanism as one flat record: what `--json` prints and tables are made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dphist.mechanisms import (
    AdaptiveGaussian,
    CorrelatedGaussian,
    DiscreteCorrelatedGaussian,
    KnownGroups,
    Mechanism,
    Thresholded,
)
from dphist.planning.request import Objective, Request


@dataclass(frozen=True, slots=True)
class Summary:
    """Every number of a plan that applies; None where one does not."""

    mechanism: str
    analysis: str
    epsilon: float
    delta: float
    target_delta: float
    max_groups: int
    sparsity: int | None
    noise_std: float
    independent_std: float | None
    correlation: float | None
    gap: float | None
    low_threshold: int | None
    threshold: float | None
    delta_gauss: float
    delta_inf: float | None
    error95: float
    released_50: float | None
    released_95: float | None
    theorem: str
    choice: str = "given"
    choice_epsilon: float = 0.0
    budget_split: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def thresholded(mechanism: Mechanism) -> Thresholded | AdaptiveGaussian | None:
    """The mechanism as one that hides small groups, if it is one."""
    return None if isinstance(mechanism, KnownGroups) else mechanism


def summarise(request: Request, mechanism: Mechanism) -> Summary:
    """The record of a mechanism at the request's budget."""
    threshold = thresholded(mechanism)
    correlated = (
        mechanism if isinstance(mechanism, CorrelatedGaussian | DiscreteCorrelatedGaussian | KnownGroups) else None
    )
    return Summary(
        mechanism=mechanism.name,
        analysis=mechanism.analysis,
        epsilon=request.epsilon,
        delta=mechanism.delta(request.mechanism_epsilon),
        target_delta=request.delta,
        max_groups=mechanism.max_groups,
        sparsity=mechanism.sparsity if isinstance(mechanism, CorrelatedGaussian | DiscreteCorrelatedGaussian) else None,
        noise_std=mechanism.noise_std,
        independent_std=correlated.independent_std if correlated else None,
        correlation=correlated.correlation if correlated else None,
        gap=threshold.gap if threshold else None,
        low_threshold=threshold.low_threshold if threshold else None,
        threshold=threshold.threshold if threshold else None,
        delta_gauss=mechanism.delta_gauss(request.mechanism_epsilon),
        delta_inf=threshold.delta_infinity() if threshold else None,
        error95=error95(mechanism),
        released_50=threshold.count_released_with(0.5) if threshold else None,
        released_95=threshold.count_released_with(0.95) if threshold else None,
        theorem=mechanism.theorem,
        choice=request.choice,
        choice_epsilon=request.choice_epsilon,
        budget_split=mechanism.budget_split() if isinstance(mechanism, AdaptiveGaussian) else None,
    )


def error95(mechanism: Mechanism) -> float:
    """What the error of a count stays below, in absolute value, with 95 % probability."""
    return mechanism.noise_quantile(0.975)


def objective_value(mechanism: Mechanism, objective: Objective) -> float:
    """What a choice minimises. Without a threshold only the noise is left to compare."""
    threshold = thresholded(mechanism)
    if threshold is None or objective == "noise":
        return mechanism.noise_std
    return threshold.gap if objective == "gap" else threshold.count_released_with(0.95)
