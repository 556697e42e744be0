"""The mechanisms that could serve a request, each calibrated as well as it can be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dphist.errors import Infeasible
from dphist.mechanisms import GROUP_MECHANISMS, GroupMechanism
from dphist.mechanisms.base import Builder
from dphist.mechanisms.laplace import laplace_threshold
from dphist.mechanisms.sparse_gaussian import sparse_gaussian
from dphist.mechanisms.tuning import Tuning
from dphist.planning.request import Request


def candidates(request: Request) -> tuple[list[GroupMechanism], list[Infeasible]]:
    """Every calibrated mechanism for the request, and why the others are not among them."""
    feasible: list[GroupMechanism] = []
    infeasible: list[Infeasible] = []
    for build in _builders(request):
        try:
            mechanism = build()
        except Infeasible as problem:
            infeasible.append(problem)
            continue
        if mechanism.delta(request.mechanism_epsilon) > request.delta:  # only the forward map is trusted
            raise AssertionError(f"{mechanism} misses its own target")
        feasible.append(mechanism)
    return feasible, infeasible


def _builders(request: Request) -> Iterator[Builder]:
    """What each mechanism offers; or, where the data chooses max_groups, the better law for each bound."""
    if request.undecided and request.choice == "max_groups":
        yield from (partial(_better_law, request.bounded_to(groups)) for groups in Tuning().chosen_groups)
        return
    for mechanism in GROUP_MECHANISMS:
        yield from mechanism.for_request(request)


def _better_law(request: Request) -> GroupMechanism:
    """The law that releases the smaller groups at this bound, or the one asked for."""
    laws: list[GroupMechanism] = []
    if request.mechanism in ("best", "sparse-gaussian"):
        laws.append(sparse_gaussian(request, "exact"))
    if request.mechanism in ("best", "laplace"):
        laws.append(laplace_threshold(request))
    return min(laws, key=lambda mechanism: mechanism.count_released_with(0.95))
