"""How many records are dropped for which epsilon, delta and number of records: [BCDP22] Remark 2 and H.4 with exact numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dphist.mechanisms import TruncatedLaplace

EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
DELTAS: Final = (1e-5, 2.0**-20, 1e-8)


@dataclass(frozen=True, slots=True)
class TradeOff:
    """One row of the table: what a budget costs in dropped records."""

    epsilon: float
    delta: float
    q: int
    dropped: int
    records_needed: int

    def share_of(self, records: int) -> Fraction:
        """The largest share of so many records that can be dropped."""
        return min(Fraction(1), Fraction(self.dropped, records))


def trade_offs(bars: int, drop: float, max_records: int = 1, own: tuple[float, float] | None = None) -> list[TradeOff]:
    """The table for so many bars and a share of records that may be dropped; `own` is one budget more."""
    budgets = {(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS} | ({own} if own is not None else set())
    rows = []
    for epsilon, delta in sorted(budgets, key=lambda budget: (budget[0], -budget[1])):
        q = TruncatedLaplace.for_budget(epsilon, delta, max_records).q
        needed = math.ceil(bars * q / Fraction(repr(float(drop))))
        rows.append(TradeOff(epsilon, delta, q, bars * q, needed))
    return rows
