"""What is spent, what is left, and what that means: sums, projections, comparisons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dphist import notebook
from dphist.columns import one_of
from dphist.errors import MissingExtra
from dphist.ledger.chain import SPENDS, Entry
from dphist.ledger.dataset import NOISE, WORDS, DataSet
from dphist.privacy import filters
from dphist.privacy.composition import PrivacyCost, epsilon_of_losses
from dphist.privacy.filters import ACCOUNTANTS, Amount, amount
from dphist.words import budget

_BAR = 30


@dataclass(frozen=True, repr=False)
class Status:
    """A data set and its history."""

    dataset: DataSet
    entries: Sequence[Entry]

    @cached_property
    def spends(self) -> list[Entry]:
        """The entries that cost something."""
        return [entry for entry in self.entries if entry.kind in SPENDS]

    @property
    def unconfirmed(self) -> list[Entry]:
        """Reservations whose result was never confirmed: it may or may not have been seen, so they stay spent."""
        confirmed = {entry.confirmation.entry for entry in self.entries if entry.kind == "commit"}
        return [entry for entry in self.spends if entry.kind == "reserve" and entry.sequence not in confirmed]

    @cached_property
    def costs(self) -> Counter[PrivacyCost]:
        """The costs of all spends, and how often each was spent."""
        return Counter(entry.cost for entry in self.spends)

    @cached_property
    def total(self) -> Amount:
        """The two sums, added up anew from the costs."""
        return self._total(self.dataset.accountant)

    def _total(self, accountant: filters.Accountant) -> Amount:
        return sum((amount(cost, accountant).times(number) for cost, number in self.costs.items()), Amount())

    @property
    def left(self) -> Amount:
        """What is left of the two limits."""
        return self.dataset.limit - self.total

    @property
    def exceeded(self) -> bool:
        """Whether spends recorded from elsewhere went beyond the budget. Charges cannot."""
        return not self.total.within(self.dataset.limit)

    def more_like_the_last(self) -> int | None:
        """How many more spends like the last one fit; None before the first."""
        if not self.spends:
            return None
        one, left = self.dataset.amount(self.spends[-1].cost), self.left
        if self.exceeded:
            return 0
        return min(left.noise // one.noise if one.noise else 2**62, left.delta // one.delta if one.delta else 2**62)

    def comparison(self) -> dict[str, float | None]:
        """The epsilon at the budget's delta by every accountant and by a loss distribution; None for an infinite epsilon."""
        delta = self.dataset.delta
        epsilons = {str(name): filters.composed_epsilon(self._total(name), name, delta) for name in ACCOUNTANTS}
        if not self.exceeded:  # recorded spends have no bound, so a grid of losses could have none
            with suppress(MissingExtra):
                epsilons["pld"] = epsilon_of_losses(self.costs, delta) if self.spends else 0.0
        return {name: epsilon if math.isfinite(epsilon) else None for name, epsilon in epsilons.items()}

    def to_data(self) -> dict[str, Any]:
        """As plain data; shares are of the limits."""
        (noise, delta), dataset, unit = self._shares(), self.dataset, NOISE[self.dataset.accountant]
        return {
            "dataset": dataset.name,
            **{name: getattr(dataset, name) for name in ("epsilon", "delta", "unit", "protects", "accountant")},
            "exceeded": self.exceeded,
            "spends": len(self.spends),
            "unconfirmed": len(self.unconfirmed),
            "spent": {unit: dataset.value(self.total.noise), "delta": dataset.value(self.total.delta)},
            "limit": {unit: dataset.value(dataset.noise_limit), "delta": dataset.value(dataset.delta_limit)},
            "shares": {"noise": noise, "delta": delta},
            "more_like_the_last": self.more_like_the_last(),
            "comparison": self.comparison(),
            "head": self.entries[-1].hash,
        }

    def _shares(self) -> tuple[float, float]:
        total, limit = self.total, self.dataset.limit
        return total.noise / limit.noise, total.delta / limit.delta

    def __str__(self) -> str:
        data, total = self.dataset, self.total
        unit = WORDS[data.protects].replace("one unit", one_of(data.unit))
        noise, delta = self._shares()
        words = f", {len(self.unconfirmed):,} of them reserved and never confirmed: counted, since noise may have been drawn"
        lines = [
            f"{data.name}: epsilon {data.epsilon:g}, delta {data.delta:g} for {unit}; accountant {data.accountant}",
            "",
            f"  {'noise':<8}{_bar(noise)}  {NOISE[data.accountant]} {data.value(total.noise):.4g}"
            f" of {data.value(data.noise_limit):.4g}",
            f"  {'delta':<8}{_bar(delta)}  {data.value(total.delta):.4g} of {data.value(data.delta_limit):.4g}",
            f"  {'spends':<8}{len(self.spends):,}{words if self.unconfirmed else ''}",
            f"  {'more':<8}{self._projection()}",
            "",
            f"  the same spends as a fixed list, at delta {data.delta:g}:",
        ]
        for name, epsilon in self.comparison().items():
            shown = "more than its delta" if epsilon is None else f"epsilon {epsilon:.4g}"
            lines.append(f"    {name:<6}  {shown}{'  (this ledger)' if name == data.accountant else ''}")
        return "\n".join([*lines, "", f"  head    {self.entries[-1].hash}"])

    def __repr__(self) -> str:
        data, (noise, delta) = self.dataset, self._shares()
        spent = f"{100 * noise:.1f} % of the noise and {100 * delta:.1f} % of delta spent"
        return f"Status({data.name!r}: {spent}; {budget(data.epsilon, data.delta)})"

    def _repr_html_(self) -> str:
        data, (noise, delta) = self.dataset, self._shares()
        words = [f"{100 * part:.1f} % of {what} is spent" for part, what in ((noise, "the noise"), (delta, "delta"))]
        facts = [
            (
                "budget",
                f"{budget(data.epsilon, data.delta)} for {one_of(data.unit)}; accountant {data.accountant}",
            ),
            ("spent", f"{'; '.join(words)}; {len(self.spends):,} spends"),
            ("more", self._projection()),
            ("head", self.entries[-1].hash),
        ]
        return notebook.card(f"Budget of {data.name}", facts, notebook.share(max(noise, delta), words[noise < delta]))

    def _projection(self) -> str:
        more = self.more_like_the_last()
        if more is None:
            return "nothing is spent yet"
        if self.exceeded:
            return "none: recorded spends exceed the budget, so its promise does not hold for these people"
        return f"{more:,} more like the last one ({self.spends[-1].spend.command}) fit"


def _bar(share: float) -> str:
    filled = min(_BAR, math.ceil(share * _BAR)) if share > 0 else 0
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {100 * share:5.1f} %"
