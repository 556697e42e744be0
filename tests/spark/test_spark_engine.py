"""What only Spark's engine has: sketches merged in a tree, translated expressions, uniform samples of many units at once."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dphist as dp
from dphist.engines.dialect import Dialect
from dphist.engines.duckdb.expressions import Steps
from dphist.engines.duckdb.source import described
from dphist.engines.histogram import ContributionBounds
from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.spark.engine import SparkEngine
from dphist.engines.spark.expressions import quote_text, spark_expression
from dphist.engines.spark.sketch import sketch_sql
from dphist.engines.spark.staging import new_staging
from spark_sessions import LazySpark, frame, session

QUERY = GroupByQuery("user", (Key("item"),))


def sketched(people: list[set[int]], sparsity: int, blocks: int = 64) -> dict[int, int]:
    table = pa.table(
        {
            "user": pa.array([u for u, groups in enumerate(people) for _ in groups], pa.int64()),
            "item": pa.array([item for groups in people for item in sorted(groups)], pa.int64()),
        }
    )
    with SparkEngine(session()).open(frame(table), QUERY, seed=3) as records:
        found = records.sql(sketch_sql(records, sparsity, blocks)).toArrow()
    return dict(zip(found["key_1"].to_pylist(), found["units"].to_pylist(), strict=True))


@pytest.mark.cluster
def test_a_tree_of_sketches_keeps_neighbours_close_and_states_its_error() -> None:
    """One unit moves all counters by a vector of 0 and 1, or of 0 and -1; no count is too large or off by more than stated."""
    rng = np.random.default_rng(2)
    people = [set(rng.integers(0, 12, rng.integers(1, 6)).tolist()) for _ in range(40)]
    exact = Counter(item for groups in people for item in groups)
    for sparsity, gone in ((3, 0), (5, 17)):
        without = [groups if number != gone else set() for number, groups in enumerate(people)]
        one, other = sketched(people, sparsity), sketched(without, sparsity)
        assert 0 < len(one) <= sparsity
        differences = {one.get(item, 0) - other.get(item, 0) for item in one.keys() | other.keys()}
        assert differences <= {0, 1} or differences <= {0, -1}
        most = sum(exact.values()) // (sparsity + 1)
        assert all(0 <= exact[item] - one.get(item, 0) <= most for item in exact)
    assert sketched(people, 20) == exact


def test_a_sketch_has_counts_alone() -> None:
    query = GroupByQuery("user", (Key("item"),), want_total=True)
    with pytest.raises(dp.InvalidParameter, match="counts alone"):
        LazySpark().sketch(pa.table({"user": [1], "item": [1]}), query, 3)


def subsets(priority: str | None, monkeypatch: pytest.MonkeyPatch) -> float:
    """p-value of chi-square over which two of five groups 20,000 units keep."""
    if priority is not None:
        monkeypatch.setattr(Dialect, "priority", lambda self, seed, columns: priority)
    units, items = 20_000, "abcde"
    table = pa.table({"user": np.repeat(np.arange(units), 5), "item": list(items) * units})
    with SparkEngine(session()).open(frame(table), QUERY, seed=11) as records, records.pairs() as pairs:
        kept = pairs.sampled(2).sample
        sets = f"SELECT concat_ws('', array_sort(collect_list(key_1))) AS both FROM {kept} GROUP BY unit"
        found: dict[str, int] = dict(records.sql(f"SELECT both, COUNT(*) FROM ({sets}) GROUP BY both").collect())
    observed = [found.get(one + two, 0) for one, two in itertools.combinations(items, 2)]
    assert sum(observed) == units
    return float(stats.chisquare(observed).pvalue)


@pytest.mark.cluster
def test_every_set_of_groups_is_kept_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha = 1e-7 with a fixed seed; a hash that leaves the unit out must fail."""
    assert subsets(None, monkeypatch) > 1e-7
    assert subsets("xxhash64(7, key_1)", monkeypatch) < 1e-7


