"""Tables that no plan of theirs can give, by somebody who computes every digest anew: each is told by a check of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import dphist as dp
from dphist.files.formats import METADATA_KEY, write_table
from dphist.ledger import DataSet, Ledger, database
from dphist.run.release import Published
from dphist.verification import verify as verification

EVENTS = pa.table(
    {
        "user": [i % 400 for i in range(4000)],
        "item": [f"i{(i * i) % 7}" for i in range(4000)],
        "spent": [float(i % 13) for i in range(4000)],
    }
)
UNEQUAL = pa.table({"user": range(9000), "item": ["a"] * 5000 + ["b"] * 3000 + ["c"] * 1000})
OPTIONS: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6}
Change = Callable[[pa.Table], pa.Table]


def failed(path: Path, found: Published, table: pa.Table | None = None, **changes: Any) -> set[str]:
    """The checks that a file with another table or other claims fails."""
    metadata = {**found.metadata(), **changes}
    write_table(found.to_arrow() if table is None else table, metadata, path / "x.parquet", overwrite=True)
    return {check.name for check in dp.verify(path / "x.parquet") if check.failed}


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def wider(table: pa.Table) -> pa.Table:
    table = with_column(table, "count_low", pa.array(table["count_low"].to_numpy() - 5))
    return with_column(table, "count_high", pa.array(table["count_high"].to_numpy() + 5))


def wider_sums(table: pa.Table) -> pa.Table:
    table = with_column(table, "sum_spent_low", pa.array(table["sum_spent_low"].to_numpy() - 5))
    return with_column(table, "sum_spent_high", pa.array(table["sum_spent_high"].to_numpy() + 5))


def without_a_name(table: pa.Table) -> pa.Table:
    return with_column(table, "item", pa.array([None, *table["item"].to_pylist()[1:]], pa.string()))


WRONG: dict[str, Change] = {
    "order": lambda table: table.take(np.arange(table.num_rows)[::-1]),
    "types": lambda table: with_column(table, "count", table["count"].cast(pa.float32())),
    "nulls": without_a_name,
    "errors": wider,
}


def test_a_table_that_its_plan_cannot_give_is_told(tmp_path: Path) -> None:
    found = dp.release(EVENTS, **OPTIONS, max_groups=3, null_keys="drop", intervals=0.9)
    assert failed(tmp_path, found) == set()
    for name, change in WRONG.items():
        assert name in failed(tmp_path, found, change(found.to_arrow())), name
    summed = dp.release(EVENTS, **OPTIONS, max_groups=3, intervals=0.9, sums={"spent": (0, 12)})
    assert failed(tmp_path, summed) == set()
    assert failed(tmp_path, summed, wider_sums(summed.to_arrow())) == {"errors"}
    listed = dp.release(EVENTS, **OPTIONS, keys=["i0", "i1", "i2"])
    assert failed(tmp_path, listed) == set()
    assert failed(tmp_path, listed, listed.to_arrow().slice(0, 2)) == {"groups"}


def test_noisy_counts_are_not_published_in_the_place_of_estimates(tmp_path: Path) -> None:
    found = dp.release(EVENTS, **OPTIONS, max_groups=3)
    plain = with_column(found.to_arrow(), "count", found.to_arrow()["count_noisy"]).drop_columns(["count_noisy"])
    assert failed(tmp_path, found, plain) == {"columns"}
    largest = dp.top_k(UNEQUAL, k=2, method="from-top", **OPTIONS)
    assert failed(tmp_path, largest, cut_off=None) == {"guarantee"}


def test_a_total_that_was_paid_for_is_there(tmp_path: Path) -> None:
    found = dp.release(EVENTS, **OPTIONS, max_groups=3, total=True)
    assert failed(tmp_path, found) == set()
    assert "guarantee" in failed(tmp_path, found, total_units=None)
    listed = dp.release(EVENTS, **OPTIONS, keys=["i0", "i1", "i2"], total=True)
    assert failed(tmp_path, listed) == set()
    assert "guarantee" in failed(tmp_path, listed, total_units=None)


def test_a_list_that_its_plan_cannot_give_is_told(tmp_path: Path) -> None:
    largest = dp.top_k(UNEQUAL, k=2, method="from-top", **OPTIONS)
    table = largest.to_arrow()
    assert failed(tmp_path, largest) == set()
    more = with_column(table.slice(table.num_rows - 1), "item", pa.array(["another"], table.schema.field("item").type))
    assert failed(tmp_path, largest, pa.concat_tables([table, more])) == {"groups"}
    ranked = dp.top_k(UNEQUAL, k=2, method="ranked", **OPTIONS)
    assert ranked.to_arrow()["rank"].to_pylist() == [1, 2]
    assert failed(tmp_path, ranked) == set()
    assert failed(tmp_path, ranked, with_column(ranked.to_arrow(), "rank", pa.array([1, 3]))) == {"ranks"}


def test_a_running_count_at_the_threshold_is_told(tmp_path: Path) -> None:
    stream = dp.Continual.start(tmp_path / "s", rounds=7, max_groups=3, **OPTIONS)
    found = stream.add(EVENTS, "one")
    table = found.to_arrow()
    assert failed(tmp_path, found) == set()
    at = [*table["count"].to_pylist()[:-1], stream.mechanism.threshold]
    assert failed(tmp_path, found, with_column(table, "count", pa.array(at, pa.int64()))) == {"threshold"}


def test_what_cannot_be_checked_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a hostile file stumbles over is no reason to believe it."""

    def stumbles(*_: object) -> None:
        raise ZeroDivisionError

    found = dp.release(EVENTS, **OPTIONS, max_groups=3)
    monkeypatch.setitem(verification.KINDS, "dphist-release", stumbles)
    assert failed(tmp_path, found) == {"content"}


