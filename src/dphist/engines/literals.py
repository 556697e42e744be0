"""Checks of the literals an expression passes to functions: parts of dates, zones, formats, regular expressions, sizes.

What a literal makes impossible (an unknown zone, an invalid pattern) must be refused before a record is read: DuckDB may notice
it only at the first record that reaches the call, and then whether the run succeeds tells that there was one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import duckdb

Check = Callable[[tuple[object, ...]], str | None]

LONGEST_PATTERN: Final = 1_000
LONGEST_FORMAT: Final = 200
LONGEST_REPLACEMENT: Final = 60
"""Bytes. Each of 65,537 matches writes at most that much, or twice the match for each reference: about 4 MB."""
MOST_REPEATS: Final = 100
WIDEST: Final = 1_000

_CLOCK: Final = frozenset({"hour", "minute", "second", "millisecond", "microsecond"})
_CALENDAR: Final = frozenset({"millennium", "century", "decade", "year", "quarter", "month", "week", "day"})
TRUNCATED_PARTS: Final = _CLOCK | _CALENDAR
COUNTED_PARTS: Final = _CLOCK | _CALENDAR
CLOCK_PARTS: Final = _CLOCK
INTERVAL_PARTS: Final = (_CLOCK | _CALENDAR | {"epoch"}) - {"week"}
DATE_PARTS: Final = _CLOCK | _CALENDAR | {"dow", "isodow", "doy", "isoyear", "yearweek", "era", "epoch", "julian"}
FORMAT_LETTERS: Final = frozenset("aAbBdDfgGHIjmMnpSuUVwWxXyYzcF%-")
READ_LETTERS: Final = frozenset("aAbBdfgHIjmMnpSyYz%-")
"""Formats to read by have no %Z: a zone name is looked up, and an unknown one ends the run, even inside TRY."""
REGEX_OPTIONS: Final = frozenset("cilmnps")


def words(position: int, allowed: frozenset[str], what: str) -> Check:
    """A literal that is one of some words, in any case."""

    def check(literals: tuple[object, ...]) -> str | None:
        word = literals[position]
        if isinstance(word, str) and word.lower() in allowed:
            return None
        return f"{what} ({', '.join(sorted(allowed))}), not {word!r}"

    return check


def whole(position: int, least: int, most: int) -> Check:
    """A literal that is a whole number in a range."""

    def check(literals: tuple[object, ...]) -> str | None:
        number = literals[position]
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return None
        return f"a whole number from {least} to {most}, not {number!r}"

    return check


def format_of(position: int, letters: frozenset[str]) -> Check:
    """A literal format of dates and times."""

    def check(literals: tuple[object, ...]) -> str | None:
        text = literals[position]
        if not isinstance(text, str) or len(text.encode()) > LONGEST_FORMAT:
            return f"a format of at most {LONGEST_FORMAT} bytes"
        for directive in re.findall(r"%(-?.?)", text, flags=re.DOTALL):
            if not directive or directive == "-" or not set(directive) <= letters:
                return f"a format with the letters {''.join(sorted(letters - {'%', '-'}))}, not %{directive}"
        return None

    return check


def zone(position: int) -> Check:
    """A literal name of a time zone that the engine knows."""

    def check(literals: tuple[object, ...]) -> str | None:
        name = literals[position]
        return None if name in zones() else f"the name of a time zone such as 'Europe/Zurich', not {name!r}"

    return check


def pattern(position: int, *, options: int | None = None, everywhere: bool = False) -> Check:
    """A literal regular expression, with its literal options; `everywhere` allows the option g."""
    allowed = REGEX_OPTIONS | {"g"} if everywhere else REGEX_OPTIONS

    def check(literals: tuple[object, ...]) -> str | None:
        text = literals[position]
        if not isinstance(text, str) or len(text.encode()) > LONGEST_PATTERN:
            return f"a regular expression of at most {LONGEST_PATTERN} bytes"
        # Repeats are written out: without a bound the machine has as many states as memory holds, and each letter visits them.
        repeats = [int(number) for pair in re.findall(r"\{(\d+)(?:,(\d*))?\}", text) for number in pair if number]
        if sum(repeats) > MOST_REPEATS:
            return f"a regular expression with at most {MOST_REPEATS} repetitions in braces, not {sum(repeats)}"
        if not _compiles(text):
            return f"a regular expression that RE2 can compile, not {text!r}"
        if options is not None:
            chosen = literals[options]
            if not isinstance(chosen, str) or not set(chosen) <= allowed:
                return f"options of the letters {''.join(sorted(allowed))}, not {chosen!r}"
        return None

    return check


def short(position: int) -> Check:
    """A literal replacement of the matches of a regular expression."""

    def check(literals: tuple[object, ...]) -> str | None:
        text = literals[position]
        if isinstance(text, str) and len(text.encode()) <= LONGEST_REPLACEMENT:
            return None
        return f"a replacement of at most {LONGEST_REPLACEMENT} bytes"

    return check


def escaped(position: int, escape: int) -> Check:
    """A literal LIKE pattern with its escape character; one that ends with it fails at the first record, even inside TRY."""

    def check(literals: tuple[object, ...]) -> str | None:
        text, sign = literals[position], literals[escape]
        if not (isinstance(sign, str) and len(sign) == 1 and sign.isascii()):
            return "one ASCII character after ESCAPE"
        if not isinstance(text, str):
            return "a pattern that is a literal, because it has an escape character"
        marks = len(text) - len(text.rstrip(sign))
        return f"a pattern that does not end with its escape character, not {text!r}" if marks % 2 else None

    return check


def every(*checks: Check) -> Check:
    """All of some checks: the first complaint counts."""

    def check(literals: tuple[object, ...]) -> str | None:
        return next((complaint for one in checks if (complaint := one(literals)) is not None), None)

    return check


@cache
def zones() -> frozenset[str]:
    """The names of time zones this engine carries with it; the machine's own list does not matter."""
    with duckdb.connect() as connection:
        return frozenset(name for (name,) in connection.execute("SELECT name FROM pg_timezone_names()").fetchall())


@cache
def _compiles(text: str) -> bool:
    with duckdb.connect() as connection:
        try:
            connection.execute("SELECT regexp_matches('', ?)", [text]).fetchall()
        except duckdb.Error:
            return False
    return True
