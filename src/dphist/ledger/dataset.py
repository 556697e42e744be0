"""A data set of a ledger: a budget about people, fixed when it is created, and the accountant that suits it."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

from dphist import checks
from dphist.columns import Unit, unit_in_words, unit_of
from dphist.errors import InvalidParameter, UnusableLedger
from dphist.files import stored
from dphist.ledger.accountant import price
from dphist.mechanisms.surcharge import LARGEST_EPSILON
from dphist.privacy import filters
from dphist.privacy.composition import PrivacyCost
from dphist.privacy.events import Event
from dphist.privacy.filters import Accountant, Amount
from dphist.privacy.gaussian import largest_mu

Protects = Literal["unit", "event"]
PROTECTS: Final[tuple[Protects, ...]] = get_args(Protects)
WORDS: Final = {"unit": "all records of one unit", "event": "what one unit adds in one round"}
NOISE: Final = {"basic": "epsilon", "gdp": "mu^2", "zcdp": "rho"}
"""The number in which each accountant counts noise."""

OTHER_VERSIONS: Final = 10**9
"""Limits that were computed by other versions of numerical libraries may differ by one part in so many."""

_DIGITS: Final = re.compile(r"-?[0-9]{1,1000}", re.ASCII)


def check_new_name(name: str) -> None:
    """Refuse names that could be taken for others: each would have a budget of its own."""
    if name != name.strip() or name != unicodedata.normalize("NFC", name):
        expected = "a name of a data set without blanks around it, its accents composed (NFC)"
        raise InvalidParameter(expected, ascii(name), "type it anew.")


def folded(name: str) -> str:
    """A form of a name: people mix up names of the same form."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _whole(text: Any) -> int:
    if not isinstance(text, str) or _DIGITS.fullmatch(text) is None:
        raise InvalidParameter("a whole number in digits", "something else")
    return int(text)


Whole: TypeAlias = Annotated[int, stored.StoredAs(_whole)]
"""A whole number, written as text: it is longer than the numbers of JSON."""


@dataclass(frozen=True, slots=True)
class _Limits:
    noise_limit: Whole
    delta_limit: Whole


