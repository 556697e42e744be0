"""Sampling is uniform: each test accepts the engine and must reject samplers that are not."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from engine_oracle import MASK, Engine, every_engine, samples
from scipy import stats

import spark_sessions
from dphist.engines.duckdb.engine import DuckDBDialect, DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.histogram import ContributionBounds

ALPHA = 1e-7
"""The chance that a uniform sampler fails one of these tests. The seeds are fixed, so it either does or does not."""

UNITS = 20_000
GROUPS = 6


def marginal_p_value(engine: Engine, keys: Sequence[str], limit: int, seed: int) -> float:
    """Chi-square of how often each of the same six groups is kept by 20,000 units.

    With N_i ~ how many keep group i, p = limit/6: the sum of (N_i - np)^2 / (np(1 - p)), times 5/6, is chi-square with 5
    degrees of freedom, since the N_i add up to a constant.
    """
    units = [unit for unit in range(UNITS) for _ in range(GROUPS)]
    table = pa.table({"user": units, "item": list(keys) * UNITS, "other": list(range(GROUPS)) * UNITS})
    query = GroupByQuery("user", (Key("item"), Key("other")))
    counts = engine.histogram(table, query, ContributionBounds(limit), seed=seed).counts
    counts_of_all = [*counts.tolist(), *[0] * (GROUPS - len(counts))]
    share = limit / GROUPS
    square = sum((count - UNITS * share) ** 2 for count in counts_of_all) / (UNITS * share * (1 - share))
    return float(stats.chi2.sf(square * (GROUPS - 1) / GROUPS, GROUPS - 1))


def joint_p_value(engine: Engine, seeds: int) -> float:
    """Chi-square of which two of five groups are kept, over 25 units and several seeds."""
    pairs = list(itertools.product(range(25), "abcde"))
    table = pa.table(
        {
            "user": [user for user, _ in pairs],
            "item": [item for _, item in pairs],
            "bit": [2.0**user for user, _ in pairs],
        }
    )
    seen: Counter[frozenset[object]] = Counter()
    query = GroupByQuery("user", (Key("item"),), (MASK,))
    for seed in range(seeds):
        kept = samples(engine.histogram(table, query, ContributionBounds(2), seed=seed))
        seen.update(frozenset(groups) for groups in kept.values())
    observed = [
        seen[frozenset((pair[0],) for pair in both)] for both in itertools.combinations(zip("abcde", strict=False), 2)
    ]
    return float(stats.chisquare(observed).pvalue)


TEXTS = ("a", "b", "c", "https://example.org/", "ä", "")
BIASED: dict[str, Callable[[int, Sequence[str]], str]] = {
    "the first by key": lambda seed, columns: "0",
    "the same for all": lambda seed, columns: f"hash(CAST({seed} AS UBIGINT), key_1)",
    "by a hash of the unit": lambda seed, columns: "hash(unit)",
    "one round of hashing": lambda seed, columns: f"hash(CAST({seed} AS UBIGINT), {', '.join(columns)})",
}


@every_engine
@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_every_group_is_kept_equally_often(engine: Engine, limit: int, seed: int) -> None:
    assert marginal_p_value(engine, TEXTS, limit, seed) > ALPHA


@every_engine
def test_every_set_is_kept_equally_often(engine: Engine) -> None:
    few = (
        isinstance(engine, spark_sessions.LazySpark) and not spark_sessions.thorough
    )  # one query has them all in test_spark_engine
    assert joint_p_value(engine, seeds=8 if few else 80) > ALPHA


@pytest.mark.parametrize("name", BIASED)
def test_biased_samplers_are_rejected(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    biased = BIASED[name]
    monkeypatch.setattr(DuckDBDialect, "priority", lambda self, seed, columns: biased(seed, columns))
    engine = DuckDBEngine()
    # 500 sets are enough: the least biased of these has a p-value below 1e-200 with them, and the good one is judged by 2,000.
    assert min(marginal_p_value(engine, TEXTS, 2, seed=5), joint_p_value(engine, seeds=20)) < ALPHA


@every_engine
def test_each_run_draws_anew(engine: Engine) -> None:
    table = pa.table({"user": [1] * 200, "item": list(range(200))})
    query = GroupByQuery("user", (Key("item"),))
    runs = {
        tuple(sorted(engine.histogram(table, query, ContributionBounds(20)).keys["item"].to_pylist())) for _ in range(4)
    }
    assert len(runs) == 4  # 200 choose 20 is about 10^27
