"""Where releases meet the ledger: a spend is charged before a record is read, and confirmed when the result is there.

Why before the first record: a run that fails on one record tells something about it, and failures that cost nothing could be
repeated often. So everything that needs no record is checked first, and a run that fails after the charge stays paid.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import Field

from dphist.checks import check_whole
from dphist.errors import DphistError, EngineFailure, InvalidParameter, UnusableLedger
from dphist.files.interruption import account_for, first_output, held, is_printed
from dphist.files.stored import build
from dphist.planning.spends import Spend, advise
from dphist.words import hash_of, printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dphist.ledger.ledger import Fits


T = TypeVar("T", bound="DataclassInstance")
R = TypeVar("R")
MAYBE: Final = "It may have been charged to {}: dphist ledger history tells."
UNPUBLISHED: Final = "Nothing was published"
NOT_RECORDED: Final = "Nothing was recorded in a ledger: keep count of what you release about these people."


@dataclass(frozen=True, slots=True)
class Receipt:
    """Which entry of which data set paid for a result. Its hash fixes everything before it."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    dataset: Annotated[str, Field(min_length=1)]
    entry: int
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    def __post_init__(self) -> None:
        check_whole("the entry of a ledger", self.entry, 0)

    def to_data(self) -> dict[str, Any]:
        """The receipt as metadata has it, without the address of the ledger."""
        return asdict(self)

    def __str__(self) -> str:
        return f"Charged to {self.dataset!r}, entry {self.entry:,}, head {self.hash}"


class Charge:
    """One spend on its way: `check` early, call it before the first record is read, `confirm` when the result is there."""

    def __init__(self, address: str | Path, dataset: str, spend: Spend) -> None:
        from dphist.ledger import Ledger

        self._spend = spend
        self._dataset = dataset
        self.receipt: Receipt | None = None
        self._published: str | None = None
        self._asked = False
        self._ledger = Ledger(address)
        try:
            self._budget = self._ledger.dataset(dataset)
        except BaseException:
            self._ledger.close()
            raise

    def check(self) -> None:
        """Refuse a spend that does not fit, before anything is read."""
        spend = self._spend
        cost = self._budget.price(spend.event)
        self._ledger.check(self._dataset, cost, unit=spend.unit, protects=spend.protects, advise=self._advise)

    def __call__(self) -> None:
        """Charge, once. When this returns, the spend is on disk, whatever happens next."""
        assert self.receipt is None, "a source is read once for a charge"
        spend, now = self._spend, dt.datetime.now(dt.UTC)
        with held():
            self._asked = True
            try:
                entry = self._ledger.reserve(
                    self._dataset,
                    self._budget.price(spend.event),
                    unit=spend.unit,
                    protects=spend.protects,
                    command=spend.command,
                    facts=spend.facts,
                    advise=self._advise,
                )
            except UnusableLedger:  # after a lost connection it is open whether the charge was made
                self._asked = self._may_be_there(now)
                raise
            except DphistError:
                self._asked = False
                raise
            self.receipt = Receipt(self._dataset, entry.sequence, entry.hash)

    def _may_be_there(self, since: dt.datetime) -> bool:
        """Whether the ledger has an entry that may be ours, or cannot be asked."""
        try:
            entries = self._ledger.entries(self._dataset)
        except DphistError:
            return True
        command = self._spend.command
        late = [entry for entry in entries if entry.time >= since.isoformat(timespec="microseconds")]
        return any(entry.kind == "reserve" and entry.body.get("command") == command for entry in late)

    def confirm(self, output: str | Path | None = None) -> None:
        """Confirm that the result was written to a file, of which only the name is kept, or that it was returned."""
        assert self.receipt is not None
        with held():
            self._published = None if output is None else Path(output).name
            self._ledger.commit(self._dataset, self.receipt.entry, output=self._published)

    def aftermath(self) -> str:
        """A sentence about the spend of a run that fails now; empty before the charge."""
        if self.receipt is None:
            return MAYBE.format(ascii(self._dataset)) if self._asked else ""
        if self._spend.command in ("session", "continual") and self._published is not None:
            return f"{self.receipt}. {printable(self._published)} is there, and can be used."
        return stays_charged(self.receipt, self._published or first_output())

    def close(self) -> None:
        """Close the connection to the ledger."""
        self._ledger.close()

    def _advise(self, fits: Fits) -> Iterator[str]:
        """Hints at spends that would fit, by the accountant of the data set."""
        return advise(self._spend.plan, lambda event: fits(self._budget.price(event)))


