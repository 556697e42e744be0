"""Sampling is uniform: each test accepts the engine and must reject samplers that are not."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from engine_oracle import Engine, every_engine, groups_of, quick
from scipy import stats

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines.dialect import Dialect
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from example_numbers import some

ALPHA = 1e-7
"""The chance that a uniform sampler fails one of these tests. The seeds are fixed, so it either does or does not."""

UNITS = 20_000
GROUPS = 6


@cache
def in_every_group(keys: Sequence[str], units: int) -> pa.Table:
    """Units that are in the same six groups."""
    numbers = np.tile(np.arange(GROUPS), units)
    items = pa.array(list(keys)).take(pa.array(numbers))
    return pa.table({"user": np.repeat(np.arange(units), GROUPS), "item": items, "other": numbers})


def marginal_p_value(engine: Engine, keys: Sequence[str], limit: int, seed: int) -> float:
    """Chi-square of how often each of the same six groups is kept by 20,000 units; by 4,000 on Spark, unless asked for by name.

    With N_i ~ how many keep group i, p = limit/6: the sum of (N_i - np)^2 / (np(1 - p)), times 5/6, is chi-square with 5
    degrees of freedom, since the N_i add up to a constant.
    """
    query = GroupByQuery("user", (Key("item"), Key("other")))
    units = UNITS // 5 if quick(engine) else UNITS
    counts = engine.histogram(in_every_group(keys, units), query, ContributionBounds(limit), seed=seed).counts
    counts_of_all = [*counts.tolist(), *[0] * (GROUPS - len(counts))]
    share = limit / GROUPS
    square = sum((count - units * share) ** 2 for count in counts_of_all) / (units * share * (1 - share))
    return float(stats.chi2.sf(square * (GROUPS - 1) / GROUPS, GROUPS - 1))


COLUMNS, BITS = 20, 25
"""Units in the same five groups: each has a bit of its own in one of so many sums, which shows who is in a group."""

MASKS = tuple(SumOfUnit(f"bit_{place}", 0.0, 2.0**BITS, lattice=Lattice(0.0, 1.0)) for place in range(COLUMNS))


@cache
def in_five_groups() -> pa.Table:
    pairs = list(itertools.product(range(COLUMNS * BITS), "abcde"))
    bits = {
        mask.column: [2.0 ** (user % BITS) if user // BITS == place else None for user, _ in pairs]
        for place, mask in enumerate(MASKS)
    }
    return pa.table({"user": [user for user, _ in pairs], "item": [item for _, item in pairs], **bits})


def joint_p_value(engine: Engine, seeds: int) -> float:
    """Chi-square of which two of five groups are kept, over 500 units and several seeds."""
    seen = dict.fromkeys(itertools.combinations("abcde", 2), 0)
    query = GroupByQuery("user", (Key("item"),), MASKS)
    for seed in range(seeds):
        histogram = engine.histogram(in_five_groups(), query, ContributionBounds(2), seed=seed)
        kept: dict[tuple[int, int], list[str]] = defaultdict(list)
        for (item,), (_, *masks) in groups_of(histogram).items():
            for place, bit in itertools.product(range(COLUMNS), range(BITS)):
                if masks[place] >> bit & 1:
                    kept[place, bit].append(str(item))
        for items in kept.values():
            seen[min(items), max(items)] += 1
    assert sum(seen.values()) == COLUMNS * BITS * seeds
    return float(stats.chisquare(list(seen.values())).pvalue)


TEXTS = ("a", "b", "c", "https://example.org/", "ä", "")
BIASED: dict[str, Callable[[int, Sequence[str]], str]] = {
    "the first by key": lambda seed, columns: "0",
    "the same for all": lambda seed, columns: f"hash(CAST({seed} AS UBIGINT), key_1)",
    "by a hash of the unit": lambda seed, columns: "hash(unit)",
    "one round of hashing": lambda seed, columns: f"hash(CAST({seed} AS UBIGINT), {', '.join(columns)})",
}


LIMITS_AND_SEEDS = [(limit, seed) for seed in (2**64 - 1, 0, 1, 2**63) for limit in (2, 1, 5)]


@every_engine
@pytest.mark.parametrize(("limit", "seed"), some(LIMITS_AND_SEEDS, 3))
def test_every_group_is_kept_equally_often(engine: Engine, limit: int, seed: int) -> None:
    assert marginal_p_value(engine, TEXTS, limit, seed) > ALPHA


@every_engine
def test_every_set_is_kept_equally_often(engine: Engine) -> None:
    assert joint_p_value(engine, seeds=1 if quick(engine) else 4) > ALPHA  # as one query in test_spark_engine


@pytest.mark.parametrize("name", BIASED)
def test_biased_samplers_are_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    biased = BIASED[name]
    monkeypatch.setattr(Dialect, "priority", lambda self, seed, columns: biased(seed, columns))
    engine = DuckDBEngine()
    # 500 sets are enough to find all of these, and the good one is judged by 2,000.
    assert min(marginal_p_value(engine, TEXTS, 2, seed=5), joint_p_value(engine, seeds=1)) < ALPHA


@every_engine
def test_each_run_draws_anew(engine: Engine) -> None:
    table = pa.table({"user": [1] * 200, "item": list(range(200))})
    query = GroupByQuery("user", (Key("item"),))
    runs = {
        tuple(sorted(engine.histogram(table, query, ContributionBounds(20)).keys["item"].to_pylist())) for _ in range(2)
    }
    assert len(runs) == 2  # 200 choose 20 is about 10^27
