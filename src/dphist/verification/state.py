"""The state of a published file, which follows from its checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from dphist import notebook
from dphist.checks import Check
from dphist.errors import InvalidParameter
from dphist.words import printable

State = Literal["paid and intact", "intact", "edited", "unpaid", "of another ledger", "unsealed", "unreadable"]

PAID: Final = "paid and intact"
"""Nothing failed, digests cover table and metadata, and the ledger's entry is there and says the same."""

INTACT: Final = "intact"
"""Nothing failed, and digests cover table and metadata. No ledger was compared."""

EDITED: Final = "edited"
"""Something in the file contradicts its digests, its plan or the entry that paid for it."""

UNPAID: Final = "unpaid"
"""Nothing shows that the ledger paid: the file names no entry, or the chain of the ledger does not hold."""

ANOTHER: Final = "of another ledger"
"""The file names an entry that this ledger lacks: it is another one, or was set back."""

UNSEALED: Final = "unsealed"
"""Nothing failed, but no digest covers the bytes, so an edit might not show: a Parquet file alone, or a folder of Spark."""

UNREADABLE: Final = "unreadable"
"""The file cannot be read, or has no metadata of dphist."""

NOT_KNOWN: Final = (
    "Not known: whether the table came from the data by this mechanism, whether somebody edited the file and computed"
    " its digests anew, and what else was released about these people."
)

_MARKS: Final = {"passed": "ok  ", "failed": "FAIL", "not checked": "--  "}
_WORST_FIRST: Final[tuple[State, ...]] = (EDITED, UNPAID, ANOTHER, UNSEALED, PAID, INTACT)


def check_head(ledger: str | Path | None, head: str | None) -> None:
    """Refuse a head without a ledger that may have it."""
    if head is not None and ledger is None:
        raise InvalidParameter("a ledger with the head", "none", "it is looked for in a chain: --ledger ADDRESS.")


def worst(states: Iterable[State]) -> State:
    """The state of a whole, by the states of its parts."""
    return min(states, key=_WORST_FIRST.index)


class Checks(list[Check]):
    """The checks of a file, and the state that follows. A notebook shows them as a table.

    named: digests of the file's tables, by the entries of a ledger that it names. Two files with one entry must agree.
    """

    def __init__(self, checks: Iterable[Check], state: State, named: Mapping[str, str] | None = None) -> None:
        super().__init__(checks)
        self.state: State = state
        self.named: Mapping[str, str] = named or {}

    @property
    def reason(self) -> str:
        """The words behind the state: what failed, or which entry paid."""
        paid = [check.detail for check in self if check.name == "ledger" and check.passed]
        missing = [_words(check) for check in self if check.passed is None and check.name != "ledger"]
        failed = [_words(check) for check in self if check.failed]
        return "; ".join(failed or (missing if self.state == UNSEALED else paid))

    def __str__(self) -> str:
        return "\n".join(printable(f"  {_MARKS[one.state]}  {one.name:<10} {one.detail}") for one in self)

    def _repr_html_(self) -> str:
        rows = [[one.name, one.state, one.detail] for one in self]
        return notebook.listing(f"The file is {self.state}", ["check", "outcome", "what was found"], rows, [], keys=3)


def _words(check: Check) -> str:
    return check.detail if check.name == "ledger" else f"{check.name} {check.detail}"
