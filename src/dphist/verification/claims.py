"""What metadata states, read strictly and compared with what its plan gives: a claim that does not follow is a failed check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.aggregates.measures import Floats
from dphist.checks import Check
from dphist.errors import DphistError
from dphist.publish.digests import DIGEST, FILE, TABLE
from dphist.publish.spends import Spend
from dphist.spreadsheet import ESCAPED
from dphist.version import __version__
from dphist.words import canonical

WORDS: Final = ("guarantee", "estimand", "assumption", "summary")
"""Sentences, which another version of dphist may word in another way. Numbers are compared whatever the version."""

UNREADABLE: Final = (DphistError, KeyError, TypeError, ValueError, ArithmeticError)
"""What metadata that contradicts itself may raise in the constructors of plans and mechanisms."""

CLOSE: Final = 1e-9
"""Another version of a numerical library may move the last digits of a number."""

_LONGEST: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Checks, and what must have been charged for such a file; None where that is not known.

    same_words: whether the entry has the sentences of the metadata. It has not where the data chose the mechanism, which was
    charged before it was known. paid: the metadata of each private table behind a file that has several, and what was found
    of it: each has an entry of its own.
    """

    checks: Sequence[Check]
    spend: Callable[[], Spend] | None = None
    same_words: bool = True
    paid: Sequence[tuple[dict[str, Any], Findings]] = ()


def unreadable(problem: Exception, otherwise: str) -> Findings:
    """All that can be said of metadata without a plan in it."""
    return Findings([Check("guarantee", False, str(problem) if isinstance(problem, DphistError) else otherwise)])


def skipped(name: str, why: str) -> Check:
    """A check that nobody could make."""
    return Check(name, None, why)


def columns_and_keys(
    table: pa.Table, keys: Sequence[str], after: Sequence[str], before: Sequence[str] = ()
) -> list[Check]:
    """Whether the columns are those expected, and if so, no group is there twice.

    A JSON file without rows names no columns, which is no fault, and a report has no table to compare.
    """
    if table.num_columns == 0:
        return [skipped("columns", "none are there to compare with")]
    names, expected = list(keys), [*before, *keys, *after]
    if table.column_names != expected or len(set(expected)) < len(expected):
        return [Check("columns", False, f"expected {expected}, got {table.column_names}")]
    different = table.select(names).group_by(names).aggregate([]).num_rows if names else 1
    distinct = different == table.num_rows
    return [
        Check("columns", True, "are those of the plan"),
        Check("keys", distinct, "are all different" if distinct else "repeat"),
    ]


def lattice(counts: Floats, bits: int) -> Check:
    """Whether every count is one that the noise can give."""
    steps = np.ldexp(counts, bits)
    on_lattice = bool((steps == np.rint(steps)).all()) and bool(np.isfinite(counts).all())
    words = f"a multiple of 2^-{bits}" if bits else "a whole number"
    return Check("lattice", on_lattice, f"every count is {words}" if on_lattice else f"a count is not {words}")


def numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles; what is missing is NaN, which no check lets pass."""
    return np.asarray(table.column(name).to_numpy(), np.float64)


def close(stated: Floats, expected: Floats) -> bool:
    """Equal but for the last digits, all of them."""
    return bool((np.abs(stated - expected) <= CLOSE * np.abs(expected)).all())


def same(stated: object, expected: object, tiny: float = 0.0) -> bool:
    """Equal but for the last digits; numbers up to `tiny` are 0."""
    if isinstance(stated, bool) or isinstance(expected, bool):
        return stated is expected
    if isinstance(stated, int | float) and isinstance(expected, int | float):
        return math.isclose(stated, expected, rel_tol=CLOSE, abs_tol=tiny)
    return stated == expected


def compare(metadata: dict[str, Any], expected: dict[str, Any]) -> Iterator[Check]:
    """One failed check for every field that differs, is unknown or is missing; else one that all agree."""
    how = {ESCAPED} if metadata.get(ESCAPED) is True else set()  # how it is written, not what it claims
    stated = {name: value for name, value in metadata.items() if name not in {FILE, DIGEST, TABLE, *how}}
    expected = {**json.loads(canonical(expected)), "dphist": stated["dphist"]}
    differing, others = dict(_differences(stated, expected, "")), "every field"
    for name in WORDS:
        if name in differing and isinstance(stated.get(name), str) and stated["dphist"] != __version__:
            del differing[name]
            others = "every other field"
            yield skipped(name, f"worded by dphist {excerpt(stated['dphist'])}, and otherwise than here")
    yield from (Check(name, False, problem) for name, problem in differing.items())
    if not differing:
        yield Check("claims", True, f"{others} is what the plan gives")


def _differences(stated: Any, expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(stated, dict) and isinstance(expected, dict):
        for name in dict.fromkeys([*expected, *stated]):
            place = f"{path}.{name}" if path else name
            if name not in expected:
                yield ascii(place)[1:-1], "is a field that dphist does not write"
            elif name not in stated:
                yield place, f"is missing; the plan gives {excerpt(expected[name])}"
            else:
                yield from _differences(stated[name], expected[name], place)
    elif isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        for place, (one, other) in enumerate(zip(stated, expected, strict=True)):
            yield from _differences(one, other, f"{path}[{place}]")
    elif not same(stated, expected):
        yield path, f"says {excerpt(stated)}, the plan gives {excerpt(expected)}"


def excerpt(value: object) -> str:
    """A value from a file of anyone: short, and without letters that a terminal would obey."""
    text = canonical(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
