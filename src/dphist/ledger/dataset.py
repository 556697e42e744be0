"""What a data set is in a ledger: a budget about people, fixed when it is created."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, get_args

from dphist import checks
from dphist.errors import InvalidParameter, UnusableLedger
from dphist.mechanisms.base import LARGEST_EPSILON
from dphist.privacy import filters
from dphist.privacy.filters import Accountant, Amount

Protects = Literal["unit", "event"]
PROTECTS: Final[tuple[Protects, ...]] = get_args(Protects)
WORDS: Final = {"unit": "all records of one unit", "event": "what one unit adds in one round"}
NOISE: Final = {"basic": "epsilon", "gdp": "mu^2", "zcdp": "rho"}
"""What the noise is counted in."""

OTHER_VERSIONS: Final = 10**9
"""Limits that were computed by other versions of numerical libraries may differ by one part in so many."""


def check_new_name(name: str) -> None:
    """Refuse names that could be taken for others: each would have a budget of its own."""
    if name != name.strip() or name != unicodedata.normalize("NFC", name):
        raise InvalidParameter(
            "a name of a data set without blanks around it, its accents composed (NFC)", ascii(name), "type it anew."
        )


def folded(name: str) -> str:
    """Names with the same form are mixed up by people."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


@dataclass(frozen=True, slots=True)
class DataSet:
    """A total budget (epsilon, delta) for the people in `unit`, and how spends are added up. Nothing of it ever changes.

    protects: ``unit``, adding or removing all records of one unit; ``event``, what one unit adds in one round of a stream.
    delta_share: the part of delta for the d's, for gdp and zcdp. The limits follow from the budget. They are kept
    with it, so that another version of a numerical library does not move them.
    """

    name: str
    epsilon: float
    delta: float
    unit: str
    accountant: Accountant
    protects: Protects = "unit"
    delta_share: float = filters.DELTA_SHARE
    noise_limit: int = field(init=False)
    delta_limit: int = field(init=False)

    def __post_init__(self) -> None:
        if not (self.name and len(self.name) <= 200 and self.name.isprintable()):
            raise InvalidParameter("a name of a data set of 1 to 200 printable characters", repr(self.name[:210]))
        if not self.unit:
            raise InvalidParameter("the column that names the unit protected", "nothing", "add --unit COLUMN.")
        checks.check_epsilon(self.epsilon)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameter(
                f"a budget with epsilon of at most {LARGEST_EPSILON:g}",
                self.epsilon,
                "beyond it the noise samplers are not exact enough to add up.",
            )
        checks.check_delta(self.delta)
        checks.check_choice("the accountant", self.accountant, filters.ACCOUNTANTS)
        checks.check_choice("what is protected", self.protects, PROTECTS)
        if not 0 < self.delta_share < 1:
            raise InvalidParameter("a share of delta in (0, 1)", self.delta_share, "0.5 is the default.")
        self._set_limits(filters.limit(self.accountant, self.epsilon, self.delta, self.delta_share))

    def _set_limits(self, limit: Amount) -> None:
        object.__setattr__(self, "noise_limit", limit.noise)
        object.__setattr__(self, "delta_limit", limit.delta)

    @property
    def limit(self) -> Amount:
        """The limits of the two sums."""
        return Amount(self.noise_limit, self.delta_limit)

    def to_data(self) -> dict[str, Any]:
        """As JSON has it; the limits are longer than its numbers."""
        return {**asdict(self), "noise_limit": str(self.noise_limit), "delta_limit": str(self.delta_limit)}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> DataSet:
        """The inverse of `to_data`; further fields are ignored. Limits above those of the budget are refused."""
        made = cls(**{field.name: data[field.name] for field in fields(cls) if field.init})
        stored, most = Amount(int(data["noise_limit"]), int(data["delta_limit"])), made.limit
        slack = Amount(most.noise // OTHER_VERSIONS, most.delta // OTHER_VERSIONS)
        if min(stored.noise, stored.delta) <= 0 or not stored.within(most + slack):
            raise UnusableLedger(
                f"limits that the budget of {made.name!r} allows: {made.words(most)}",
                made.words(stored),
                "they were changed.",
            )
        made._set_limits(stored)
        return made

    def check_charge(self, unit: str, protects: Protects) -> None:
        """Only guarantees about the same neighbours add up."""
        checks.check_choice("what is protected", protects, PROTECTS)
        if protects != self.protects:
            raise InvalidParameter(
                f"a guarantee for {WORDS[self.protects]}, as {self.name!r} protects",
                f"one for {WORDS[protects]}",
                "neither implies the other with the same epsilon; keep a data set of its own for it.",
            )
        if unit != self.unit:
            raise InvalidParameter(
                f"the unit {self.unit!r}, as {self.name!r} protects",
                repr(unit),
                "guarantees about different units do not add up; keep a data set for each, or name the column the same.",
            )

    def words(self, total: Amount) -> str:
        """A pair of sums in words."""
        noise, delta = filters.value(max(total.noise, 0)), filters.value(max(total.delta, 0))
        return f"{NOISE[self.accountant]} {noise:.4g} and delta {delta:.4g}"
