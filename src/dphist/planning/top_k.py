"""Plans for the largest groups: which mechanism, how much noise, which threshold. No data is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from dphist import checks
from dphist.errors import InvalidParameter, InvalidPlan
from dphist.mechanisms import correlated_top_k, from_top, ranked
from dphist.mechanisms.correlated_top_k import CorrelatedTopK
from dphist.mechanisms.from_top import FromTop
from dphist.mechanisms.ranked import Ranked
from dphist.planning.describe import number
from dphist.planning.sentence import check_neighbours, layout, sentence

Method = Literal["correlated", "from-top", "ranked"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)

DEFAULT_SHORTLIST: Final = 10
"""Without a shortlist a ranked list chooses among ten times as many groups as it may return."""


@dataclass(frozen=True, slots=True)
class TopKPlan:
    """The largest groups for a budget. Check or print it before any record is read."""

    epsilon: float
    delta: float
    k: int
    method: Method
    mechanism: CorrelatedTopK | FromTop | Ranked

    def __post_init__(self) -> None:
        made = self.mechanism
        kind, most = {
            "correlated": (CorrelatedTopK, getattr(made, "k", None)),
            "from-top": (FromTop, getattr(made, "most_groups", None)),
            "ranked": (Ranked, getattr(made, "symbols", None)),
        }[self.method]
        if not isinstance(made, kind) or most != self.k or not made.delta(self.epsilon) <= self.delta:
            raise InvalidPlan(
                f"Expected a mechanism for the {self.k} largest groups that meets the budget, got another."
            )

    @property
    def needed(self) -> int:
        """How many of the largest groups the source has to give."""
        return (self.mechanism.shortlist if isinstance(self.mechanism, Ranked) else self.k) + 1

    @property
    def max_groups(self) -> int | None:
        """The bound on the groups of a unit that the engine has to keep; None where there is none."""
        return self.mechanism.max_groups if isinstance(self.mechanism, FromTop) else None

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence, with its theorem."""
        return sentence(self.mechanism, self.epsilon, self.delta)

    def __str__(self) -> str:
        facts = [*self.facts(), ("guarantee", self.guarantee), ("provided", f"{self.mechanism.assumption}.")]
        return layout(f"Plan: at most {self.k:,} largest groups, {self.method}", facts)

    def facts(self) -> list[tuple[str, str]]:
        """Noise and threshold, or the choices, in words."""
        made = self.mechanism
        if isinstance(made, Ranked):
            return [
                (
                    "k",
                    f"at most {self.k:,} keys in order, without counts; each of them costs, and so does an early end",
                ),
                (
                    "choices",
                    f"one key after the other, each with epsilon {number(made.symbol_epsilon)}: a group that is"
                    f" {number(1 / made.symbol_epsilon)} units larger is e times as likely to come first",
                ),
                (
                    "shortlist",
                    f"the {made.shortlist:,} largest groups may be chosen; a longer one costs a little in the threshold",
                ),
                (
                    "end",
                    f"the list ends early when no group is clearly more than {made.threshold:,} above the next largest",
                ),
            ]
        base = f"the {self.k + 1:,}-th largest count"
        return [
            ("k", f"at most {self.k:,} groups; a larger k compares with a smaller {base[4:]}, under more noise"),
            *self._noise_facts(),
            (
                "noise",
                f"std {number(made.noise_std)} on every count; 95 % of them within ±{number(1.96 * made.noise_std)}",
            ),
            (
                "threshold",
                f"a group is released when its noisy count exceeds {base} by {number(made.threshold)}, that count being"
                f" noisy too: with probability 95 % when it is {number(made.excess_released_with_95)} larger",
            ),
        ]

    def _noise_facts(self) -> list[tuple[str, str]]:
        made = self.mechanism
        if isinstance(made, CorrelatedTopK):
            common, base = (made.independent_std * math.sqrt(c) for c in (made.correlation, made.base_variance))
            return [
                (
                    "parts",
                    f"std {number(made.independent_std)} of each group's own, std {number(common)} common to all (it cancels in"
                    f" the counts), std {number(base)} of the {self.k + 1:,}-th count: shares of 1 : {number(made.correlation)}"
                    f" : {number(made.base_variance)} in variance, chosen for this k",
                )
            ]
        if isinstance(made, FromTop) and made.max_groups is not None:
            said = f"{made.max_groups:,} for each unit, chosen at random if it has more; noise grows with its root, up to k + 1"
        else:
            said = f"not bounded: the noise is for all {self.k + 1:,} largest groups; a bound lowers it"
        return [("max groups", said)]


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
    """Choose noise and threshold for the k largest groups.

    correlated: noisy counts with noise common to all, any number of groups per unit. from-top: noisy counts, for a source
    that gives only its k + 1 largest groups; `max_groups` may bound the groups of a unit. ranked: keys in order, without
    counts, chosen among the `shortlist` largest groups; any number of groups per unit.
    """
    check_neighbours(neighbours)
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
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
    mechanism: CorrelatedTopK | FromTop | Ranked
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
