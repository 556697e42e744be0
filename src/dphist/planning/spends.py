"""What a command spends, all of it public: a plan, which knows its event, and facts. What fits where the spend does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dphist.columns import Unit
from dphist.errors import Infeasible, InvalidPlan
from dphist.mechanisms import Mechanism, epsilon_at
from dphist.planning import Plan
from dphist.planning.describe import guarantee
from dphist.planning.plan import choose
from dphist.planning.statistics import StatisticPlan
from dphist.planning.top_k import TopKPlan
from dphist.privacy.events import Event, PureEvent

if TYPE_CHECKING:
    from dphist.ledger.dataset import Protects

SMALLEST_SHARE: Final = 64
"""How far below what was asked for an epsilon that fits is looked for."""

Fits: TypeAlias = Callable[[Event], bool]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One mechanism, calibrated for a budget."""

    mechanism: Mechanism
    epsilon: float
    delta: float

    @property
    def event(self) -> Event:
        """What one run spends; a session or a stream is one run."""
        return self.mechanism.event(self.epsilon)

    def with_epsilon(self, epsilon: float) -> Calibrated:
        """The mechanism that the same delta and another epsilon give."""
        return Calibrated(self.mechanism.with_budget(epsilon, self.delta), epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure noise on one number, which has no other parameter."""

    epsilon: float

    @property
    def event(self) -> Event:
        """What it spends."""
        return PureEvent(self.epsilon)

    def with_epsilon(self, epsilon: float) -> Pure:
        """The same with another epsilon."""
        return Pure(epsilon)


Payable: TypeAlias = Plan | Calibrated | Pure
"""What says what it spends, and can be made anew for another epsilon."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What a command is about to spend. `facts`: what the entry of a ledger tells about it."""

    command: str
    unit: Unit
    plan: Payable
    facts: dict[str, Any]
    protects: Protects = "unit"

    @property
    def event(self) -> Event:
        """What is charged."""
        return self.plan.event


def spend_of_plan(plan: Plan, unit: Unit) -> Spend:
    """A release, or a selection of keys."""
    request = plan.request
    facts = {
        "mechanism": " or ".join(dict.fromkeys(branch.name for branch in plan.branches)),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "max_groups": request.max_groups,
        "guarantee": guarantee(request, plan.mechanism, unit),
    }
    return Spend("release" if plan.mechanism.counted else "select", unit, plan, facts)


def spend_of_mechanism(
    command: str, plan: Calibrated, unit: Unit, facts: dict[str, Any], protects: Protects = "unit"
) -> Spend:
    """Anything that is one calibrated mechanism."""
    named = {"mechanism": plan.mechanism.name, "epsilon": plan.epsilon, "delta": plan.delta}
    return Spend(command, unit, plan, {**named, **facts}, protects)


def spend_of_top_k(plan: TopKPlan, unit: Unit) -> Spend:
    """The largest groups."""
    facts = {"k": plan.k, "method": plan.method, "guarantee": plan.guarantee_for(unit)}
    return spend_of_mechanism("top-k", Calibrated(plan.mechanism, plan.epsilon, plan.delta), unit, facts)


def spend_of_statistic(plan: StatisticPlan, unit: Unit) -> Spend:
    """One private number."""
    facts = {"statistic": plan.statistic, "guarantee": plan.privacy(unit)}
    return spend_of_mechanism("stat", Calibrated(plan.mechanism, plan.epsilon, plan.delta), unit, facts)


def advise(plan: Payable, fits: Fits) -> Iterator[str]:
    """The largest epsilon, another mechanism, and the most groups that fit, whatever they lose."""
    if isinstance(plan, Plan):
        plan = replace(plan, request=replace(plan.request, keep_above=None, keep_groups=None))
    if (found := _largest_epsilon(plan, fits)) is not None:
        yield f"with the same delta, epsilon {found:.3g} fits"
    else:
        yield f"with the same delta, not even a {SMALLEST_SHARE}th of epsilon fits"
    if isinstance(plan, Plan):
        if (name := _cheaper(plan)) is not None:
            other = choose(replace(plan.request, mechanism=name))
            if fits(other.event):
                yield f"with --mechanism {name} it fits as it is"
        if (groups := _most_groups(plan, fits)) is not None:
            most, epsilon = groups
            yield f"with the same noise and threshold, --max-groups {most} fits (epsilon {epsilon:.3g})"


def _largest_epsilon(plan: Payable, fits: Fits) -> float | None:
    """The largest epsilon found, to about 4 %, rounded down to what is printed."""

    def holds(epsilon: float) -> bool:
        try:
            return fits(plan.with_epsilon(epsilon).event)
        except (Infeasible, InvalidPlan):
            return False

    low, high = plan.epsilon / 2, plan.epsilon
    while not holds(low):
        low, high = low / 2, low
        if low < plan.epsilon / SMALLEST_SHARE:
            return None
    while high > low * 1.04:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    shown = float(f"{low * 0.996:.3g}")  # at most what was found, with three digits
    return shown if holds(shown) else low


def _cheaper(plan: Plan) -> str | None:
    """Laplace noise adds up badly. Without a choice its branches are not paid for; on a public list there is another noise."""
    request = plan.request
    if request.choice_epsilon:
        return "adaptive"
    if not request.thresholded and plan.mechanism.splits_epsilon and request.delta > 0:
        return "sparse-gaussian"
    return None


def _most_groups(plan: Plan, fits: Fits) -> tuple[int, float] | None:
    """The most groups per unit that fit with the same noise, and their epsilon; None where it is not the noise alone."""
    if len(plan.branches) > 1 or plan.request.total_scale is not None or plan.request.sized:
        return None
    if plan.mechanism.with_groups(1) is None:
        return None

    def spent(groups: int) -> tuple[float, Event]:
        other = plan.mechanism.with_groups(groups)
        assert other is not None
        epsilon = epsilon_at(other, plan.delta)
        return epsilon, other.event(epsilon)

    low, high = 0, plan.mechanism.max_groups
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(spent(middle)[1]) else (low, middle)
    return None if low == 0 else (low, spent(low)[0])
