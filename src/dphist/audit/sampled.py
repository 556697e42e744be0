"""The statistical attack: runs on both neighbours, an event learned on one half of them and tested on the other.

What one run published becomes a cell: which values were shown, and in which quantile a linear score of the shown values
falls (for Gaussian noise the best score there is). On the first half the cells that are more likely on one side are put
together into an event, for every epsilon and both directions, and the event that promises the largest excess is kept. The
second half, which had no part in the choice, bounds its two probabilities with Clopper and Pearson. So the bound on delta,

    P(event) - e^epsilon Q(event),      and that on epsilon,      ln((P(event) - delta)/Q(event)),

both hold with the stated confidence whatever the first half was like.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dphist.audit.findings import Claim, Finding, Floats, Trials

FAMILY_ALPHA: Final = 1e-4
"""The chance that any claim of a table is wrongly called broken: all bounds of a run hold together with 99.99 %."""

BITS_ALPHA: Final = FAMILY_ALPHA / 100
"""The part of it that is for the attack on low-order bits."""

EPSILONS: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
MOST_BINS: Final = 64
_PER_BIN = 100
_CAUTION = 3.0
_CLEAR = 6.0

Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A set of cells that is likelier on one side."""

    cells: NDArray[np.bool_]
    epsilon: float
    added: bool


def sampled(claim: Claim, n: int, alpha: float) -> Finding:
    """Attack with n runs on each side; the finding is right with probability 1 - alpha."""
    assert claim.trials is not None
    trials = claim.trials(n)
    half = n // 2
    train, test = (Trials(trials.without[part], trials.with_[part]) for part in (slice(half), slice(half, None)))
    reader = CellReader(train)
    first, second = (frequencies(reader.read(side), reader.number) for side in (train.without, train.with_))
    event = choose(claim, first, second, half)
    without, with_ = (event.cells[reader.read(side)] for side in (test.without, test.with_))
    likely, unlikely = (with_, without) if event.added else (without, with_)
    low = lower_bound(int(likely.sum()), len(likely), alpha / 2)
    high = upper_bound(int(unlikely.sum()), len(unlikely), alpha / 2)
    claimed = claim.delta(event.epsilon)
    delta = low - math.exp(event.epsilon) * high
    return Finding(
        claim=claim.name,
        attack="sampled",
        setting=claim.setting,
        holds=delta <= claimed,
        detail=f"unit {'added' if event.added else 'removed'}; event {low:.4g} against {high:.4g}",
        epsilon=event.epsilon,
        claimed=claimed,
        attacked=max(0.0, delta),
        attacked_epsilon=math.log((low - claimed) / high) if low > claimed else None,
        trials=len(likely),
    )


class CellReader:
    """From what a run published to the number of its cell, as the training half taught it."""

    def __init__(self, train: Trials) -> None:
        both = np.concatenate([train.without, train.with_])
        labels = np.repeat([False, True], [len(train.without), len(train.with_)])
        self._width = both.shape[1]
        self._rules: dict[int, tuple[Floats, Floats, int]] = {}
        self.number = 1  # cell 0: a pattern that was not seen
        patterns = self._patterns(both)
        for pattern in np.unique(patterns).tolist():
            rows = patterns == pattern
            score, edges = self._rule(both[rows], labels[rows])
            self._rules[pattern] = (score, edges, self.number)
            self.number += len(edges) + 1

    def _patterns(self, values: Floats) -> Cells:
        shown = ~np.isnan(values)
        return np.asarray((shown << np.arange(self._width)).sum(axis=1), np.int64)

    def _rule(self, values: Floats, labels: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """A linear score and the edges of its quantiles; no edges where nothing is shown or seen too rarely."""
        score, edges = np.zeros(self._width), np.zeros(0)
        shown = np.flatnonzero(~np.isnan(values[0]))
        bins = min(MOST_BINS, len(values) // _PER_BIN)
        if len(shown) == 0 or bins < 2 or labels.all() or not labels.any():
            return score, edges
        part = values[:, shown]
        first, second = part[~labels], part[labels]
        spread = np.atleast_2d(np.cov(part.T)) + 1e-9 * np.eye(len(shown))
        score[shown] = np.linalg.solve(spread, second.mean(axis=0) - first.mean(axis=0))
        if not score.any():
            return score, edges
        return score, np.unique(np.quantile(part @ score[shown], np.arange(1, bins) / bins))

    def read(self, values: Floats) -> Cells:
        """The cell of each run."""
        cells = np.zeros(len(values), np.int64)
        patterns = self._patterns(values)
        for pattern, (score, edges, first) in self._rules.items():
            rows = np.flatnonzero(patterns == pattern)
            total = np.nan_to_num(values[rows]) @ score
            cells[rows] = first + np.searchsorted(edges, total, side="right")
        return cells


def frequencies(cells: Cells, number: int) -> Floats:
    """How often each cell was met."""
    return np.bincount(cells, minlength=number) / max(1, len(cells))


def choose(claim: Claim, without: Floats, with_: Floats, n: int) -> Event:
    """The event, epsilon and direction to test.

    One that is clearly above its claim if there is any, the clearest; else the one that comes closest to its claim, with some
    caution for chance.
    """
    best, found = (-math.inf, -math.inf), Event(np.zeros(len(without), np.bool_), EPSILONS[-1], True)
    for epsilon in EPSILONS:
        claimed = claim.delta(epsilon)
        if claimed >= 1:  # nothing is promised there
            continue
        for p, q, added in ((with_, without, True), (without, with_, False)):
            factor = math.exp(epsilon)
            # a cell that was met a few times only is no evidence
            cells = p - factor * q > _CAUTION / 2 * np.sqrt((p + factor**2 * q) / n)
            total, other = float(p[cells].sum()), float(q[cells].sum())
            error = math.sqrt((total * (1 - total) + factor**2 * other * (1 - other)) / n) + 5 * factor / n
            delta = total - factor * other
            clarity = (delta - claimed) / error
            value = (clarity if clarity > _CLEAR else 0.0, (delta - _CAUTION * error) / max(claimed, 1 / n))
            if value > best:
                best, found = value, Event(cells, epsilon, added)
    return found


def lower_bound(hits: int, n: int, alpha: float) -> float:
    """Clopper and Pearson: below the true probability except with probability alpha."""
    return 0.0 if hits == 0 else float(beta.ppf(alpha, hits, n - hits + 1))


def upper_bound(hits: int, n: int, alpha: float) -> float:
    """Clopper and Pearson: above the true probability except with probability alpha."""
    return 1.0 if hits == n else float(beta.isf(alpha, hits + 1, n - hits))
