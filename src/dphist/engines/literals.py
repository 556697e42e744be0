"""Checks of the literals an expression passes to functions: parts of dates, zones, formats, regular expressions, sizes.

A bad literal (an unknown zone, an invalid pattern) must be refused before a record is read. DuckDB may notice it only at the
first record that reaches the call, and then a failed run tells that there was such a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import duckdb

Check = Callable[..., str | None]
"""A complaint about literals, or None."""

LONGEST_PATTERN: Final = 1_000
LONGEST_FORMAT: Final = 200
LONGEST_REPLACEMENT: Final = 60
"""Bytes. Each of 65,537 matches writes at most so many, or twice the match for each reference: about 4 MB."""
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
"""Formats for reading have no %Z: an unknown name of a zone would end the run, even inside TRY."""
REGEX_OPTIONS: Final = frozenset("cilmnps")


def words(allowed: frozenset[str], what: str) -> Check:
    """A check that a literal is one of some words, in any case."""

    def check(word: object) -> str | None:
        known = isinstance(word, str) and word.lower() in allowed
        return None if known else f"{what} ({', '.join(sorted(allowed))}), not {word!r}"

    return check


def whole(least: int, most: int) -> Check:
    """A check that a literal is a whole number in a range."""

    def check(number: object) -> str | None:
        inside = isinstance(number, int) and not isinstance(number, bool) and least <= number <= most
        return None if inside else f"a whole number from {least} to {most}, not {number!r}"

    return check


def format_of(letters: frozenset[str]) -> Check:
    """A check of a format of dates and times."""

    def check(text: object) -> str | None:
        if not isinstance(text, str) or len(text.encode()) > LONGEST_FORMAT:
            return f"a format of at most {LONGEST_FORMAT} bytes"
        for directive in re.findall(r"%(-?.?)", text, flags=re.DOTALL):
            if not directive or directive == "-" or not set(directive) <= letters:
                return f"a format with the letters {''.join(sorted(letters - {'%', '-'}))}, not %{directive}"
        return None

    return check


def options(allowed: frozenset[str]) -> Check:
    """A check of the options of a regular expression."""

    def check(chosen: object) -> str | None:
        known = isinstance(chosen, str) and set(chosen) <= allowed
        return None if known else f"options of the letters {''.join(sorted(allowed))}, not {chosen!r}"

    return check


def anything(_: object) -> None:
    """Every literal is right."""


def zone(name: object) -> str | None:
    """Check the name of a time zone."""
    return None if name in zones() else f"the name of a time zone such as 'Europe/Zurich', not {name!r}"


def pattern(text: object) -> str | None:
    """Check a regular expression."""
    if not isinstance(text, str) or len(text.encode()) > LONGEST_PATTERN:
        return f"a regular expression of at most {LONGEST_PATTERN} bytes"
    # Repeats are written out: without a bound the machine has as many states as memory holds, and each letter visits them.
    repeats = [int(number) for pair in re.findall(r"\{(\d+)(?:,(\d*))?\}", text) for number in pair if number]
    if sum(repeats) > MOST_REPEATS:
        return f"a regular expression with at most {MOST_REPEATS} repetitions in braces, not {sum(repeats)}"
    return None if _compiles(text) else f"a regular expression that RE2 can compile, not {text!r}"


def short(text: object) -> str | None:
    """Check a replacement of the matches of a regular expression."""
    fits = isinstance(text, str) and len(text.encode()) <= LONGEST_REPLACEMENT
    return None if fits else f"a replacement of at most {LONGEST_REPLACEMENT} bytes"


def escaped(text: object, sign: object) -> str | None:
    """Check a LIKE pattern and its escape character: a pattern that ends with it fails at the first record, even in TRY."""
    if not (isinstance(sign, str) and len(sign) == 1 and sign.isascii()):
        return "one ASCII character after ESCAPE"
    if not isinstance(text, str):
        return "a pattern that is a literal, because it has an escape character"
    marks = len(text) - len(text.rstrip(sign))
    return f"a pattern that does not end with its escape character, not {text!r}" if marks % 2 else None


@cache
def zones() -> frozenset[str]:
    """The time zones that the engine itself knows, whatever the machine knows."""
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
