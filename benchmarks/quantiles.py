"""Which way to private quantiles per group has the smallest error? Nothing here draws secure noise.

    python benchmarks/quantiles.py                    synthetic columns
    python benchmarks/quantiles.py --data FOLDER      also prices, quantities and values by item (online_retail.parquet) and
                                                      days in hospital by diagnosis (diabetes_diagnoses.parquet)

Each group has one value per unit. All ways cost as much as a count with Gaussian noise of that std (in the second table, with
Laplace noise of that std). Errors, in %: the mean rank error of the columns, of the units in a group; and of each column the
median relative error of the value, of which the median over the columns is told.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from dphist.privacy.composition import mu_of_range
from dphist.privacy.search import edge

Floats: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[int], Floats]

HEIGHT = 12
BINS = 1 << HEIGHT
QUANTILES = {1: [0.5], 3: [0.25, 0.5, 0.75], 9: [i / 10 for i in range(1, 10)]}
BOUNDS = {"price": (0, 50), "quantity": (0, 500), "value": (0, 1000), "days": (0, 16)}
IGNORED_SHARE = 0.0075
"""Google's trees leave out children with a smaller share than this."""

random = np.random.default_rng(19)


@dataclass(frozen=True)
class Budget:
    """What may be spent on one group: as much as a count with this noise costs."""

    noise_std: float
    pure: bool

    def std(self, draws: float) -> float:
        """Of the noise on each of so many draws of sensitivity 1: stds add up in squares, Laplace scales do not."""
        return self.noise_std * (draws if self.pure else math.sqrt(draws))

    def noise(self, draws: float, shape: tuple[int, ...]) -> Floats:
        """The noise of one of so many draws."""
        std = self.std(draws)
        return random.laplace(0, std / math.sqrt(2), shape) if self.pure else random.normal(0, std, shape)

    def bounded_range(self, choices: int) -> float:
        """The range of the privacy loss of each of so many exponential mechanisms; exact for a Gaussian budget."""
        if self.pure:
            return math.sqrt(2) / self.noise_std / choices
        mu = 1 / self.noise_std / math.sqrt(choices)
        return edge(mu_of_range, mu, 1e-9, 60.0)