@dataclass(frozen=True, slots=True)
class DataSet:
    """A total budget (epsilon, delta) for the people in `unit`, and how spends are added up. Nothing of it ever changes.

    The limits follow from the budget. They are kept with it, so that another version of a numerical library does not move them.

    Args:
        name: of the data set.
        epsilon: how much all releases together may change the odds, for one unit.
        delta: the probability of failure that is allowed for all of them.
        unit: the column that names the person protected.
        accountant: how spends are added up: ``basic``, ``gdp`` or ``zcdp``.
        protects: ``unit``, adding or removing all records of one unit; ``event``, what one unit adds in one round of a stream.
        delta_share: the part of delta for the d's, for gdp and zcdp.

    Raises:
        InvalidParameter: a value outside its domain.

    Example:
        >>> dp.DataSet("events", 2, 1e-6, "user_id", "gdp").unit
        'user_id'
    """

    name: str
    epsilon: float
    delta: float
    unit: Unit
    accountant: Accountant
    protects: Protects = "unit"
    delta_share: float = filters.DELTA_SHARE
    noise_limit: int = field(init=False, repr=False)
    delta_limit: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.name and len(self.name) <= 200 and self.name.isprintable()):
            raise InvalidParameter("a name of a data set of 1 to 200 printable characters", repr(self.name[:210]))
        if not self.unit:
            raise InvalidParameter("the column that names the unit protected", "nothing", "add --unit COLUMN.")
        object.__setattr__(self, "unit", unit_of(self.unit))
        checks.check_budget(self.epsilon, self.delta)
        if self.epsilon > LARGEST_EPSILON:
            hint = "beyond it the noise samplers are not exact enough to add up."
            raise InvalidParameter(f"a budget with epsilon of at most {LARGEST_EPSILON:g}", self.epsilon, hint)
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
        """The data set as JSON has it. Its limits are decimal texts, since they are longer than JSON's numbers."""
        return {
            **asdict(self),
            "numerals": "decimal",
            "noise_limit": str(self.noise_limit),
            "delta_limit": str(self.delta_limit),
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> DataSet:
        """The inverse of `to_data`; further fields are ignored. Limits above those of the budget are refused."""
        source = "the first entry of a data set"
        if data.get("numerals") != "decimal":
            hint = "an older dphist wrote it; charge to a new data set."
            raise UnusableLedger("a data set whose sums are decimal", "one with others", hint)
        given = {field.name: data[field.name] for field in fields(cls) if field.init and field.name in data}
        dataset = stored.build(cls, given, source, error=UnusableLedger)
        kept = stored.build(_Limits, data, source, extra="ignore", error=UnusableLedger)
        limit, most = Amount(kept.noise_limit, kept.delta_limit), dataset.limit
        slack = Amount(most.noise // OTHER_VERSIONS, most.delta // OTHER_VERSIONS)
        if min(limit.noise, limit.delta) <= 0 or not limit.within(most + slack):
            allowed = f"limits that the budget of {dataset.name!r} allows: {dataset.words(most)}"
            raise UnusableLedger(allowed, "others", "they were changed.")
        dataset._set_limits(limit)
        return dataset

    def price(self, event: Event) -> PrivacyCost:
        """What an event costs in this budget."""
        return price(event, self.epsilon)

    def amount(self, cost: PrivacyCost) -> Amount:
        """What a cost adds to the two sums."""
        return filters.amount(cost, self.accountant)

    def value(self, units: int) -> float:
        """A sum as a number."""
        return filters.value(units)

    def check_charge(self, unit: Unit, protects: Protects) -> None:
        """Refuse guarantees about other neighbours: they do not add up."""
        checks.check_choice("what is protected", protects, PROTECTS)
        if protects != self.protects:
            expected = f"a guarantee for {WORDS[self.protects]}, as {self.name!r} protects"
            hint = "neither implies the other with the same epsilon; keep a data set of its own for it."
            raise InvalidParameter(expected, f"one for {WORDS[protects]}", hint)
        if unit != self.unit:
            hint = (
                "guarantees about different units do not add up; keep a data set for each, or name the column the same."
            )
            raise InvalidParameter(
                f"the unit {unit_in_words(self.unit)!r}, as {self.name!r} protects", repr(unit_in_words(unit)), hint
            )

    def words(self, total: Amount) -> str:
        """A pair of sums in words."""
        noise, delta = self.value(max(total.noise, 0)), self.value(max(total.delta, 0))
        return f"{NOISE[self.accountant]} {noise:.4g} and delta {delta:.4g}"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The noise of one of `releases` equal releases under each accountant: Gaussian, on a count, one group per unit."""

    releases: int
    noise_std: dict[Accountant, float]

    @property
    def accountant(self) -> Accountant:
        """The one with the least noise."""
        return min(self.noise_std, key=self.noise_std.__getitem__)

    def __str__(self) -> str:
        best = self.noise_std[self.accountant]
        plural = "s" if self.releases > 1 else ""
        lines = [f"{self.releases:,} equal release{plural} of counts, one group per unit, Gaussian noise:", ""]
        for name, std in self.noise_std.items():
            more = "recommended" if name == self.accountant else f"+{100 * (std / best - 1):.1f} %"
            lines.append(f"  {name:<6}  noise std {std:10.4g}   {more}")
        return "\n".join(
            [*lines, "", "  zcdp is for spends with discrete noise, or known as rho: gdp pays more for those."]
        )


def recommend(epsilon: float, delta: float, releases: int, delta_share: float = filters.DELTA_SHARE) -> Recommendation:
    """Compare the accountants for `releases` equal releases: the noise that each leaves for one of them.

    basic gives each release epsilon/n and delta/n; the exact noise for one group uses the whole delta/n. gdp and zcdp give
    each release an n-th of their limits.
    """
    checks.check_budget(epsilon, delta)
    checks.check_whole("the number of releases", releases)
    noise_std: dict[Accountant, float] = {}
    for name in filters.ACCOUNTANTS:
        if name == "basic":
            noise_std[name] = 1 / largest_mu(epsilon / releases, delta / releases)
        else:
            noise = filters.value(filters.limit(name, epsilon, delta, delta_share).noise)
            noise_std[name] = math.sqrt(releases / (noise if name == "gdp" else 2 * noise))
    return Recommendation(releases, noise_std)
