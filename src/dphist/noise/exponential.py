"""The exponential mechanism, repeated: the k best of many utilities in the order of their Gumbel noise, exactly.

Adding independent Gumbel noise to coefficient·utility and reading off the k largest is the same as choosing k times
without replacement with probability ∝ exp(coefficient · utility). The noise is −ln(−ln(1 − W)), W uniform on (0, 1),
and only the *order* of the noisy utilities is ever used: it is found without rounding by reading W as far as two
items need to be told apart.

Three stages. A cheap bound drops items that cannot be among the best; bounds in floats, each with its proved error,
order nearly all of the others; what still overlaps is compared with `decimal` enclosures that shrink until they part.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dphist.errors import InvalidParameter
from dphist.noise.enclosure import decimal_context, next_word
from dphist.noise.entropy import Entropy, current_source
from dphist.noise.laws import LARGEST_SAMPLE, exact_fraction, whole_number

CHUNK = 1 << 15
_SMALL_RUN = 16
LARGEST_UTILITY = 1 << 61
LARGEST_COEFFICIENT = 1 << 40

_Floats: TypeAlias = NDArray[np.float64]
_Integers: TypeAlias = NDArray[np.int64]
_Words: TypeAlias = NDArray[np.uint64]

_LOG_2_63 = 63 * float(np.log(2.0))
_FLOAT_ERROR = 2.0**-45
# First words outside [2^20, 2^64 − 2^34) tell too little about the noise in floats: such items go to the exact stage.
_FIRST_PLAIN_WORD = np.uint64(1 << 20)
_PLAIN_WORDS = np.uint64((1 << 64) - (1 << 34) - (1 << 20))


def exponential_top_k(utilities: ArrayLike, coefficient: Fraction | int, k: int) -> NDArray[np.int64]:
    """The positions of the min(k, n) largest coefficient·utility + Gumbel noise, largest first.

    `utilities` are integers of absolute value at most 2^61 (a public limit), `coefficient` ≥ 0 is exact; 0 gives a
    uniformly random order. The first position is i with probability ∝ exp(coefficient·utilities[i]), the next is
    drawn in the same way from the others, and so on, exactly. The mechanism that is ε-private per choice uses ε /
    (2·sensitivity). Extra memory is proportional to k, not to n. Running time depends on the utilities.
    """
    scores = np.asarray(utilities)
    if scores.ndim != 1 or scores.dtype.kind not in "iu" or (scores.dtype.kind == "u" and scores.dtype.itemsize == 8):
        raise InvalidParameter("a one-dimensional array of signed integer utilities", f"{scores.ndim}-d {scores.dtype}")
    exact, wanted = exact_fraction("coefficient", coefficient), whole_number("k", k, 0, LARGEST_SAMPLE)
    if not 0 <= exact <= LARGEST_COEFFICIENT:
        raise InvalidParameter("coefficient in [0, 2^40]", coefficient)
    if scores.size == 0 or wanted == 0:
        return np.empty(0, dtype=np.int64)
    best, worst = int(scores.max()), int(scores.min())
    if best > LARGEST_UTILITY or worst < -LARGEST_UTILITY:
        raise InvalidParameter(
            "utilities of absolute value at most 2^61", "a larger one", "clamp them to a public limit"
        )
    race = _Race(exact, min(wanted, scores.size), current_source())
    for first in range(0, scores.size, CHUNK):  # never empty: the race has at least one item when it ends
        race.enter(first, best - scores[first : first + CHUNK].astype(np.int64))
    return race.order()


class _Race:
    """The items that may be among the k best: position, shortfall (best utility − utility) and first word of W."""

    def __init__(self, coefficient: Fraction, k: int, entropy: Entropy) -> None:
        self.coefficient, self.k, self.entropy = coefficient, k, entropy
        self.slope = float(coefficient)
        self.floor = -np.inf  # at least k items are known to score this much or more
        self.positions: _Integers = np.empty(0, np.int64)
        self.shortfalls: _Integers = np.empty(0, np.int64)
        self.words: _Words = np.empty(0, np.uint64)
        self.waiting: list[tuple[_Integers, _Integers, _Words]] = []
        self.size = 0

    def enter(self, first: int, shortfalls: _Integers) -> None:
        """Draw the noise of one chunk and keep the items that may be among the k best.

        −ln(1 − W) ≥ W, so a score is at most −(coefficient·shortfall + ln W); that needs one logarithm for all items
        instead of two. Lowering the product by 2^−50 of itself covers its rounding and that of both sums; the
        logarithm is off by less than 2^−40. Words below 2^20, of which the logarithm knows too little, stay whatever
        their score.
        """
        words = self.entropy.words(shortfalls.size)
        halved = (words >> np.uint64(1)).view(np.int64).astype(np.float64)  # W ≥ halved / 2^63
        least = np.log(np.maximum(halved, 0.5, out=halved), out=halved)
        least += (1 - 2.0**-50) * self.slope * shortfalls
        kept = np.flatnonzero((least <= _LOG_2_63 - self.floor + 2.0**-40) | (words < _FIRST_PLAIN_WORD))
        self.waiting.append((kept + first, shortfalls[kept], words[kept]))
        self.size += kept.size
        if self.size > 2 * self.k + CHUNK // 2:
            self._drop_hopeless()

    def _drop_hopeless(self) -> None:
        """Keep only items whose upper bound reaches the k-th largest lower bound."""
        positions, shortfalls, words = zip(*self.waiting, strict=True)
        self.positions = np.concatenate([self.positions, *positions])
        self.shortfalls = np.concatenate([self.shortfalls, *shortfalls])
        self.words = np.concatenate([self.words, *words])
        if self.positions.size > self.k:
            low, high = score_bounds(self.slope * self.shortfalls.astype(np.float64), self.words)
            self.floor = float(np.partition(low, low.size - self.k)[low.size - self.k])
            kept = high >= self.floor
            self.positions, self.shortfalls, self.words = self.positions[kept], self.shortfalls[kept], self.words[kept]
        self.waiting, self.size = [], self.positions.size

    def order(self) -> _Integers:
        """The k best positions, best first."""
        self._drop_hopeless()
        return self.positions[self._sorted(np.arange(self.size), self.k)[: self.k]]

    def _sorted(self, members: _Integers, k: int) -> _Integers:
        """These items of the race, best first; beyond the k best the order may be left open.

        Floats hold differences of scores best when the utilities are near each other. So penalties are taken from the
        middle item of those at hand, and a run of overlapping items is sorted again around its own middle, until that
        changes nothing.
        """
        shortfalls = self.shortfalls[members]
        middle = np.partition(shortfalls, members.size // 2)[members.size // 2]
        low, high = score_bounds(self.slope * (shortfalls - middle).astype(np.float64), self.words[members])
        order = np.argsort(-high, kind="stable")
        members, low, high = members[order], low[order], high[order]
        for run in overlapping_runs(low, high):
            size = run.stop - run.start
            if run.start < k:
                sort = self._sorted if _SMALL_RUN < size < members.size else self._sorted_exactly
                members[run] = sort(members[run], size)
        return members

    def _sorted_exactly(self, members: _Integers, _: int) -> list[int]:
        """These items of the race, best first, by comparisons that are proofs."""
        items = {
            int(member): ExactScore(self.coefficient * int(self.shortfalls[member]), int(self.words[member]))
            for member in members
        }

        def compare(one: int, other: int) -> int:
            return items[one].compare(items[other], self.entropy)

        return sorted(items, key=cmp_to_key(compare), reverse=True)


def score_bounds(penalties: _Floats, words: _Words) -> tuple[_Floats, _Floats]:
    """Lower and upper bounds on −penalty − ln E, E = −ln(1 − W), W in [word, word + 1]/2^64.

    `penalties` are products of a rounded coefficient and a rounded integer, so off by 3·2^−53 of themselves. Let w be
    the float nearest to (word + 1/2)/2^64. It is within 2^−52·W + 2^−65 of W, and ln E has the derivative
    1/(E·(1−W)). For W ≤ 1/2 that is at most 2/W; for W > 1/2, at most 1.45/(1−W). Both are used over an interval
    across which W or 1 − W changes by less than a thousandth, so ln E is off by less than 2^−50 + 2^−62/w +
    2^−50/(1−w). The two logarithms are off by a few units in the last place of numbers below 64, both sums by 2^−53
    of themselves: together all is below 2^−45 + 2^−50·|penalty| and the two terms in w.
    """
    plain = (words - _FIRST_PLAIN_WORD) < _PLAIN_WORDS
    uniform = (np.where(plain, words, np.uint64(1 << 63)).astype(np.float64) + 0.5) * 2.0**-64
    score = -penalties - np.log(-np.log1p(-uniform))
    error = _FLOAT_ERROR + 2.0**-50 * np.abs(penalties) + 2.0**-62 / uniform + 2.0**-50 / (1 - uniform)
    return np.where(plain, score - error, -np.inf), np.where(plain, score + error, np.inf)


def overlapping_runs(low: _Floats, high: _Floats) -> Iterator[slice]:
    """The runs of two or more items, sorted by upper bound, largest first, that the bounds do not tell apart.

    A run ends where all lower bounds so far are above the next upper bound; so every item is above every item of
    later runs.
    """
    parted = np.minimum.accumulate(low)[:-1] > high[1:]
    joined = np.flatnonzero(np.diff(np.concatenate([[True], parted, [True]])))
    for first, last in joined.reshape(-1, 2).tolist():
        yield slice(first, last + 1)


class ExactScore:
    """−penalty − ln(−ln(1 − W)) with W known to `bits` bits, and the means to know it better."""

    def __init__(self, penalty: Fraction, word: int) -> None:
        self.penalty, self.leading, self.bits = penalty, word, 64
        self.low, self.high = self._enclose()

    def compare(self, other: ExactScore, entropy: Entropy) -> int:
        """1 if this score is the larger one, −1 if the other is; bits stay read, so answers never contradict."""
        while True:
            if self.low > other.high:
                return 1
            if self.high < other.low:
                return -1
            coarse = self if self.bits <= other.bits else other
            coarse.read_on(entropy)

    def read_on(self, entropy: Entropy) -> None:
        """Draw 64 more bits."""
        self.leading, self.bits = self.leading << 64 | next_word(entropy), self.bits + 64
        self.low, self.high = self._enclose()

    def _enclose(self) -> tuple[Decimal, Decimal]:
        """Bounds on the score over W ∈ [leading, leading + 1]/2^bits.

        1 − W is a multiple of 2^−bits; written to d digits it is off by 10^−d of itself, so its logarithm, at least
        2^−bits, is off by at most 2·10^−d·2^bits of itself, and the outer logarithm by little more. With s =
        0.302·bits (10^s > 2^bits) and d = 2s + 42 beside the digits of the penalty, every error is below 10^−(s +
        38), which the margin of 10^−(s + 30) covers. The margin shrinks with the interval, so two different scores
        always part.
        """
        digits = self.bits * 302 // 1000 + 1
        context = decimal_context(2 * digits + 42 + len(str(int(self.penalty))))
        margin = Decimal((0, (1,), -(digits + 30)))
        penalty = context.divide(Decimal(self.penalty.numerator), Decimal(self.penalty.denominator))

        def score(leading: int) -> Decimal:
            if leading == 0:
                return Decimal("Infinity")
            if leading == 1 << self.bits:
                return Decimal("-Infinity")
            survival = context.divide(Decimal((1 << self.bits) - leading), Decimal(1 << self.bits))
            noise = context.ln(context.ln(survival).copy_negate())
            return context.subtract(penalty.copy_negate(), noise)

        return context.subtract(score(self.leading + 1), margin), context.add(score(self.leading), margin)
