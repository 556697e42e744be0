"""Plans for the largest groups: which mechanism, how much noise, which threshold. No data is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from dphist import checks, notebook
from dphist.columns import Unit
from dphist.errors import InvalidParameter, InvalidPlan
from dphist.mechanisms import correlated_top_k, from_top, ranked
from dphist.mechanisms.lists import ListMechanism
from dphist.planning.describe import check_neighbours, layout, sentence
from dphist.words import budget

Method = Literal["correlated", "from-top", "ranked"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)

DEFAULT_SHORTLIST: Final = 10
"""Without a shortlist a ranked list chooses among ten times as many groups as it may return."""


@dataclass(frozen=True, slots=True, repr=False)
class TopKPlan:
    """The largest groups for a budget. Check or print it before any record is read.

    Example:
        >>> plan = dp.plan_top_k(k=50, epsilon=1, delta=1e-8)
        >>> plan
        TopKPlan(k 50, correlated; epsilon 1, delta 1e-08)
        >>> plan.needed
        51
    """

    epsilon: float
    delta: float
    k: int
    method: Method
    mechanism: ListMechanism

    def __post_init__(self) -> None:
        fits = self.mechanism.method == self.method and self.mechanism.length == self.k
        if not (fits and self.mechanism.delta(self.epsilon) <= self.delta):
            raise InvalidPlan(
                f"Expected a mechanism for the {self.k} largest groups that meets the budget, got another."
            )

    @property
    def needed(self) -> int:
        """How many of the largest groups the source has to give."""
        return self.mechanism.needed

    @property
    def max_groups(self) -> int | None:
        """The bound on the groups of a unit that the engine has to keep; None where there is none."""
        return self.mechanism.max_groups

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence, with its theorem."""
        return self.guarantee_for(None)

    def guarantee_for(self, unit: Unit | None) -> str:
        """The guarantee in one sentence, for a unit.

        Args:
            unit: who is protected.

        Returns:
            The sentence, with its theorem.

        Example:
            >>> "one combination of user and day" in dp.plan_top_k(k=5, epsilon=1, delta=1e-8).guarantee_for(("user", "day"))
            True
        """
        return sentence(self.mechanism, self.epsilon, self.delta, unit)

    def __str__(self) -> str:
        return layout(*self._told())

    def __repr__(self) -> str:
        return f"TopKPlan(k {self.k}, {self.method}; {budget(self.epsilon, self.delta)})"

    def _repr_html_(self) -> str:
        return notebook.card(*self._told())

    def _told(self) -> tuple[str, list[tuple[str, str]]]:
        facts = [
            *self.mechanism.facts(self.k),
            ("guarantee", self.guarantee),
            ("provided", f"{self.mechanism.assumption}."),
        ]
        return f"Plan: at most {self.k:,} largest groups, {self.method}", facts


def plan_top_k(
    *,
    k: int,
    epsilon: float,
    delta: float,
    method: Method = "correlated",
    max_groups: int | None = None,
    shortlist: int | None = None,
    neighbours: str = "add-remove",
) -> TopKPlan:
    """Choose noise and threshold for the k largest groups. Touches no data.

    Args:
        k: how many groups to list at most.
        epsilon: how much one unit may change the odds of any result.
        delta: the probability of failure that is allowed.
        method: ``correlated``: noisy counts with noise common to all. ``from-top``: noisy counts, for a source that gives
            only its k + 1 largest groups. ``ranked``: keys in order, without counts. A unit may be in any number of groups.
        max_groups: for ``from-top``, the most groups of one unit.
        shortlist: for ``ranked``, how many of the largest groups to choose among.
        neighbours: ``add-remove``, the only notion of neighbours.

    Returns:
        The plan, for `dphist.top_k` and `dphist.release_largest`.

    Raises:
        InvalidParameter: a value outside its domain, or one that the method cannot use.

    Example:
        >>> dp.plan_top_k(k=10, epsilon=1, delta=1e-8, method="ranked").mechanism.shortlist
        100
    """
    check_neighbours(neighbours)
    checks.check_budget(epsilon, delta)
    checks.check_whole("k", k)
    checks.check_choice("method", method, METHODS)
    if max_groups is not None and method != "from-top":
        raise InvalidParameter(
            f"no max_groups with {method}",
            max_groups,
            "one unit can move all of the largest groups however few it is in; only from-top can use a bound.",
        )
    if shortlist is not None and method != "ranked":
        raise InvalidParameter(f"no shortlist with {method}", shortlist, "only ranked chooses from one.")
    mechanism: ListMechanism
    if method == "correlated":
        mechanism = correlated_top_k.calibrate(epsilon, delta, k)
    elif method == "from-top":
        if max_groups is not None:
            checks.check_whole("max_groups", max_groups)
        mechanism = from_top.calibrate(epsilon, delta, k, max_groups)
    else:
        wanted = DEFAULT_SHORTLIST * k if shortlist is None else shortlist
        checks.check_whole("shortlist", wanted, k, "the groups that may be chosen; at least k.")
        mechanism = ranked.calibrate(epsilon, delta, k, wanted)
    return TopKPlan(epsilon, delta, k, method, mechanism)
