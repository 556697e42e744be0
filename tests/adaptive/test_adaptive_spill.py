"""A table larger than the memory limit: the engine spills, stays below the limit, and the sums are the same bits."""

import hashlib
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dphist.engines.duckdb.pairs import SqlPairs
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.mechanisms.tuning import ONE
from dphist.run.counting import edges
from duckdb_pairs import open_pairs

ROWS, LIMIT = 600_000, 40_000_000
QUERY = GroupByQuery("user", (Key("item"),))


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of 64 letters: the pairs alone take more than the limit."""
    rng = np.random.default_rng(0)
    names = np.array([hashlib.sha256(bytes([k % 256, k // 256])).hexdigest() for k in range(3000)])
    user = rng.integers(0, ROWS // 4, ROWS) * 2_654_435_761 % 2**61
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(pa.table({"user": user, "item": names[(3000 * rng.random(ROWS) ** 2).astype(np.int64)]}), path)
    return path


def in_use(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Bytes in memory and on disk, as the engine counts them."""
    ((memory, disk),) = connection.execute(
        "SELECT SUM(memory_usage_bytes), SUM(temporary_storage_bytes) FROM duckdb_memory()"
    ).fetchall()
    return int(memory), int(disk)


def sums(events: Path, settings: PerformanceSettings) -> tuple[type, list[NDArray[np.int64]], list[tuple[int, int]]]:
    looks = []
    with open_pairs(events, QUERY, settings, seed=1) as table:
        looks.append(in_use(table.connection))
        pairs = table.sampled(5)
        looks.append(in_use(table.connection))
        weights = np.arange(pairs.groups) % (ONE + 1)
        found = [pairs.weighted_sums(np.full(pairs.groups, ONE)), pairs.weighted_sums(weights)]
        chosen = np.flatnonzero(weights)
        for power in (1, 2):
            bounds = [ONE**power // 2, ONE**power, 4 * ONE**power]
            found += [
                pairs.class_sums(weights, chosen, bounds, power, {})["units"],
                pairs.norms(weights, edges(power), power),
            ]
        looks.append(in_use(table.connection))
        return type(pairs), found, looks


def test_a_table_larger_than_the_limit_spills_and_gives_the_same_bits(events: Path, tmp_path: Path) -> None:
    free, expected, roomy = sums(events, PerformanceSettings(threads=1))
    assert free is MemoryPairs
    assert max(memory for memory, _ in roomy) > LIMIT  # so it cannot fit
    kind, found, looks = sums(
        events, PerformanceSettings(threads=1, memory_limit=f"{LIMIT // 10**6}MB", temp_directory=tmp_path)
    )
    assert kind is SqlPairs
    assert all(memory <= LIMIT for memory, _ in looks)
    assert max(disk for _, disk in looks) > 0
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
    assert list(tmp_path.iterdir()) == []
