"""The names of a source's columns, from its schema or header alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from engine_oracle import Engine, every_engine

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.source import Files
from dphist.errors import UnreadableSource

NAMES = ["user", 'a"b', "x; DROP TABLE y", "SELECT", "unit", "two\nlines"]
TABLE = pa.table({name: [1, 2] for name in NAMES})


@every_engine
def test_columns_of_files_of_every_kind_and_of_their_folders(engine: Engine, tmp_path: Path) -> None:
    place = tmp_path / "year=2026"
    place.mkdir()
    pq.write_table(TABLE, place / "t.parquet")
    plain = TABLE.select(NAMES[:-1])
    pc.write_csv(plain, place / "t.csv")
    (place / "t.json").write_text('{"user": 1, "other": 2}\n')
    assert engine.columns(TABLE) == NAMES
    assert engine.columns(str(place / "t.parquet")) == [*NAMES, "year"]
    assert engine.columns(Files((place / "t.csv",))) == [*NAMES[:-1], "year"]
    assert engine.columns(Files((place / "t.csv",), header=["p", "q"])) == ["p", "q", "year"]
    assert engine.columns(Files((place / "t.json",), types={"user": "text", "key": "text"})) == ["user", "key", "year"]


def test_columns_of_frames_and_readers_take_no_record() -> None:
    batches = iter(TABLE.to_batches())
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches)
    assert DuckDBEngine().columns(reader) == NAMES
    assert len(list(batches)) == 1  # nobody took the only batch
    assert DuckDBEngine().columns(pd.DataFrame({"a": [1], "b": ["x"]})) == ["a", "b"]


@every_engine
def test_a_source_that_is_none_is_refused_and_a_first_line_stays_unseen(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("alice,alice\n1,2\n")
    with pytest.raises(UnreadableSource) as refusal:
        engine.columns(str(tmp_path / "t.csv"))
    assert "alice" not in str(refusal.value)
    with pytest.raises(UnreadableSource):
        engine.columns(object())
