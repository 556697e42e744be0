"""The attack on locality sees what it is meant to see, and nothing else."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dphist.audit import bounding
from dphist.audit.bounding import LARGE, locality, sources, table_of
from dphist.audit.broken import BrokenEngine, Count, skip_row_groups
from dphist.audit.trials import KEY, UNIT
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery, Key
from dphist.errors import EngineFailure

EVERYBODY = {"unknown", "small", "large"}


READS_ALL = BrokenEngine(partial(skip_row_groups, most=-math.inf))
"""The broken engine without its break."""


def give_up(count: Count, source: Any, query: GroupByQuery, bounds: ContributionBounds) -> Histogram:
    """A run ends when one unit is there."""
    if isinstance(source, pa.Table) and source.num_rows == len(table_of({"small", "large"})):
        raise EngineFailure("a source that can be read to its end")
    return count(source, query, bounds)


def test_what_reads_everything_withstands(monkeypatch: pytest.MonkeyPatch) -> None:
    """From two sources; tests/locality has the engine of the product and all of them."""
    few = {name: sources()[name] for name in ("Arrow", "Parquet of Arrow")}
    monkeypatch.setattr(bounding, "sources", lambda: few)
    holds, detail = locality(READS_ALL)
    assert holds, detail
    assert all(name in detail for name in few)


def test_a_run_that_ends_because_of_another_unit_is_seen() -> None:
    assert locality(BrokenEngine(give_up)) == (
        False,
        "Arrow: the units unknown and small together are not what each of them is alone",
    )


@pytest.mark.parametrize("name", [name for name in sources() if name.startswith("Parquet")])
def test_statistics_are_believed_and_seen(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every writer by itself: an engine that skips by statistics is caught wherever NaN is left out of them."""
    path = sources()[name](table_of(EVERYBODY - {"large"}), tmp_path)
    assert isinstance(path, Path)
    told = pq.read_metadata(path).row_group(0).column(2).statistics
    leaves_nan_out = told is not None and told.has_min_max and told.max == 1.0
    monkeypatch.setattr(bounding, "sources", lambda: {name: sources()[name]})
    assert locality(BrokenEngine(skip_row_groups))[0] is not (leaves_nan_out or "wrong" in name)


def test_wrong_statistics_are_wrong(tmp_path: Path) -> None:
    path = sources()["Parquet with wrong statistics"](table_of(EVERYBODY), tmp_path)
    assert isinstance(path, Path)
    assert pq.read_metadata(path).row_group(0).column(2).statistics.max == 2.0
    assert LARGE in pq.read_table(path).column("first").to_pylist()


@pytest.mark.parametrize("name", sources())
def test_every_source_has_the_records(name: str, tmp_path: Path) -> None:
    query = GroupByQuery(UNIT, (Key(KEY),))
    found = DuckDBEngine().histogram(sources()[name](table_of(EVERYBODY), tmp_path), query, ContributionBounds())
    counts = dict(zip(found.keys.column(0).to_pylist(), found.counts.tolist(), strict=True))
    assert counts == {"1": 3, "01": 1, "x": 1}
