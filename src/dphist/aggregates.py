"""One aggregate besides the count, as an engine sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from dphist import checks
from dphist.errors import InvalidParameter

Kind = Literal["sum", "mean", "rows"]

MOST_STEPS: Final = 2**40
_RECORD_BITS: Final = 40
_LARGEST_BOUND: Final = 2.0**960


@dataclass(frozen=True, slots=True)
class Measure:
    """A sum, mean or number of records, clamped per unit and group and counted in whole steps from the centre.

    One unit adds at most `sensitivity_steps` steps, in either direction, to the recentred sum of one group.
    """

    name: str
    kind: Kind
    column: str | None
    lower: float
    upper: float
    centre: float
    step: float
    sensitivity_steps: int

    def __post_init__(self) -> None:
        checks.check_choice("kind", self.kind, get_args(Kind))
        if (self.column is None) != (self.kind == "rows"):
            raise InvalidParameter("a column for sums and means, none for rows", repr(self.column))
        if not (-_LARGEST_BOUND <= self.lower < self.upper <= _LARGEST_BOUND):
            raise InvalidParameter(f"bounds lower < upper for {self.name}", f"[{self.lower}, {self.upper}]")
        if not self.lower <= self.centre <= self.upper:
            raise InvalidParameter(f"a centre of {self.name} inside its bounds", self.centre)
        if not (0 < self.step < math.inf and math.frexp(self.step)[0] == 0.5):
            raise InvalidParameter(f"a power of two as the step of {self.name}", self.step)
        least = math.ceil(max(self.upper - self.centre, self.centre - self.lower) / self.step)
        if not least <= self.sensitivity_steps <= MOST_STEPS:
            raise InvalidParameter(f"between {least} and 2^40 steps for {self.name}", self.sensitivity_steps)
        if self.kind != "rows" and self.record_step > self.step:
            raise InvalidParameter(
                f"bounds of {self.name} not so far from zero",
                f"[{self.lower}, {self.upper}]",
                "subtract a public offset from the column first.",
            )

    @property
    def record_step(self) -> float:
        """The finer lattice on which single records are added up: 2^-40 of the larger bound, rounded up to a power of two.

        Adding doubles would make a unit's sum depend on the order of its records, and with it on who else is in the
        table: a scan is cut into pieces by the number of rows. Integers add up to the same sum in every order.
        """
        largest = max(abs(self.lower), abs(self.upper))
        mantissa, exponent = math.frexp(largest)
        ceiling = exponent - 1 if mantissa == 0.5 else exponent
        return math.ldexp(1.0, max(ceiling - _RECORD_BITS, -1060))