EXPRESSIONS = [
    "date_trunc('month', day)", "extract(year FROM day)", "month(day)", "a + 1 > 3 AND b IS NULL", "a * 2 - 1", "-a",
    "CASE WHEN a > 2 THEN 'x' ELSE text END", "CAST(text AS BIGINT)", "CAST(a AS VARCHAR)", "CAST(x AS DECIMAL(6, 2))",
    "a IN (1, 2)", "a NOT IN (1, 2)", "a BETWEEN 1 AND 3", "text LIKE 'a%'", "text NOT LIKE '_b'", "coalesce(text, 'none')",
    "text || '!'", "NOT (a = 1)", "a % 2", "CAST(a AS INTEGER) // 2", "b IS NOT DISTINCT FROM a", "b IS DISTINCT FROM a",
    "b IS NOT NULL", "upper(text)", "length(text)", "substring(text, 1, 2)", "left(text, 1)", "split_part(text, 'b', 1)",
    "nullif(a, 2)", "if(a > 2, 'big', 'small')", "replace(text, 'a', 'o')", "starts_with(text, 'a')", "contains(text, 'b')",
    "x > 1e-3", "TRUE", "DATE '2024-02-01' > day", "'it''s ä \\ \u2603'", "abs(a)", "a / 4", "a <> 2 OR x >= 1.5",
    "lower(trim(text))",
]  # fmt: skip


def test_expressions_mean_what_they_mean_in_duckdb() -> None:
    """All of them as columns of one query here and of one query there."""
    import datetime as dt

    rows = pa.table(
        {
            "a": pa.array([1, 2, 3, None, -7], pa.int64()),
            "b": pa.array([None, 2, 4, None, 0], pa.int64()),
            "x": pa.array([0.5, 1.5, None, 2.25, -1.0], pa.float64()),
            "text": pa.array(["abc", None, "12", " ab", "b"], pa.string()),
            "day": pa.array(
                [dt.date(2024, 1, 31), None, dt.date(2023, 12, 1), dt.date(2024, 2, 29), dt.date(1970, 1, 1)]
            ),
        }
    )
    frame(rows).createOrReplaceTempView("rows_of_expressions")
    with duckdb.connect() as connection:
        connection.register("record", rows)
        steps = Steps(connection, described(connection, "record"))
        here = [f"{steps.write(read_expression(text)).sql} AS c{i}" for i, text in enumerate(EXPRESSIONS)]
        there = [
            f"{spark_expression(read_expression(text), lambda name: f'`{name}`', _kind)} AS c{i}"
            for i, text in enumerate(EXPRESSIONS)
        ]
        want = connection.sql(f"SELECT {', '.join(here)} FROM {steps.source('record')}").to_arrow_table().to_pylist()
    session().conf.set("spark.sql.ansi.enabled", "false")
    try:
        got = session().sql(f"SELECT {', '.join(there)} FROM rows_of_expressions").toArrow().to_pylist()
    finally:
        session().conf.unset("spark.sql.ansi.enabled")
        session().catalog.dropTempView("rows_of_expressions")
    for position, text in enumerate(EXPRESSIONS):
        name = f"c{position}"
        assert [_plain(row[name]) for row in got] == [_plain(row[name]) for row in want], text


def _kind(sql: str) -> str:
    return str(session().sql(f"SELECT {sql} FROM rows_of_expressions").dtypes[0][1])


def _plain(value: object) -> object:
    import datetime as dt

    return value.date() if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s.field", "a field of a column"),
        ("x // 2", "the function //"),
        ("text LIKE 'a\\%'", "the function ~~"),
        ("date_trunc('decade', day)", "the part 'decade'"),
        ("CAST(x AS UUID)", "the type UUID"),
        ("list_transform(l, lambda y: y + 1)", "the function list_transform"),
        ("substring(text, -2, 1)", "the function substring"),
        ("l[1]", "array_extract"),
        ("sum(x)", "the function sum"),
        ("date_trunc('month', text)", "date_trunc of the type string"),
    ],
)
def test_what_spark_means_otherwise_is_refused(text: str, message: str) -> None:
    with pytest.raises(dp.InvalidParameter) as caught:
        spark_expression(read_expression(text), lambda name: name, lambda sql: "string")
    assert message in str(caught.value)


def test_literals_hold_whatever_they_are_given() -> None:
    for text in ("plain", "it's", "a\\nb", "", "ä🦆", "{}%s", "\x00\n"):
        assert session().sql(f"SELECT {quote_text(text)}").collect()[0][0] == text


def test_a_cluster_needs_a_directory_it_shares() -> None:
    class Elsewhere:
        class conf:  # noqa: N801
            @staticmethod
            def get(name: str, default: str) -> str:
                return "yarn"

    with pytest.raises(dp.InvalidParameter, match="only you can read"):
        new_staging(Elsewhere(), None)  # type: ignore[arg-type]


def test_pairs_that_are_counted_here_leave_nothing_behind(tmp_path: Path) -> None:
    engine = SparkEngine(session(), str(tmp_path))
    source = frame(pa.table({"user": [1, 1, 2], "item": ["a", "b", "a"]}))
    with engine.open(source, QUERY) as records, records.pairs() as pairs:
        assert pairs.histogram(ContributionBounds(2)).counts.sum() == 3
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
