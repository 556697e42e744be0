"""What is claimed, and the two attacks on a claim: by laws that can be listed, and by runs of the code that people run.

The exact attack compares the divergence of enumerated output laws with the claimed profile at many epsilons.

The sampled attack runs both neighbours. What one run published becomes a cell: which values were shown, and in which quantile
a linear score of the shown values falls (for Gaussian noise the best score there is). On the first half the cells that are
more likely on one side are put together into an event, for every epsilon and both directions, and the event that promises the
largest excess is kept. The second half, which had no part in the choice, bounds its two probabilities with Clopper and
Pearson. So the bound on delta,

    P(event) - e^epsilon Q(event),      and that on epsilon,      ln((P(event) - delta)/Q(event)),

both hold with the stated confidence whatever the first half was like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dphist.audit.laws import Floats, Integers, Pair, hockey_stick

Attack = Literal["exact", "sampled", "implementation"]

LAW_EPSILONS: Final = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
RUN_EPSILONS: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""What the rounding of an enumeration may add: sums of up to 10^7 doubles."""

LEAST_CLAIM: Final = 1e-9
"""Below it a claim is compared but not used to tell how tight it is."""

FAMILY_ALPHA: Final = 1e-4
"""The chance that any claim of a table is wrongly called broken: all bounds of a run hold together with 99.99 %."""

BITS_ALPHA: Final = FAMILY_ALPHA / 100
"""The part of it that is for the attack on low-order bits."""

