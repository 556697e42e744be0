"""The mechanisms that could serve a request, each calibrated as well as it can be."""

from __future__ import annotations

from collections.abc import Iterator

from dphist.errors import Infeasible, InvalidParameter
from dphist.mechanisms import GROUP_MECHANISMS, GroupMechanism
from dphist.mechanisms.base import Builder
from dphist.planning.request import Request


def candidates(request: Request) -> tuple[list[GroupMechanism], list[Infeasible]]:
    """Every calibrated mechanism for the request, and why the others are not among them."""
    feasible: list[GroupMechanism] = []
    infeasible: list[Infeasible] = []
    for build in _builders(request):
        try:
            mechanism = build()
            _check_drawable(mechanism, request)
        except Infeasible as problem:
            infeasible.append(problem)
            continue
        if mechanism.delta(request.mechanism_epsilon) > request.mechanism_delta:  # only the forward map is trusted
            raise AssertionError(f"{mechanism} misses its own target")
        feasible.append(mechanism)
    return feasible, infeasible


def _check_drawable(mechanism: GroupMechanism, request: Request) -> None:
    """Refuse, before anything is charged, noise on sums beyond what samplers draw."""
    if not mechanism.counted:
        return
    try:
        mechanism.noisy(request.measures)
    except InvalidParameter:
        hint = "raise epsilon, or lower --records or how far weights are apart."
        raise Infeasible("noise on sums that can be drawn", "more", hint) from None


def _builders(request: Request) -> Iterator[Builder]:
    """What each mechanism offers."""
    for mechanism in GROUP_MECHANISMS:
        yield from mechanism.for_request(request)
