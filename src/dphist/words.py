"""Values as text: what was asked for in full, what is promised rounded to the safe side, long texts cut, data in one form."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Final

_SHARES: Final = (0.5, 0.25, 0.75, 0.0, 1.0)
"""How much of a long text stays before the cut: half, or another share where two texts would look the same."""
_UNSEEN: Final = 6
"""Cells: two cuts that differ in less are the same to a reader."""


def printable(text: str, *, lines: bool = False) -> str:
    """The text with escapes for whatever a terminal would act on or not show; line feeds stay if it has several lines."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or (lines and letter == "\n") else letter.encode("unicode_escape").decode()
        for letter in text
    )


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """The closest of some names, in words with a space behind; nothing if none is close."""
    by_fold = {other.casefold(): other for other in names}
    close = [by_fold[fold] for fold in get_close_matches(name.casefold(), by_fold, n=3, cutoff=cutoff)]
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


def exactly(value: float) -> str:
    """All digits that tell a double from its neighbours; whole numbers without a point."""
    text = repr(float(value))
    return text.removesuffix(".0")


def percent(share: float) -> str:
    """A share as per cent, exact: 0.005 is 0.5."""
    return f"{(Decimal(repr(float(share))) * 100).normalize():f}"


def rounded_up(value: float | Fraction, digits: int = 4) -> str:
    """A bound with a few digits, never below what it bounds; a double is read as the decimal number that is written for it."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float | Fraction, digits: int = 4) -> str:
    """What is left of something with a few digits, never more than there is."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float | Fraction, digits: int, rounding: str) -> str:
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    context = Context(prec=digits, rounding=rounding)
    return f"{float(context.divide(Decimal(exact.numerator), Decimal(exact.denominator))):.{digits}g}"


def budget(epsilon: float, delta: float) -> str:
    """A guarantee in a few words, rounded up."""
    return f"epsilon {rounded_up(epsilon)}, delta {rounded_up(delta)}"


def factor_of(epsilon: float) -> str:
    """e^epsilon, rounded up; beyond the doubles the power alone."""
    power = f"e^{exactly(epsilon)}"
    if epsilon > 700:
        return power
    return f"{power} = {rounded_up(math.nextafter(math.exp(epsilon), math.inf))}"


def bounded_change(
    protected: str, epsilon: float, proved: float, asked: float, theorem: str, not_protected: str = ""
) -> str:
    """An (epsilon, delta) guarantee as a sentence; what is proved is rounded up, what was asked for is told in full.

    A further sentence may tell what is not protected. One that protects little says so.
    """
    delta = f" plus delta = {rounded_up(proved)} (asked for: {asked!r})"
    if proved == 0:
        delta = " and no delta" + (f" (asked for: {asked!r})" if asked > 0 else "")
    return " ".join([
        f"adding or removing {protected} changes the probability of any result by at most a factor"
        f" {factor_of(epsilon)}{delta}, by {theorem}.",
        *([not_protected] if not_protected else []),
        *_cautions(epsilon, proved),
    ])  # fmt: skip


LARGE_EPSILON, LARGE_DELTA = 10, 1e-3
"""A larger epsilon or delta protects hardly anybody."""


def _cautions(epsilon: float, delta: float) -> Iterator[str]:
    """Warnings: what a large epsilon or delta means for one person, rounded up."""
    if epsilon > LARGE_EPSILON:
        sure = "all but certain"
        if epsilon < 20:  # of even odds, a factor e^epsilon makes e^epsilon to one
            doubt = Context(prec=2, rounding=ROUND_FLOOR).create_decimal_from_float(100 / (1 + math.exp(epsilon)))
            sure = f"{100 - doubt} % certain"
        yield (
            f"CAUTION: epsilon above {LARGE_EPSILON} protects little. Somebody who thinks it as likely as not that a person"
            f" is in the data may become {sure} of it."
        )
    if delta > LARGE_DELTA:
        yield (
            f"CAUTION: delta above {LARGE_DELTA} protects little. With a probability of up to {rounded_up(delta, 2)} everything"
            " about a person may be told."
        )