MOST_BINS: Final = 64
_PER_BIN = 100
_CAUTION = 3.0
_CLEAR = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Independent runs on two neighbours, one row each: what was published, NaN where a value was not."""

    without: Floats
    with_: Floats


Run = Callable[[int], Trials]


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A mechanism with one analysis of it: what it promises, and how to look at what it does.

    pairs: neighbours whose output laws can be enumerated or integrated. trials: runs of the code that people run, `n` on
    each side; `quick` and `thorough` say how many.
    """

    mechanism: str
    analysis: str
    setting: str
    delta: Callable[[float], float]
    pairs: Callable[[], Iterable[Pair]] | None = None
    trials: Run | None = None
    quick: int = 0
    thorough: int = 0

    @property
    def name(self) -> str:
        """Mechanism and analysis."""
        return f"{self.mechanism} ({self.analysis})" if self.analysis else self.mechanism


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one attack. `attacked` is a delta that the mechanism has at least, at `epsilon`.

    attacked_epsilon: the epsilon that it has at least, at the claimed delta. `trials` on each side decided; None if exact.
    """

    claim: str
    attack: Attack
    setting: str
    holds: bool
    detail: str
    epsilon: float | None = None
    claimed: float | None = None
    attacked: float | None = None
    attacked_epsilon: float | None = None
    trials: int | None = None

    @property
    def ratio(self) -> float | None:
        """attacked/claimed: 1 is as tight as can be, more is a broken promise."""
        if self.claimed is None or self.attacked is None:
            return None
        return self.attacked / self.claimed if self.claimed > 0 else float(self.attacked > 0)

    @property
    def gap(self) -> float | None:
        """claimed - attacked: what the attack did not reach."""
        return None if self.claimed is None or self.attacked is None else self.claimed - self.attacked

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "gap": self.gap, "ratio": self.ratio}


def attack(claim: Claim, alpha: float, *, thorough: bool) -> Finding:
    """The attack that a claim can be put to."""
    if claim.pairs is not None:
        return attack_laws(claim)
    return attack_runs(claim, claim.thorough if thorough else claim.quick, alpha)


# Laws


def attack_laws(claim: Claim) -> Finding:
    """Compare at every epsilon, in both directions, over all neighbours; report where the claim is tightest."""
    assert claim.pairs is not None
    reached = profile(claim.pairs())
    worst = max(reached, key=lambda at: _excess(reached[at][0], claim.delta(at)))
    broken = _excess(reached[worst][0], claim.delta(worst)) > 0
    epsilon = worst if broken else max(reached, key=lambda at: _tightness(reached[at][0], claim.delta(at)))
    delta, where = reached[epsilon]
    claimed = claim.delta(epsilon)
    return Finding(
        claim.name, "exact", claim.setting, not broken, where, epsilon, claimed, delta, _epsilon_at(reached, claimed)
    )


def profile(pairs: Iterable[Pair]) -> dict[float, tuple[float, str]]:
    """At each epsilon the largest divergence, and the pair and direction that have it."""
    reached = dict.fromkeys(LAW_EPSILONS, (0.0, "no difference"))
    for pair in pairs:
        for epsilon in LAW_EPSILONS:
            for p, q, way in ((pair.with_, pair.without, "added"), (pair.without, pair.with_, "removed")):
                delta = hockey_stick(p, q, epsilon)
                if delta > reached[epsilon][0]:
                    reached[epsilon] = (delta, f"{pair.name}, unit {way}")
    return reached


def _excess(delta: float, claimed: float) -> float:
    """How far above the claim, beyond what rounding explains, in units of the claim."""
    return (delta - claimed * (1 + RELATIVE) - ABSOLUTE) / max(claimed, ABSOLUTE)


def _tightness(delta: float, claimed: float) -> float:
    return delta / claimed if LEAST_CLAIM <= claimed < 1 else -1.0


def _epsilon_at(reached: dict[float, tuple[float, str]], delta: float) -> float | None:
    """The largest epsilon of the grid at which the attack still has this delta; None if it never has."""
    epsilons = [epsilon for epsilon, (value, _) in reached.items() if value >= delta * (1 - RELATIVE)]
    return max(epsilons) if epsilons and not math.isclose(delta, 0.0) else None


# Runs


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """A set of cells that is likelier on one side."""

    cells: NDArray[np.bool_]
    epsilon: float
    added: bool


def attack_runs(claim: Claim, n: int, alpha: float) -> Finding:
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

    def _patterns(self, values: Floats) -> Integers:
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

    def read(self, values: Floats) -> Integers:
        """The cell of each run."""
        cells = np.zeros(len(values), np.int64)
        patterns = self._patterns(values)
        for pattern, (score, edges, first) in self._rules.items():
            rows = np.flatnonzero(patterns == pattern)
            total = np.nan_to_num(values[rows]) @ score
            cells[rows] = first + np.searchsorted(edges, total, side="right")
        return cells


def frequencies(cells: Integers, number: int) -> Floats:
    """How often each cell was met."""
    return np.bincount(cells, minlength=number) / max(1, len(cells))


def choose(claim: Claim, without: Floats, with_: Floats, n: int) -> Event:
    """The event, epsilon and direction to test.

    One that is clearly above its claim if there is any, the clearest; else the one that comes closest to its claim, with some
    caution for chance.
    """
    best, event = (-math.inf, -math.inf), Event(np.zeros(len(without), np.bool_), RUN_EPSILONS[-1], True)
    for epsilon in RUN_EPSILONS:
        claimed = claim.delta(epsilon)
        if claimed >= 1:  # nothing is promised there
            continue
        for p, q, added in ((with_, without, True), (without, with_, False)):
            factor = math.exp(epsilon)
            # a cell that was met a few times only is no evidence
            cells = p - factor * q > _CAUTION / 2 * np.sqrt((p + factor**2 * q) / n)
            total, other = (min(float(law[cells].sum()), 1.0) for law in (p, q))
            error = math.sqrt((total * (1 - total) + factor**2 * other * (1 - other)) / n) + 5 * factor / n
            delta = total - factor * other
            clarity = (delta - claimed) / error
            value = (clarity if clarity > _CLEAR else 0.0, (delta - _CAUTION * error) / max(claimed, 1 / n))
            if value > best:
                best, event = value, Event(cells, epsilon, added)
    return event


def lower_bound(hits: int, n: int, alpha: float) -> float:
    """Clopper and Pearson: below the true probability except with probability alpha."""
    return 0.0 if hits == 0 else float(beta.ppf(alpha, hits, n - hits + 1))


def upper_bound(hits: int, n: int, alpha: float) -> float:
    """Clopper and Pearson: above the true probability except with probability alpha."""
    return 1.0 if hits == n else float(beta.isf(alpha, hits + 1, n - hits))