def open_charge(ledger: str | Path | None, dataset: str | None, spend: Callable[[], Spend]) -> Charge | None:
    """The charge for a ledger and a data set, checked; None if neither is given. One without the other is a mistake."""
    if ledger is None and dataset is None:
        return None
    if ledger is None or dataset is None:
        missing, variable = ("a ledger", "DPHIST_LEDGER") if ledger is None else ("a data set", "DPHIST_DATASET")
        hint = f"--ledger ADDRESS --dataset NAME, or set {variable}."
        raise InvalidParameter("a ledger and a data set together", f"none as {missing}", hint)
    charge = Charge(ledger, dataset, spend())
    try:
        charge.check()
    except BaseException:
        charge.close()
        raise
    return charge


@contextmanager
def charging(ledger: str | Path | None, dataset: str | None, spend: Callable[[], Spend]) -> Iterator[Charge | None]:
    """A charge that is closed at the end, or None without a ledger. A failure in the block says what it cost."""
    charge = open_charge(ledger, dataset, spend)
    if charge is None:
        yield None
        return
    try:
        with telling(charge.aftermath):
            yield charge
    finally:
        charge.close()


@contextmanager
def telling(aftermath: Callable[[], str]) -> Iterator[None]:
    """Add the words of `aftermath`, if there are any, to a failure in the block and to a signal that ends the process."""
    account_for(aftermath)
    try:
        yield
    except DphistError as problem:
        problem.aftermath = problem.aftermath or aftermath()
        raise
    except KeyboardInterrupt as problem:
        if words := aftermath():
            problem.args = (words,)
        raise
    except Exception as problem:  # GeneratorExit and SystemExit are no failures
        if not (words := aftermath()):
            raise
        reason = (problem.strerror if isinstance(problem, OSError) else None) or type(problem).__name__
        failure = EngineFailure("a run that reaches its end", f"the reason was: {reason}.")
        failure.aftermath = words
        raise failure from problem


def stays_charged(receipt: Receipt, published: str | None = None) -> str:
    """The message of a run that fails after its charge."""
    told = "What was printed may be published" if is_printed() else UNPUBLISHED
    if published is not None:
        told = f"{printable(published)} is written and may be published"
    return f"{receipt}. The charge stays, as records may have been read. {told}; another run is charged again."


def paid(charge: Charge | None, run: Callable[[], T]) -> T:
    """Charge, run, confirm; the result names the entry. Without a charge just run."""
    if charge is None:
        return run()
    charge()
    found = replace(run(), receipt=charge.receipt)
    charge.confirm()
    return found


def paid_run(charge: Charge | None, source: AbstractContextManager[R], run: Callable[[R], T]) -> T:
    """Open and thereby check a source, charge, run, confirm; the result names the entry. Without a charge just run."""
    with source as records:
        if charge is None:
            return run(records)
        charge()
        result = replace(run(records), receipt=charge.receipt)
    charge.confirm()
    return result


def receipt_of(charge: Charge | None) -> dict[str, Any] | None:
    """Charge now, and return the receipt for the result: for a session or stream that is drawn from later, bit by bit."""
    if charge is None:
        return None
    charge()
    assert charge.receipt is not None
    return charge.receipt.to_data()


def terms_hash(terms: Mapping[str, Any]) -> str:
    """SHA-256 over the terms as canonical JSON. They are public."""
    return hash_of(terms)


def check_paid(
    ledger: str | Path | None, receipt: Mapping[str, Any] | None, terms: Mapping[str, Any], what: str
) -> None:
    """Refuse `what` (a session, a stream) unless the entry it names is in the ledger and paid for these terms.

    Without a ledger nothing is compared.
    """
    if ledger is None:
        return
    if receipt is None:
        hint = "it was started without a ledger; use it without --ledger and DPHIST_LEDGER."
        raise InvalidParameter(f"a {what} that this ledger paid for", "one that names no entry", hint)
    from dphist.ledger import Ledger

    named = build(Receipt, receipt, f"the {what}")
    with Ledger(ledger) as opened:
        entry = opened.entry(named.dataset, named.entry)
    if entry.hash != named.hash or entry.body.get("terms") != terms_hash(terms):
        expected = f"a {what} as entry {entry.sequence:,} of {entry.dataset!r} paid for"
        raise InvalidParameter(expected, "another one", "the file was changed, or belongs to another ledger.")