def google_tree(prefixes: Floats, p: list[float], budget: Budget, branching: int) -> Floats:
    """Noisy counts of all nodes; from node to child by shares of the children's noisy sum."""
    levels = round(HEIGHT / math.log2(branching))
    counts = []
    for level in range(1, levels + 1):
        exact = np.diff(prefixes[:, :: BINS // branching**level], axis=1)
        counts.append(exact + budget.noise(levels, exact.shape))
    answers = np.empty((len(prefixes), len(p)))
    for group in range(len(prefixes)):
        for column, share in enumerate(p):
            node, rank, left, width = 0, share, 0.0, 1.0
            for row in counts:
                children = np.maximum(row[group, node * branching : (node + 1) * branching], 0)
                children = np.where(children >= IGNORED_SHARE * children.sum(), children, 0)
                if not (total := children.sum()):
                    break
                sums = np.cumsum(children)
                child = int(np.searchsorted(sums, rank * total))
                rank = min(1.0, (rank * total - sums[child] + children[child]) / children[child])
                width /= branching
                left, node = left + child * width, node * branching + child
            answers[group, column] = left + rank * width
    return answers


def reconciled_tree(prefixes: Floats, p: list[float], budget: Budget, branching: int) -> Floats:
    """The same noise and a noisy total; children are made to add up to their parent by variances, and walks go by ranks."""
    levels = round(HEIGHT / math.log2(branching))
    groups = np.arange(len(prefixes))
    variance = budget.std(levels + 1) ** 2
    total = prefixes[:, -1] + budget.noise(levels + 1, (len(groups),))
    counts = []
    for level in range(1, levels + 1):
        exact = np.diff(prefixes[:, :: BINS // branching**level], axis=1)
        counts.append(exact + budget.noise(levels + 1, exact.shape))
    answers = np.empty((len(groups), len(p)))
    for column, share in enumerate(p):
        size, size_variance = np.maximum(total, 1.0), variance
        rank, node = share * size, np.zeros(len(groups), np.int64)
        for row in counts:
            children = row[groups[:, None], node[:, None] * branching + np.arange(branching)]
            gain = variance / (size_variance + branching * variance)
            children = np.maximum(children + ((size - children.sum(axis=1)) * gain)[:, None], 1e-9)
            children *= (size / children.sum(axis=1))[:, None]
            size_variance = variance - variance * gain
            sums = np.cumsum(children, axis=1)
            child = np.minimum((sums < rank[:, None]).sum(axis=1), branching - 1)
            size = children[groups, child]
            rank = np.clip(rank - sums[groups, child] + size, 0, size)
            node = node * branching + child
        answers[:, column] = (node + rank / size) / BINS
    return answers


def balances(prefixes: Floats, p: list[float], budget: Budget, height: int = HEIGHT, decay: float = 1.0) -> Floats:
    """What dphist does: noisy balances (left half less right half) and a noisy total. decay: of the budget per level."""
    coarse = prefixes[:, :: 1 << (HEIGHT - height)]
    groups = np.arange(len(prefixes))
    shares = decay ** np.arange(height + 1.0)
    draws = shares.sum() / shares
    total = np.maximum(coarse[:, -1] + budget.noise(draws[0], (len(groups),)), budget.std(draws[0]))
    levels = []
    for level in range(height):
        width = 1 << (height - level)
        exact = 2 * coarse[:, width // 2 :: width] - coarse[:, :-1:width] - coarse[:, width::width]
        levels.append(exact + budget.noise(draws[level + 1], exact.shape))
    answers = np.empty((len(groups), len(p)))
    for column, share in enumerate(p):
        size, rank, node = total, share * total, np.zeros(len(groups), np.int64)
        for row in levels:
            left = np.clip((size + row[groups, node]) / 2, 0, size)
            right = rank > left
            size, rank = np.where(right, size - left, left), np.where(right, rank - left, rank)
            node = 2 * node + right
        answers[:, column] = (node + rank / size) / (1 << height)
    return answers


def noisy_search(prefixes: Floats, p: list[float], budget: Budget) -> Floats:
    """Binary search: a fresh noisy rank, less p of the total, for each level and quantile. It has no intervals."""
    groups = np.arange(len(prefixes))
    answers = np.empty((len(groups), len(p)))
    for column, share in enumerate(p):
        node = np.zeros(len(groups), np.int64)
        for level in range(HEIGHT):
            middle = (2 * node + 1) << (HEIGHT - level - 1)
            rank = prefixes[groups, middle] - share * prefixes[:, -1]
            noise = max(share, 1 - share) * budget.noise(HEIGHT * len(p), (len(groups),))
            node = 2 * node + (rank + noise < 0)
        answers[:, column] = (node + 0.5) / BINS
    return answers


def kaplan(prefixes: Floats, p: list[float], budget: Budget) -> Floats:
    """[KSS22]: the middle quantile by the exponential mechanism, then the others on either side. It has no intervals.

    Values are spread inside their bins, so that equal ones can be divided.
    """
    answers = np.empty((len(prefixes), len(p)))
    loss = budget.bounded_range(math.ceil(math.log2(len(p) + 1)))

    def divide(
        row: Floats, values: Floats, ends: tuple[float, float], wanted: range, shares: tuple[float, float]
    ) -> None:
        if not wanted:
            return
        middle = wanted[len(wanted) // 2]
        share = (p[middle] - shares[0]) / (shares[1] - shares[0])
        points = np.concatenate([ends[:1], values, ends[1:]])
        distance = np.abs(np.arange(len(points) - 1) - share * len(values)) / (2 * max(share, 1 - share))
        scores = np.log(np.maximum(np.diff(points), 1e-300)) - loss * distance
        gap = int(np.argmax(scores + random.gumbel(size=len(scores))))
        cut = float(random.uniform(points[gap], points[gap + 1]))
        row[middle] = cut
        divide(row, values[:gap], (ends[0], cut), range(wanted.start, middle), (shares[0], p[middle]))
        divide(row, values[gap:], (cut, ends[1]), range(middle + 1, wanted.stop), (p[middle], shares[1]))

    for row, sums in zip(answers, prefixes, strict=True):
        places = np.repeat(np.arange(BINS), np.diff(sums).astype(np.int64))
        divide(row, np.sort((places + random.random(len(places))) / BINS), (0.0, 1.0), range(len(p)), (0.0, 1.0))
    return answers


Way: TypeAlias = Callable[[Floats, list[float], Budget], Floats]
WAYS: dict[str, Way] = {
    **{f"Google's tree, {b}": partial(google_tree, branching=b) for b in (16, 8, 4, 2)},
    **{f"reconciled tree, {b}": partial(reconciled_tree, branching=b) for b in (16, 4, 2)},
    "balances, height 12": balances,
    "balances, budget x 0.85 per level": partial(balances, decay=0.85),
    "balances, height 8": partial(balances, height=8),
    "noisy binary search": noisy_search,
    "Kaplan et al.": kaplan,
}


def columns(data: Path | None) -> Iterator[tuple[str, Draw]]:
    """Names of columns, and functions that draw the values of a group of n units, inside [0, 1)."""
    yield "log-normal", lambda n: np.minimum(np.exp(random.normal(0, 1, n)) * 0.03, 1 - 1e-9)
    yield "constant", lambda n: np.full(n, random.uniform(0.05, 0.95))
    yield "two points", lambda n: np.where(random.random(n) < 0.37, 0.1, 0.8)
    if data is None:
        return
    for column, (lower, upper) in BOUNDS.items():
        file = data / ("diabetes_diagnoses.parquet" if column == "days" else "online_retail.parquet")
        name = "value" if column == "days" else column
        query = f"""SELECT item, arg_min({name}, hash("user", time_key)) AS v
            FROM (SELECT *, row_number() OVER () AS time_key FROM '{file}') GROUP BY item, "user" ORDER BY item"""
        table = duckdb.connect().execute(query).fetchnumpy()
        _, starts = np.unique(table["item"], return_index=True)
        scaled = (np.asarray(table["v"], np.float64) - lower) / (upper - lower)
        yield column, partial(_some_of, np.split(np.clip(scaled, 0, 1 - 1e-9), starts[1:]))


def _some_of(groups: list[Floats], n: int) -> Floats:
    large = [group for group in groups if len(group) >= n]
    return random.permutation(large[random.integers(len(large))])[:n]


def errors(answers: Floats, prefixes: Floats, p: list[float]) -> tuple[float, float]:
    """The mean rank error in % and the median relative error of the value."""
    groups, total = np.arange(len(prefixes))[:, None], prefixes[:, -1:]
    targets = np.asarray(p) * total
    bins = np.minimum((answers * BINS + 1e-9).astype(np.int64), BINS - 1)
    rank = np.maximum(0, np.maximum(targets - prefixes[groups, bins + 1], prefixes[groups, bins] - targets)) / total
    true = (np.array([np.searchsorted(row, t - 1e-9) for row, t in zip(prefixes, targets, strict=True)]) - 0.5) / BINS
    return float(rank.mean()) * 100, float(np.median(np.abs(answers - true) / true))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    drawn = dict(columns(options.data))
    for pure in (False, True):
        sizes = [(3.0, 30), (3.0, 100), (3.0, 300), (3.0, 1000), (10.0, 30), (10.0, 100), (10.0, 300), (10.0, 1000)]
        print(f"\n{'Laplace' if pure else 'Gaussian'} budget: rank error in % / relative error of the value in %")
        print("| quantiles | way | " + " | ".join(f"std {std:g}, n = {n}" for std, n in sizes) + " |")
        print("| --- | --- |" + " --- |" * len(sizes))
        for number, p in QUANTILES.items():
            for name, way in WAYS.items():
                cells = []
                for std, n in sizes:
                    found = []
                    for draw in drawn.values():
                        values = np.array([draw(n) for _ in range(options.trials)])
                        counts = [np.bincount((row * BINS).astype(np.int64), minlength=BINS) for row in values]
                        prefixes = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0))).astype(np.float64)
                        found.append(errors(way(prefixes, p, Budget(std, pure)), prefixes, p))
                    rank, relative = np.mean(found, axis=0)[0], np.median(found, axis=0)[1]
                    cells.append(f"{rank:.1f} / {100 * relative:.1f}")
                print(f"| {number} | {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
