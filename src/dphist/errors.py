"""What can go wrong, as one tree.

DphistError
├── InvalidParameter      a value that cannot be used (also a ValueError)
│   ├── Infeasible        each value is fine alone, together they cannot be met
│   ├── UnreadableSource  a source that is missing, damaged or of an unknown kind
│   ├── UnusableLedger    a ledger that is missing, damaged, too new or cannot be written
│   └── BudgetExceeded    a spend that does not fit into what a ledger has left
├── EngineFailure         the engine gave up: memory, disk, or damage found while reading
├── InvalidPlan           a saved plan that is damaged, too new, or whose guarantee does not hold
└── MissingExtra          an optional dependency is not installed (also an ImportError)

Every message has the form ``Expected ..., got .... Hint: ...`` and never holds anything derived from data.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BudgetExceeded",
    "DphistError",
    "EngineFailure",
    "Infeasible",
    "InvalidParameter",
    "InvalidPlan",
    "MissingExtra",
    "UnreadableSource",
    "UnusableLedger",
]


_LONGEST: Final = 400
"""Characters of a value in a message. Lists of names and hints are a little longer."""


def _shown(value: object, longest: int = _LONGEST) -> str:
    """A value in a message, cut where nobody would read on."""
    if isinstance(value, int) and value.bit_length() > 4 * longest:
        return f"a number of more than {longest} digits"  # which Python may refuse to write
    text = str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


class DphistError(Exception):
    """The root: catch this to catch everything dphist raises on purpose.

    aftermath: what a run that failed has spent all the same, in words; the message ends with it.

    Example:
        >>> try:
        ...     dp.plan(epsilon=-1, delta=1e-8)
        ... except dp.DphistError as problem:
        ...     print(problem)
        Expected a finite epsilon > 0, got -1. Hint: 1 is a common choice; smaller is more private.
    """

    aftermath: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.aftermath}".strip()


class InvalidParameter(DphistError, ValueError):
    """A parameter outside its domain.

    pointer: where in a text of the user's own something is wrong: the line, and under it a caret. place: where in a statement,
    from its first character to the one behind the last; who has the statement makes a pointer of it. inside: of a problem in an
    expression its text, the letter where the problem begins, and the problem without that place.
    """

    pointer: str = ""
    inside: tuple[str, int, InvalidParameter] | None = None
    place: tuple[int, int] | None = None

    def __init__(self, expected: str, got: object, hint: str = "") -> None:
        self.expected, self.got, self.hint = expected, got, hint
        told = f"Expected {_shown(expected, 3 * _LONGEST)}, got {_shown(got)}."
        super().__init__(told + (f" Hint: {_shown(hint, 3 * _LONGEST)}" if hint else ""))

    def __reduce__(self) -> tuple[type[InvalidParameter], tuple[str, object, str], dict[str, object]]:
        return type(self), (self.expected, self.got, self.hint), self.__dict__


class Infeasible(InvalidParameter):
    """No mechanism meets the request."""


class UnreadableSource(InvalidParameter):
    """A source that is missing, damaged or of an unknown kind."""


class UnusableLedger(InvalidParameter):
    """A ledger that cannot be used: nothing was charged, nothing was released."""


class BudgetExceeded(InvalidParameter):
    """A spend that does not fit into what is left of a data set's budget: nothing was charged, nothing was released."""


class EngineFailure(DphistError):
    """The engine gave up. Its own message may quote records, so it is not passed on."""

    def __init__(self, expected: str, hint: str = "") -> None:
        self.expected, self.hint = expected, hint
        super().__init__(f"Expected {expected}, got a failure of the engine." + (f" Hint: {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type[EngineFailure], tuple[str, str], dict[str, object]]:
        return type(self), (self.expected, self.hint), self.__dict__


class InvalidPlan(DphistError):
    """A plan that must not be released."""


class MissingExtra(DphistError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra, self.needed_for = extra, needed_for
        super().__init__(f"Expected the extra [{extra}] for {needed_for}. Hint: pip install 'dphist[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str], dict[str, object]]:
        return type(self), (self.extra, self.needed_for), self.__dict__