def test_an_entry_in_a_broken_chain_pays_for_nothing(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
    for _ in range(2):
        found = dp.release(EVENTS, **OPTIONS, max_groups=3, ledger=address, dataset="people")
    found.write(tmp_path / "out.parquet")
    good = {check.name: check.passed for check in dp.verify(tmp_path / "out.parquet", ledger=address)}
    assert good["chain"]
    assert good["ledger"]
    engine = sa.create_engine(database.parse_address(address, create=False))
    with engine.begin() as connection:  # an entry before it, as someone with write access and bad intentions would
        connection.exec_driver_sql("DROP TRIGGER dphist_entries_no_update")
        connection.exec_driver_sql("UPDATE dphist_entries SET noise_total = '1' WHERE sequence = 1")
    engine.dispose()
    checks = {check.name: check.passed for check in dp.verify(tmp_path / "out.parquet", ledger=address)}
    assert not checks["chain"]
    assert not checks.get("ledger")


def test_a_column_more_is_told(tmp_path: Path) -> None:
    found = dp.release(EVENTS, **OPTIONS, max_groups=3)
    table = found.to_arrow()
    assert "columns" in failed(tmp_path, found, table.append_column("true", table["count"]))
    assert "columns" in failed(
        tmp_path, found, table.rename_columns(["item", "counts", "count_std_error", "count_noisy"])
    )


def test_a_stream_that_states_less_than_it_proves_is_told(tmp_path: Path) -> None:
    stream = dp.Continual.start(tmp_path / "s", rounds=7, max_groups=3, **OPTIONS)
    found = stream.add(EVENTS, "one")
    assert failed(tmp_path, found) == set()
    assert failed(tmp_path, replace(found, settings={**found.settings, "delta": 1e-7})) == {"guarantee"}


def test_an_entry_that_paid_for_less_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
    found = dp.release(EVENTS, **OPTIONS, max_groups=3, mechanism="laplace", ledger=address, dataset="people")
    found.write(tmp_path / "out.parquet")
    assert not any(check.failed for check in dp.verify(tmp_path / "out.parquet", ledger=address))
    price = DataSet.price
    monkeypatch.setattr(DataSet, "price", lambda *asked: replace(price(*asked), mu=9.0))
    assert [check.name for check in dp.verify(tmp_path / "out.parquet", ledger=address) if check.failed] == ["ledger"]


def test_two_claims_in_one_file_are_refused(tmp_path: Path) -> None:
    """A writer stores metadata twice, and readers take one or the other."""
    found = dp.release(EVENTS, **OPTIONS, max_groups=3)
    found.write(tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    claim = json.loads(table.schema.metadata[METADATA_KEY])
    with pq.ParquetWriter(tmp_path / "two.parquet", table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA_KEY: json.dumps({**claim, "epsilon": 0.1})})
    (tmp_path / "two.parquet.dphist.json").write_bytes((tmp_path / "out.parquet.dphist.json").read_bytes())
    with pytest.raises(dp.InvalidParameter, match="two that differ"):
        dp.verify(tmp_path / "two.parquet")
