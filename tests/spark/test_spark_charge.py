"""One way to pay for both engines: a charge is called once, before anything is read, and a release says which entry paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from spark_tables import EVENTS

import dphist as dp
from dphist.engines.spark.staging import Staging
from dphist.files.formats import out_of_the_way
from dphist.ledger import DataSet, Ledger
from dphist.run.job import prepare
from spark_sessions import frame, session
from word_sources import words_from

OPTIONS: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6}


def source(place: str) -> object:
    return frame(EVENTS) if place == "spark" else EVENTS


@pytest.mark.parametrize("plan", [{"max_groups": 2}, {"mechanism": "adaptive"}])
@pytest.mark.parametrize("place", ["duckdb", "spark"])
def test_nothing_is_counted_before_the_charge(
    place: str, plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    write = Staging.write

    class Watched:
        def words(self, count: int) -> np.typing.NDArray[np.uint64]:
            events.append("noise")
            return np.zeros(count, dtype=np.uint64)

    def written(self: Staging, table: Any, name: str, **more: Any) -> Any:
        events.append(name)
        return write(self, table, name, **more)

    def refused() -> None:
        events.append("charge")
        raise RuntimeError("nothing left")

    monkeypatch.setattr(Staging, "write", written)
    job = prepare(source(place), **OPTIONS, **plan)
    with words_from(Watched()), pytest.raises(RuntimeError, match="nothing left"):
        job.run(charge=refused)
    assert events == ["charge"]


@pytest.mark.parametrize("plan", [{"max_groups": 2}, {"mechanism": "adaptive"}, None])
def test_a_failure_on_a_record_is_charged_on_spark(plan: dict[str, Any] | None, tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 9.0, 1e-3, "user", "gdp"))
    failing = session().sql(
        "SELECT id AS user, CASE WHEN id = 3 THEN raise_error('salary forty-seven') ELSE 'a' END AS item FROM range(5)"
    )
    paid = {**OPTIONS, "ledger": address, "dataset": "people"}
    for wrong in ({"unit": "nobody"}, {"where": "item"}):
        with pytest.raises(dp.InvalidParameter):
            dp.release(failing, **{**paid, **(plan or {}), **wrong})
    with Ledger(address) as opened:
        assert opened.status("people").spends == []
    run, more = (dp.top_k, {"k": 1, "method": "ranked"}) if plan is None else (dp.release, plan)
    with pytest.raises(dp.EngineFailure, match=r"Charged to 'people', entry 1, .* The charge stays") as problem:
        run(failing, **paid, **more)
    assert "forty-seven" not in str(problem.value)  # digits may be in the hash of the entry
    with Ledger(address) as opened:
        status = opened.status("people")
    assert (len(status.spends), len(status.unconfirmed)) == (1, 1)


def test_a_folder_of_spark_is_replaced_on_request_and_comes_back_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.parquet"

    def parts() -> set[str]:
        return {path.name for path in out.iterdir()}

    pq.write_table(EVENTS, tmp_path / "events.parquet")
    read = session().read.parquet(str(tmp_path / "events.parquet"))
    with dp.release(read, **OPTIONS, max_groups=2) as found:
        found.write(out)
        first = parts()
        with pytest.raises(dp.InvalidParameter, match="which exists"):
            found.write(out)
        assert parts() == first
        found.write(out, overwrite=True)
        second = parts()
        assert second != first  # Spark gives every file a name of its own
        with pytest.raises(ZeroDivisionError), out_of_the_way(out):
            out.write_text(str(1 / 0))
        assert parts() == second
        engine = dp.SparkEngine(session())
        engine.check_output(str(out))  # looked at elsewhere
        monkeypatch.setattr("dphist.engines.spark.engine.is_here", lambda _: False)  # as if on another file system
        with pytest.raises(dp.InvalidParameter, match="only folders of this machine"):
            engine.check_output(str(out))
        engine.check_output(str(out) + ".new")
        with pytest.raises(dp.InvalidParameter, match="not read by"):
            found.report(tmp_path / "events.parquet", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.parquet", "out.parquet"]
    assert not any(check.failed for check in dp.verify(out))


@pytest.mark.parametrize("place", ["duckdb", "spark"])
def test_a_release_names_the_entry_that_paid_for_it(place: str, tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 3.0, 1e-3, "user", "gdp"))
    with dp.release(source(place), max_groups=2, ledger=address, dataset="people", **OPTIONS) as found:
        assert found.receipt is not None
        assert found.metadata()["ledger"] == {
            "dataset": "people",
            "entry": found.receipt.entry,
            "hash": found.receipt.hash,
        }
        found.write(tmp_path / "out.parquet")
    assert not any(check.failed for check in dp.verify(tmp_path / "out.parquet"))
    with pytest.raises(dp.DphistError, match="left"):
        dp.release(source(place), max_groups=2, ledger=address, dataset="people", **OPTIONS)
    with Ledger(address) as opened:
        assert len(opened.status("people").spends) == 1
