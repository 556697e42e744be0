"""One way to pay for both engines: a charge is called once, before any noise, and a release says which entry paid for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_tables import EVENTS

import dphist as dp
from dphist.engines.spark_staging import Staging
from dphist.ledger import DataSet, Ledger
from dphist.noise.entropy import allow_test_entropy
from dphist.publish.release import prepare
from spark_sessions import frame

OPTIONS: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6}


def source(place: str) -> object:
    return frame(EVENTS) if place == "spark" else EVENTS


@pytest.mark.parametrize("plan", [{"max_groups": 2}, {"mechanism": "adaptive"}])
@pytest.mark.parametrize("place", ["duckdb", "spark"])
def test_no_noise_is_drawn_before_the_charge(place: str, plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
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
    with allow_test_entropy(), pytest.raises(RuntimeError, match="nothing left"):
        job.run(entropy=Watched(), charge=refused)
    assert events.count("charge") == 1
    assert events[-1] == "charge"
    assert set(events) <= {"charge", "pairs", "groups"}  # what is exact


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
