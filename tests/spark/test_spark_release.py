"""A release on Spark beside the same release here: without noise they are equal, with noise they hold what they promise."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from spark_tables import EVENTS, quiet

import dphist as dp
from dphist.cli.app import app
from dphist.engines.spark.session import open_session
from dphist.mechanisms import CorrelatedGaussian, KnownGroups, Voting
from spark_sessions import frame, session

SPARSE = dp.SparseGaussian(max_groups=50, noise_std=1e-3, threshold=1.0)
CASES: dict[str, dict[str, Any]] = {
    "everything": {
        "mechanism": SPARSE,
        "max_groups": 50,
        "unit": ["user", "much=spent > 6"],
        "by": ["item", "odd=spent % 2"],
        "where": "spent BETWEEN 1 AND 11",
        "sums": {"cents=spent * 100": (0, 2000)},
        "means": {"spent": (0, 10)},
        "rows": 3,
        "total": True,
        "intervals": 0.9,
        "order": "key",
    },
    "sums": {
        "mechanism": SPARSE,
        "max_groups": 50,
        "sums": {"spent": (0, 20)},
        "means": {"spent": (0, 10)},
        "rows": 3,
        "total": True,
        "intervals": 0.9,
        "order": "key",
    },
    "correlated": {"mechanism": CorrelatedGaussian(5, 5, 1.0, 0.5, 1.0), "sparsity": 5, "integers": True},
    "derived": {
        "max_groups": 50,
        "mechanism": SPARSE,
        "by": ["item", "odd=spent % 2"],
        "where": "spent BETWEEN 1 AND 9",
    },
    "units": {
        "max_groups": 50,
        "mechanism": SPARSE,
        "unit": ["user", "much=spent > 6"],
        "sums": {"cents=spent * 100": (0, 2000)},
        "total": True,
        "order": "key",
    },
    "listed": {"mechanism": KnownGroups(3, 2, 1.0, 0.5), "keys": ["i1", "i2", "nobody"], "max_groups": 2},
}


ALWAYS = {"everything", "listed"}
"""One release with all columns, expressions and orders at once, and one with public keys; the other cases are parts of them."""


@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.cluster) for name in CASES]
)
def test_without_noise_spark_and_duckdb_release_the_same(name: str) -> None:
    options = dict(CASES[name])
    if name == "listed":  # every unit is in more groups than it may be counted in, and each engine draws its own sample
        options["mechanism"], options["max_groups"] = KnownGroups(3, 3, 1.0, 0.5), 3
    here, there = quiet(EVENTS, **options), quiet(frame(EVENTS, 3), **options)
    assert here.to_arrow().num_rows > 2
    assert there.to_arrow().to_pylist() == here.to_arrow().to_pylist()
    assert there.to_arrow().column_names == here.to_arrow().column_names
    assert there.total == here.total
    drop = {"created"}
    assert {k: v for k, v in there.metadata().items() if k not in drop} == {
        k: v for k, v in here.metadata().items() if k not in drop
    }


def test_without_keys_spark_publishes_the_same_row(tmp_path: Path) -> None:
    options: dict[str, Any] = {"by": None, "delta": 0, "sums": {"spent": (0, 20)}, "total": True, "intervals": 0.9}
    here, there = quiet(EVENTS, **options), quiet(frame(EVENTS, 3), **options)
    assert there.to_arrow().to_pylist() == here.to_arrow().to_pylist()
    assert there.to_arrow().column_names == there.to_spark().columns == here.to_arrow().column_names
    assert there.total == here.total
    there.write(tmp_path / "out.csv")
    assert all(check.passed is not False for check in dp.verify(tmp_path / "out.csv"))


def events(units: int, groups: int, degree: float) -> pa.Table:
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(units), np.ceil(rng.lognormal(np.log(degree), 0.7, units)).astype(np.int64))
    item = np.floor(np.exp(rng.random(len(unit)) * np.log(groups))).astype(np.int64)
    return pa.table({"user": unit, "item": item, "big": item > 50, "value": rng.random(len(unit)) * 12 - 1})


def test_the_adaptive_release_is_the_same_bits_without_noise() -> None:
    """Rounds, weights, norms, classes, estimates and sums: nothing differs but who computes it."""
    table = events(1500, 200, 6)
    options: dict[str, Any] = {
        "by": ["item", "big"],
        "sums": {"value": (-1, 8)},
        "total": True,
        "intervals": 0.95,
    }
    here, there = quiet(table, **options), quiet(frame(table, 2), **options)
    assert isinstance(there.plan.mechanism, dp.AdaptiveGaussian)
    assert here.to_arrow().num_rows > 20
    assert there.to_arrow().to_pylist() == here.to_arrow().to_pylist()
    assert there.total == here.total
    assert "all of them" in there.metadata()["estimand"]


@pytest.mark.cluster
def test_a_choice_may_fall_on_another_law_and_on_nothing() -> None:
    light = pa.table({"user": np.arange(3000), "item": np.arange(3000) % 9})
    here, there = quiet(light), quiet(frame(light))
    assert isinstance(there.plan.mechanism, Voting)
    assert there.plan.mechanism.counted
    assert there.to_arrow().to_pylist() == here.to_arrow().to_pylist()


@pytest.mark.cluster
def test_an_adaptive_release_of_too_little_is_empty_and_leaves_no_rounds(tmp_path: Path) -> None:
    few, engine = frame(EVENTS.slice(0, 20)), dp.SparkEngine(session(), str(tmp_path))
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "adaptive", "engine": engine}
    with dp.release(few, unit="user", by="item", **options) as found:
        (kept,) = tmp_path.iterdir()
        assert [path.name for path in kept.iterdir()] == [
            "released"
        ]  # noisy sums of groups that were not selected are gone
        assert found.to_arrow().num_rows == 0
        assert found.to_arrow().column_names == ["item", "count", "count_std_error"]


@pytest.mark.parametrize(
    "plan", [{"max_groups": 3, "sums": {"spent": (0, 12)}}, pytest.param({"sketch": 10}, marks=pytest.mark.cluster)]
)
def test_a_noisy_release_is_written_by_spark_verified_and_removed(plan: dict[str, Any], tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    source = frame(
        pa.concat_tables(
            [
                EVENTS.set_column(0, "user", pa.array([u * 100 + i for u in EVENTS["user"].to_pylist()]))
                for i in range(9)
            ]
        )
    )
    engine = dp.SparkEngine(session(), str(staging))
    found = dp.release(source, unit="user", by="item", epsilon=1, delta=1e-6, engine=engine, **plan)
    (left,) = staging.iterdir()  # exact counts are gone, the private table waits
    assert left.stat().st_mode & 0o077 == 0
    table = found.to_arrow()
    assert table.num_rows > 2
    assert found.first(2) == (table.slice(0, 2), table.num_rows)
    assert found.to_spark().columns == table.column_names
    assert found.to_pandas().shape == found.to_polars().shape == table.shape
    found.write(tmp_path / "out.parquet")  # test_spark_outputs has a CSV
    checks = dp.verify(tmp_path / "out.parquet")
    assert not any(check.failed for check in checks), checks
    assert {"guarantee", "columns", "threshold", "lattice"} <= {check.name for check in checks}
    found.report(tmp_path / "out.html")
    assert "Private counts by item" in (tmp_path / "out.html").read_text()
    found.close()
    assert list(staging.iterdir()) == []
    changed = tmp_path / "out.parquet" / "_dphist"
    for part in changed.glob("part-*"):
        part.unlink()
    with pytest.raises(dp.InvalidParameter, match="released folder"):
        dp.verify(tmp_path / "out.parquet")


def test_an_object_that_goes_away_takes_its_directory_with_it(tmp_path: Path) -> None:
    engine = dp.SparkEngine(session(), str(tmp_path))
    found = dp.release(frame(EVENTS), unit="user", by="item", epsilon=1, delta=1e-6, max_groups=3, engine=engine)
    assert len(list(tmp_path.iterdir())) == 1
    del found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cluster
def test_a_staging_directory_that_only_spark_reaches_is_emptied(tmp_path: Path) -> None:
    engine = dp.SparkEngine(session(), f"file://{tmp_path}")
    found = dp.release(frame(EVENTS), unit="user", by="item", epsilon=1, delta=1e-6, max_groups=3, engine=engine)
    kept = {
        path.parent.name: session().read.parquet(str(path.parent)).count() for path in tmp_path.glob("*/*/_SUCCESS")
    }
    assert kept["groups"] == 0
    assert kept["released"] == found.to_arrow().num_rows > 0
    found.close()
    assert {session().read.parquet(str(p.parent)).count() for p in tmp_path.glob("*/*/_SUCCESS")} == {0}


@pytest.mark.cluster
def test_top_k_brings_k_and_one_groups(tmp_path: Path) -> None:
    wide = pa.table({"user": np.arange(40000), "item": np.minimum((np.arange(40000) ** 0.5).astype(int) // 8, 11)})
    options: dict[str, Any] = {"unit": "user", "by": "item", "k": 3, "epsilon": 1.0, "delta": 1e-6}
    here, there = dp.top_k(wide, **options), dp.top_k(frame(wide), **options)
    assert there.to_arrow().column("item").to_pylist() == here.to_arrow().column("item").to_pylist()
    assert there.complete


def test_the_command_line(tmp_path: Path) -> None:
    import pyarrow.csv as pa_csv

    pa_csv.write_csv(EVENTS, tmp_path / "events.csv")
    out = tmp_path / "out.parquet"
    session()  # which the command finds and uses
    arguments = ["release", str(tmp_path / "events.csv"), "--unit", "user", "--by", "item", "--epsilon", "1"]
    arguments += [
        "--delta",
        "1e-6",
        "--max-groups",
        "3",
        "--sum",
        "spent:0:12",
        "--engine",
        "spark",
        "--master",
        "local[2]",
    ]
    done = CliRunner().invoke(app, [*arguments, "-o", str(out), "--explain"])
    assert done.exit_code == 0, done.output
    assert "xxhash64" in done.output
    assert "groups" in done.output or "±" in done.output
    assert not any(check.failed for check in dp.verify(out))
    for wrong, message in (
        ([*arguments, "-o", str(out)], "a new folder"),
        ([*arguments[:-4], "--master", "local", "-o", str(tmp_path / "x.csv")], "--engine spark with --master"),
        ([*arguments[:-3], "dask", "-o", str(tmp_path / "x.csv")], "duckdb or spark"),
    ):
        assert message in str(CliRunner().invoke(app, wrong).exception)


def test_wrong_sources_are_refused_by_name_or_type(tmp_path: Path) -> None:
    source = session().sql("SELECT 1 AS user, array(1) AS list, 'a' AS text")
    options: dict[str, Any] = {"unit": "user", "epsilon": 1, "delta": 1e-6, "max_groups": 1}
    for more, message in (
        ({"by": "lists"}, "did you mean 'list'"),
        ({"by": "list"}, "simple type"),
        ({"by": "text", "sums": {"text": (0, 1)}}, "numbers in 'text'"),
        ({"by": "text", "where": "text"}, "true or false"),
        ({"by": "k=regexp_extract(text, 'a')"}, "Spark evaluates like DuckDB"),
        ({"by": "k=random()"}, "the function random"),
    ):
        with pytest.raises(dp.InvalidParameter, match=message):
            dp.release(source, **options, **more)
    with pytest.raises(dp.InvalidParameter, match="Spark DataFrame, an Arrow table or paths"):
        dp.release(EVENTS.to_pandas(), **options, by="item", engine=dp.SparkEngine(session()))
    with pytest.raises(dp.InvalidParameter, match="readable files"):
        dp.release(str(tmp_path / "no.parquet"), **options, by="item", engine=dp.SparkEngine(session()))
    with pytest.raises(dp.InvalidParameter, match="both"):
        open_session("local", "sc://x")


@pytest.mark.cluster
def test_settings_of_the_session_are_as_before() -> None:
    spark = session()
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with dp.release(frame(EVENTS), unit="user", by="item", epsilon=1, delta=1e-6, max_groups=2):
            assert spark.conf.get("spark.sql.ansi.enabled") == "true"
        assert not [table.name for table in spark.catalog.listTables() if table.name.startswith("dphist")]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.cluster
def test_through_spark_connect(tmp_path: Path) -> None:
    """A process of its own, which starts a Connect server: no RDDs, no JVM of ours."""
    import subprocess
    import sys

    import pyarrow.parquet as pq

    pq.write_table(EVENTS, tmp_path / "events.parquet")
    out = tmp_path / "out.parquet"
    arguments = ["release", str(tmp_path / "events.parquet"), "--unit", "user", "--by", "item", "--epsilon", "1"]
    arguments += ["--delta", "1e-6", "--max-groups", "3", "--engine", "spark", "--remote", "local[1]", "-o", str(out)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    run = [sys.executable, "-W", "ignore", "-m", "dphist", *arguments]
    done = subprocess.run(
        [*run, "--staging", (tmp_path / "staging").as_uri(), "--json"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout[done.stdout.index("{") :])["format"] == "dphist-release"
    assert not any(check.failed for check in dp.verify(out))


@pytest.mark.cluster
def test_keys_alone_are_selected_on_the_cluster(tmp_path: Path) -> None:
    """By rounds, by an election and by choice; the folder verifies, and has no column but the key."""
    light = pa.table({"user": np.arange(4000), "item": [f"g{i % 9 if i < 3900 else i}" for i in range(4000)]})
    options: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6}
    names: dict[str, list[str]] = {"item": [f"g{i}" for i in range(9)]}
    for mechanism in ("adaptive", "voting", "best"):
        with dp.select(frame(light, 2), **options, mechanism=mechanism) as found:
            assert found.stored is not None
            assert found.to_arrow().to_pydict() == names
            assert found.first(3)[1] == 9
            folder = tmp_path / f"{mechanism}.parquet"
            found.write(folder)
        assert not [check for check in dp.verify(folder) if check.failed]
