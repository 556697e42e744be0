"""The exact attack: the divergence of enumerated output laws at many epsilons against the claimed profile."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from dphist.audit.findings import Claim, Finding, Pair
from dphist.audit.laws import hockey_stick

EPSILONS: Final = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""What the rounding of an enumeration may add: sums of up to 10^7 doubles."""

LEAST_CLAIM: Final = 1e-9
"""Below it a claim is compared but not used to tell how tight it is."""


def exact(claim: Claim) -> Finding:
    """Compare at every epsilon, in both directions, over all neighbours; report where the claim is tightest."""
    assert claim.pairs is not None
    found = profile(claim.pairs())
    worst = max(found, key=lambda at: _excess(found[at][0], claim.delta(at)))
    broken = _excess(found[worst][0], claim.delta(worst)) > 0
    shown = worst if broken else max(found, key=lambda at: _tightness(found[at][0], claim.delta(at)))
    delta, where = found[shown]
    claimed = claim.delta(shown)
    return Finding(
        claim=claim.name,
        attack="exact",
        setting=claim.setting,
        holds=not broken,
        detail=where,
        epsilon=shown,
        claimed=claimed,
        attacked=delta,
        attacked_epsilon=_epsilon_at(found, claimed),
    )


def profile(pairs: Iterable[Pair]) -> dict[float, tuple[float, str]]:
    """At each epsilon the largest divergence, and the pair and direction that have it."""
    found = dict.fromkeys(EPSILONS, (0.0, "no difference"))
    for pair in pairs:
        for epsilon in EPSILONS:
            for p, q, way in ((pair.with_, pair.without, "added"), (pair.without, pair.with_, "removed")):
                delta = hockey_stick(p, q, epsilon)
                if delta > found[epsilon][0]:
                    found[epsilon] = (delta, f"{pair.name}, unit {way}")
    return found


def _excess(delta: float, claimed: float) -> float:
    """How far above the claim, beyond what rounding explains, in units of the claim."""
    return (delta - claimed * (1 + RELATIVE) - ABSOLUTE) / max(claimed, ABSOLUTE)


def _tightness(delta: float, claimed: float) -> float:
    return delta / claimed if LEAST_CLAIM <= claimed < 1 else -1.0


def _epsilon_at(found: dict[float, tuple[float, str]], delta: float) -> float | None:
    """The largest epsilon of the grid at which the attack still has this delta; None if it never has."""
    reached = [epsilon for epsilon, (value, _) in found.items() if value >= delta * (1 - RELATIVE)]
    return max(reached) if reached and not math.isclose(delta, 0.0) else None
