"""An election larger than the memory limit: it spills, stays below the limit, and has the same votes."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from dphist.engines.base import Arrays, Rows
from dphist.engines.duckdb.pairs import SqlPairs
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from duckdb_pairs import open_pairs

ROWS, LIMIT = 300_000, 30_000_000
QUERY = GroupByQuery("user", (Key("item"),))


def as_first(groups: Arrays) -> Rows:
    return Rows(np.arange(len(groups["exact"])), {"first": groups["exact"]})


def elected(table: pa.Table, settings: PerformanceSettings) -> tuple[type, list[bytes], int]:
    with open_pairs(table, QUERY, settings, seed=1) as pairs:
        voters = pairs.voters()
        look = voters.shares().each(as_first, ("first",))
        found: list[LocalGroups] = [voters.elect(25), voters.elect(25, look)]
        usage = "SELECT SUM(memory_usage_bytes), SUM(temporary_storage_bytes) FROM duckdb_memory()"
        ((memory, disk),) = pairs.connection.execute(usage).fetchall()
        assert settings.memory_limit is None or int(memory) <= LIMIT
        return type(voters), [one.codes.tobytes() + one.columns["votes"].tobytes() for one in found], int(disk)


def test_an_election_larger_than_the_limit_has_the_same_votes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = np.array([hashlib.sha256(bytes([k % 256, k // 256])).hexdigest() for k in range(3000)])
    user = rng.integers(0, ROWS // 4, ROWS) * 2_654_435_761 % 2**61
    table = pa.table({"user": user, "item": names[(3000 * rng.random(ROWS) ** 2).astype(np.int64)]})
    free, expected, _ = elected(table, PerformanceSettings(threads=1))
    tight = PerformanceSettings(threads=1, memory_limit=f"{LIMIT // 10**6}MB", temp_directory=tmp_path)
    kind, found, disk = elected(table, tight)
    assert (free, kind) == (MemoryPairs, SqlPairs)
    assert disk > 0
    assert found == expected
    assert list(tmp_path.iterdir()) == []
