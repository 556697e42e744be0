"""Entries, each carrying the hash of the one before: an edit anywhere breaks every hash after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from dphist.checks import Check
from dphist.columns import unit_in_words
from dphist.errors import UnusableLedger
from dphist.files import stored
from dphist.ledger.dataset import DataSet, Whole
from dphist.privacy.composition import PrivacyCost
from dphist.privacy.filters import Amount
from dphist.words import hash_of

Kind = Literal["create", "reserve", "commit", "record"]
SPENDS: Final = ("reserve", "record")
BEGINNING: Final = "0" * 64
BUDGET: Final = "budget"
"""The check that a true history can fail: spends from elsewhere are recorded whether they fit or not."""

_MISSING: Final = "is not in the chain: entries were cut off, or the chain was made anew"


@dataclass(frozen=True, slots=True)
class Spent:
    """The part that every spend has: its command or note, and its cost. Other facts depend on the command."""

    command: str
    cost: PrivacyCost
    note: str = ""
    mechanism: str = ""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A reservation that has its result, and the file of the result."""

    entry: int
    output: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a data set's history. `noise_total` and `delta_total` are the sums after it; the body holds public facts."""

    dataset: str
    sequence: int
    time: str
    kind: Kind
    body: dict[str, Any]
    noise_total: Whole
    delta_total: Whole
    previous: str
    hash: str = ""

    @property
    def total(self) -> Amount:
        """The sums after this entry."""
        return Amount(self.noise_total, self.delta_total)

    @property
    def cost(self) -> PrivacyCost:
        """The cost of a spend."""
        return self.spend.cost

    @property
    def spend(self) -> Spent:
        """The body of a spend."""
        return stored.build(Spent, self.body, self.place, extra="ignore", error=UnusableLedger)

    @property
    def confirmation(self) -> Confirmation:
        """The body of a commit."""
        return stored.build(Confirmation, self.body, self.place, extra="ignore", error=UnusableLedger)

    @property
    def place(self) -> str:
        """Which entry it is."""
        return f"entry {self.sequence:,} of {self.dataset!a}"

    def in_words(self, *, confirmed: bool) -> str:
        """The entry in a sentence, and whether its clock was wrong or its confirmation is missing."""
        if self.kind == "create":
            dataset = DataSet.from_data(self.body)
            unit = unit_in_words(dataset.unit)
            words = f"epsilon {dataset.epsilon:g}, delta {dataset.delta:g}, unit {unit}, {dataset.accountant}"
        elif self.kind == "commit":
            output, result = self.confirmation.output, f"the result of entry {self.confirmation.entry:,} was"
            unknown = f"{result} returned; where it was written, if at all, is not known here"
            words = f"{result} written to {output}" if output else unknown
        else:
            spend, cost = self.spend, self.cost
            words = (
                f"{spend.command} {spend.note or spend.mechanism}: epsilon {cost.epsilon:.4g}, delta {cost.delta:.3g};"
            )
            words += f" rho {cost.rho:.4g}; mu {cost.mu:.4g}"
        if not confirmed:
            words += ". Never confirmed: it may have been cut short. Counted, since noise may have been drawn"
        return words + (f". The clock was {self.body['clock']}" if "clock" in self.body else "")

    def digest(self) -> str:
        """SHA-256 over the canonical JSON of everything but the hash itself, the previous hash included."""
        data = self.to_data()
        del data["hash"]
        return hash_of(data)

    def to_data(self) -> dict[str, Any]:
        """The entry as JSON has it."""
        return {**asdict(self), "noise_total": str(self.noise_total), "delta_total": str(self.delta_total)}


def verify(entries: Sequence[Entry], head: str | None = None) -> list[Check]:
    """Recompute every hash, every sum and the limit, and look for an exported head."""
    problem = next(_problems(entries), None)
    checks = [Check("chain", problem is None, problem or f"{len(entries):,} entries, every hash holds")]
    if problem is None:
        wrong = next(_wrong_sums(entries), None)
        checks.append(Check("sums", wrong is None, wrong or "add up to what the entries say"))
        if wrong is None:
            within = entries[-1].total.within(DataSet.from_data(entries[0].body).limit)
            words = "is kept" if within else "exceeded by recorded spends; no charge passed it"
            checks.append(Check(BUDGET, within, words))
    if head is not None:
        place = next((entry.sequence for entry in entries if entry.hash == head), None)
        checks.append(Check("head", place is not None, _MISSING if place is None else f"is entry {place:,}"))
    return checks


def _problems(entries: Sequence[Entry]) -> Iterator[str]:
    previous = BEGINNING
    for place, entry in enumerate(entries):
        if entry.sequence != place:
            yield f"entry {place:,} is missing"
        elif entry.previous != previous:
            yield f"entry {place:,} does not follow the one before it"
        elif entry.digest() != entry.hash:
            yield f"entry {place:,} was changed"
        elif (entry.kind == "create") != (place == 0):
            yield f"entry {place:,} is of the wrong kind"
        previous = entry.hash


def _wrong_sums(entries: Sequence[Entry]) -> Iterator[str]:
    try:
        dataset = DataSet.from_data(entries[0].body)
    except UnusableLedger as problem:
        yield str(problem)
        return
    try:
        total, open_, reserved = Amount(), set[int](), False
        for entry in entries[1:]:
            if entry.kind in SPENDS:
                total += dataset.amount(entry.cost)
                if entry.kind == "reserve":
                    if not total.within(dataset.limit):
                        yield f"entry {entry.sequence:,} was charged beyond the budget"
                    if dataset.protects == "event" and reserved:
                        yield f"entry {entry.sequence:,} is a second stream, whose rounds are other events"
                    reserved = True
                    open_.add(entry.sequence)
            elif (reservation := entry.confirmation.entry) in open_:
                open_.remove(reservation)
            else:
                yield f"entry {entry.sequence:,} confirms a reservation that is not open"
            if entry.total != total:
                yield f"the sums of entry {entry.sequence:,} are wrong"
    except UnusableLedger as problem:
        yield str(problem)