def canonical(data: object) -> str:
    """One text for one value, as JSON: sorted keys, no spaces, ASCII, shortest numbers that read back to the same bits."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(data: object) -> str:
    """SHA-256 over the canonical text."""
    from hashlib import sha256  # which loads OpenSSL

    return sha256(canonical(data).encode()).hexdigest()


def number(value: float) -> str:
    """A number with the digits that matter to a reader."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def with_error(value: float, error: float) -> str:
    """value ± error, with the digits that the error leaves: two of its own."""
    digits = _digits_beside(error)
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def range_of(low: float, high: float, error: float) -> str:
    """An interval with the digits that the error leaves, rounded outwards: it covers what it covered.

    >>> range_of(4.9999, 7.0001, 1.0)
    '4.9 to 7.1'
    """
    digits = _digits_beside(error)
    down, up = (Context(prec=400, rounding=rounding) for rounding in (ROUND_FLOOR, ROUND_CEILING))
    ends = [
        (Decimal(end).quantize(Decimal(1).scaleb(-digits), context=context) if math.isfinite(end) else end)
        for end, context in ((low, down), (high, up))
    ]
    return " to ".join(f"{end:,.{digits}f}" for end in ends)


def _digits_beside(error: float) -> int:
    return max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2


def enough(count: float) -> str:
    """A number of units that is enough for something: the next whole one, wherever it is told.

    >>> enough(53.2), enough(53.0)
    ('54', '53')
    """
    return f"{math.ceil(count * (1 - 1e-12)):,}"  # processors differ in the last digits


def about(share: float) -> str:
    """A share as per cent with two digits; what is below a thousandth of a per cent is not worth its digits."""
    return f"{100 * share:.2g} %" if share >= 1e-5 else "less than 0.001 %"


def cut(text: str, width: int, share: float = 0.5) -> str:
    """The text in at most so many cells, with an ellipsis for what is left out; `share` of what stays is before it.

    A cell is what a terminal counts in: wide letters take two, marks that combine with another letter none. No mark loses its
    letter.
    """
    from rich.cells import cell_len

    if len(text) <= 4 * width and cell_len(text) <= width:
        return text
    before = int((width - 1) * share)
    behind = width - 1 - before
    head, tail = text[: 4 * before], text[max(len(text) - 4 * behind, 0) :]
    while cell_len(head) > before:
        head = head[:-1]
    while tail and (cell_len(tail) > behind or cell_len(tail[0]) == 0):
        tail = tail[1:]
    return f"{head}…{tail}"


def told_apart(
    values: Sequence[str], texts: Sequence[str], widths: Sequence[int], taken: Collection[str] = ()
) -> list[str]:
    """The texts, cut to their widths, such that different values never look the same; `taken` stands for something else.

    Those that would look alike are cut at another place: where they differ, if there is one. Else they are numbered.
    """
    first = {value: (text, width) for value, text, width in zip(values, texts, widths, strict=True)}
    alike: dict[str, list[str]] = {}
    for value, (text, width) in first.items():
        alike.setdefault(_glance(text, width), []).append(value)
    shown: dict[str, str] = {}
    used = set(taken)
    for group in sorted(alike.values(), key=lambda group: len(group) > 1):  # those that need no help choose first
        found = _apart([first[value] for value in group], used)
        used.update(found)
        shown.update(zip(group, found, strict=True))
    return [shown[value] for value in values]


def _glance(text: str, width: int, share: float = 0.5) -> str:
    """A cut text as one sees it without counting letters: nobody sees a shift by one or two."""
    shown = cut(text, width, share)
    return shown if shown == text else cut(text, width - _UNSEEN, share)


def _apart(texts: Sequence[tuple[str, int]], used: Collection[str]) -> list[str]:
    """Texts that may look alike, cut so that they differ from each other and from those in use."""
    for found in _ways(texts):
        if len(set(found)) == len(found) and not set(found) & set(used):
            return found
    found, number = [], 1
    for text, width in texts:
        numbered = cut(text, width)
        while numbered in used or numbered in found:
            number += 1
            numbered = f"{cut(text, width - len(f' ({number})'))} ({number})"
        found.append(numbered)
    return found


def _ways(texts: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Cut at one place after the other: first where the difference is seen at a glance, then where there is any."""
    seen = [share for share in _SHARES if len({_glance(text, width, share) for text, width in texts}) == len(texts)]
    start = _same_letters([text for text, _ in texts]) - _UNSEEN // 2
    for share in seen:
        yield [cut(text, width, share) for text, width in texts]
    is_cut = any(cut(text, width) != text for text, width in texts)
    if (
        is_cut and start > max(width for _, width in texts) // 3
    ):  # the beginning, and what is around the first difference
        yield [cut(f"{text[: width // 3]}…{text[start:]}", width, 1.0) for text, width in texts]
    for share in _SHARES:
        yield [cut(text, width, share) for text, width in texts]


def _same_letters(texts: Sequence[str]) -> int:
    """How many letters all of them begin with."""
    least, most = min(texts), max(texts)
    return next((place for place, letter in enumerate(least) if letter != most[place]), len(least))
