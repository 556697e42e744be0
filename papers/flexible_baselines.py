"""The mechanisms that [BCDP22] compares with, for experiments only: numpy's generator, no claim of security.

Each takes the true counts of bars 0..B-1, a question, epsilon and a number of runs, and returns one bar per run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dphist.privacy.truncated_laplace import smallest_q

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
DELTA: Final = 2.0**-20


@dataclass(frozen=True, slots=True)
class Question:
    """The last bar with at least k records, or the mode (k = None), ties going to the lowest bar."""

    k: int | None

    def answers(self, histograms: Floats | Integers) -> Integers:
        """One answer per row; without any bar the answer is the first one."""
        if self.k is None:
            return np.asarray(np.argmax(histograms, axis=1))
        enough = histograms >= self.k
        last = histograms.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
        return np.asarray(np.where(enough.any(axis=1), last, 0))

    def answer(self, counts: Integers) -> int:
        """The true answer."""
        return int(self.answers(counts[None, :])[0])


Mechanism = Callable[[Integers, Question, float, int, np.random.Generator], Integers]


def truncated(counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator) -> Integers:
    """Ours: noise on {-q, ..., 0} with the smallest public q."""
    q = smallest_q(epsilon, DELTA)
    steps = np.arange(q + 1)
    weights = np.exp(epsilon * (np.minimum(steps, q - steps) - q / 2))
    noise = random.choice(steps - q, size=(runs, counts.size), p=weights / weights.sum())
    return question.answers(np.maximum(np.where(counts > 0, counts + noise, 0), 0))


def encode_shuffle_analyze(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """The same noise, shifted by q/2 but not truncated: Encode-Shuffle-Analyze as the paper describes it."""
    ratio = 1 - math.exp(-epsilon)
    noise = random.geometric(ratio, (runs, counts.size)) - random.geometric(ratio, (runs, counts.size))
    shifted = counts + noise - smallest_q(epsilon, DELTA) // 2
    return question.answers(np.maximum(np.where(counts > 0, shifted, 0), 0))


def exponential(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """The error as utility, whose sensitivity is the number of bars less one."""
    bars = np.arange(counts.size)
    weights = np.exp(-epsilon * np.abs(bars - question.answer(counts)) / (2 * (counts.size - 1)))
    return random.choice(bars, size=runs, p=weights / weights.sum())


def propose_test_release(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """The answer if the noisy distance to an unstable input is above ln(1/delta)/epsilon, else any bar."""
    radius = changes_to_another_answer(counts, question) - 1
    stable = radius + random.laplace(0, 1 / epsilon, runs) > math.log(1 / DELTA) / epsilon
    return np.where(stable, question.answer(counts), random.integers(0, counts.size, runs))


def changes_to_another_answer(counts: Integers, question: Question) -> int:
    """How many records must be added or removed before the answer changes."""
    best = question.answer(counts)
    if question.k is None:
        gaps = counts[best] - counts + (np.arange(counts.size) > best)
        return int(np.delete(gaps, best).min())
    ways = [int(counts[best]) - question.k + 1, *(question.k - counts[best + 1 :]).tolist()]
    return max(1, int(min(ways)))


def smooth_sensitivity(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """Laplace noise of scale 2 S/epsilon, S smooth with rate epsilon/(2 ln(2/delta)); the answer rounded to a bar."""
    rate = epsilon / (2 * math.log(2 / DELTA))
    smooth = float(np.max(jump_sizes(counts.size) * np.exp(-rate * jump_costs(counts, question))))
    noisy = question.answer(counts) + random.laplace(0, 2 * smooth / epsilon, runs)
    return np.clip(np.round(noisy), 0, counts.size - 1).astype(np.int64)


def jump_sizes(bars: int) -> Integers:
    """|h - g| for bars g, h."""
    places = np.arange(bars)
    return np.asarray(np.abs(places[:, None] - places[None, :]))


def jump_costs(counts: Integers, question: Question) -> Floats:
    """How many records to change before one record more makes the answer jump between g (row) and h (column), to one record."""
    if question.k is None:
        return _mode_costs(counts)
    k, bars = question.k, counts.size
    excess = np.maximum(counts - k + 1, 0)
    above = np.cumsum(excess[::-1])[::-1] - excess  # what must go right of g
    to_g = np.maximum(k - counts, 0)
    to_g[0] = 0  # without any bar the answer is the first
    costs = np.full((bars, bars), np.inf)
    for h in range(1, bars):
        others = above[:h] - excess[h] + to_g[:h]
        costs[:h, h] = others + np.minimum(np.abs(counts[h] - (k - 1)), np.abs(counts[h] - k))
    return costs


def _mode_costs(counts: Integers) -> Floats:
    """Bring g and h to one level and everything else to it or below, at the cheapest level."""
    costs = np.full((counts.size, counts.size), np.inf)
    for level in range(int(np.median(counts)), int(counts.max()) + 1):
        excess = np.maximum(counts - level, 0)
        change = np.abs(counts - level) - excess  # instead of being cut down, g and h are brought to the level
        costs = np.minimum(costs, excess.sum() + change[:, None] + change[None, :])
    return np.asarray(np.maximum(costs - 1, 0))


def stability_vadhan(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """The stability histogram as usually calibrated: Lap(2/epsilon), threshold 1 + 2 ln(2/delta)/epsilon."""
    return _stability(counts, question, 2 / epsilon, 1 + 2 * math.log(2 / DELTA) / epsilon, runs, random)


def stability_fair(
    counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
) -> Integers:
    """The same for one record added or removed: Lap(1/epsilon), threshold 1 + ln(1/(2 delta))/epsilon."""
    return _stability(counts, question, 1 / epsilon, 1 + math.log(1 / (2 * DELTA)) / epsilon, runs, random)


def _stability(
    counts: Integers, question: Question, scale: float, threshold: float, runs: int, random: np.random.Generator
) -> Integers:
    noisy = counts + random.laplace(0, scale, (runs, counts.size))
    return question.answers(np.where((counts > 0) & (noisy > threshold), noisy, 0))


def choosing_with(alpha_factor: float = 1.0, epsilon_factor: float = 1.0) -> Mechanism:
    """SanPoints (Beimel, Nissim, Stemmer): 2/alpha bars picked by exponential mechanisms without repetition, Laplace on each.

    alpha = c (sqrt(ln(1/delta)) ln ln(1/delta)/(epsilon n))^(2/3) with c = alpha_factor. Half of epsilon picks, half measures,
    advanced composition over the rounds; epsilon_factor multiplies what each round gets. Only bars with records are chosen, so
    a noisy count must pass the threshold of a stability histogram with delta/rounds. Peeling with exponential mechanisms is
    the same as taking the largest of scores with Gumbel noise.

    One reading, not the original. [BCDP22] names the mechanism without c, without the split of epsilon and delta between
    choosing and measuring, and without the score below which nothing is chosen. Both factors are there to see how much hangs
    on them; with epsilon_factor > 1 this reading is *not* private at epsilon.
    """

    def choosing(
        counts: Integers, question: Question, epsilon: float, runs: int, random: np.random.Generator
    ) -> Integers:
        logs = math.log(1 / DELTA)
        small = (math.sqrt(logs) * math.log(logs) / (epsilon * int(counts.sum()))) ** (2 / 3)
        rounds = min(math.ceil(2 / min(1.0, alpha_factor * small)), counts.size)
        each = epsilon_factor * epsilon / (2 * math.sqrt(2 * rounds * logs))
        scores = counts * each / 2 + random.gumbel(0, 1, (runs, counts.size))
        cut = -np.partition(-scores, rounds - 1, axis=1)[:, rounds - 1 : rounds]
        noisy = counts + random.laplace(0, 1 / each, (runs, counts.size))
        threshold = 1 + math.log(rounds / (2 * DELTA)) / each
        return question.answers(np.where((scores >= cut) & (noisy > threshold) & (counts > 0), noisy, 0))

    return choosing


MECHANISMS: Final[dict[str, Mechanism]] = {
    "truncated Laplace (ours)": truncated,
    "shifted Laplace (ESA)": encode_shuffle_analyze,
    "stability, add/remove": stability_fair,
    "stability, Vadhan": stability_vadhan,
    "choosing-based": choosing_with(),
    "propose-test-release": propose_test_release,
    "smooth sensitivity": smooth_sensitivity,
    "exponential": exponential,
}

CHOOSING: Final[dict[str, Mechanism]] = {
    "as in the figure": choosing_with(),
    "α / 4": choosing_with(alpha_factor=0.25),
    "4 α": choosing_with(alpha_factor=4),
    "4 ε in each round (not private)": choosing_with(epsilon_factor=4),
}
