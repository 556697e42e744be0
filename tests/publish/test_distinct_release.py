"""Distinct values from option to column: values, errors, chosen bounds, plans, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dphist as dp
from command_line import dphist
from dphist.aggregates.distinct import Distinct
from dphist.aggregates.measures import MOST_RECORDS
from dphist.errors import DphistError, InvalidParameter
from dphist.ledger import DataSet, Ledger
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.run.job import prepare
from drawn_laws import recorded, silence

VISITS = pa.table(
    {
        "who": [unit for unit in range(300) for _ in range(4)],
        "site": ["ab"[unit % 2] for unit in range(300) for _ in range(4)],
        "page": [f"p{(unit * 7 + visit * unit) % 90}" for unit in range(300) for visit in range(4)],
    }
)
ASKED: dict[str, Any] = {"unit": "who", "by": "site", "epsilon": 1.0, "delta": 1e-6}


def true_numbers() -> dict[str, int]:
    pages = zip(VISITS["site"].to_pylist(), VISITS["page"].to_pylist(), strict=True)
    seen = set(pages)
    return {site: sum(other == site for other, _ in seen) for site in "ab"}


def test_the_column_is_the_number_of_values_and_noise_of_its_own() -> None:
    with recorded() as draws:
        found = dp.release(VISITS, max_groups=1, distinct={"page": 4}, intervals=0.95, **ASKED)
    rows = {row["site"]: row for row in found.to_arrow().to_pylist()}
    (law,) = [noisy.law for noisy in found.plan.measures]
    (drawn,) = [draw for draw in draws if draw.law == law]
    assert sorted(row["distinct_page"] - true_numbers()[site] for site, row in rows.items()) == sorted(drawn.noise)
    std = float(law.std) if isinstance(law, RoundedGaussian) else math.sqrt(2) * float(law.scale)  # type: ignore[union-attr]
    for row in rows.values():
        assert row["distinct_page_std_error"] == pytest.approx(std)
        assert row["distinct_page_low"] < row["distinct_page"] < row["distinct_page_high"]


@pytest.mark.parametrize("mechanism", ["sparse-gaussian", "laplace"])
def test_the_noise_is_that_of_a_sensitivity_of_the_bound(mechanism: str) -> None:
    """Twice the bound is twice the noise, and the guarantee pays for the whole bound, not for half of it."""
    laws = {}
    for most in (1, 4, 8):
        plan = dp.plan(epsilon=1, delta=1e-6, max_groups=2, mechanism=mechanism, distinct={"page": most})
        (noisy,) = plan.measures
        assert noisy.measure.sensitivity_steps == most
        assert plan.mechanism.covers((noisy.measure,))
        laws[most] = noisy.law.scale if isinstance(noisy.law, DiscreteLaplace) else noisy.law.std  # type: ignore[union-attr]
    assert float(laws[8]) == pytest.approx(2 * float(laws[4]))
    assert float(laws[4]) >= 4 * 0.999 * float(laws[1])


def test_a_public_list_has_zeros_and_no_threshold() -> None:
    with recorded(silence):
        found = dp.release(VISITS, keys=["a", "b", "nowhere"], distinct={"page": 4}, **ASKED)
    numbers = {row["site"]: row["distinct_page"] for row in found.to_arrow().to_pylist()}
    assert numbers == {**true_numbers(), "nowhere": 0}


def test_a_bound_is_chosen_from_how_many_values_units_have() -> None:
    with recorded(silence):
        found = dp.release(VISITS, max_groups=1, distinct={"page": "auto"}, **{**ASKED, "epsilon": 50.0})
    (aggregate,) = found.plan.request.aggregates
    assert (aggregate.chosen, aggregate.lower) == ("upper", 0)
    assert aggregate.upper in (4, 5, 8)  # nearly all have 4 different pages
    numbers = {row["site"]: row["distinct_page"] for row in found.to_arrow().to_pylist()}
    assert all(0 < numbers[site] <= true for site, true in true_numbers().items())


def test_a_chosen_bound_is_never_above_the_public_limit() -> None:
    """Noise can show values of any size where there are none: that must not end a run that is paid for."""
    with recorded(lambda position, size: np.where(np.arange(size) == size - 1, 10**9, 0) * (position == 0)) as draws:
        found = prepare(VISITS, max_groups=1, distinct={"page": "auto"}, **ASKED).run()
    assert len(draws[0].noise) > 500
    assert found.plan.request.aggregates[0].upper == MOST_RECORDS


def test_a_chosen_bound_works_for_a_source_that_can_be_read_once(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rows = zip(*(VISITS[name].to_pylist() for name in ("who", "site", "page")), strict=True)
    path.write_text("\n".join(["who,site,page", *(",".join(map(str, row)) for row in rows)]) + "\n")
    found = dp.release(path, max_groups=1, distinct={"page": "auto"}, sums={"who": "auto"}, **{**ASKED, "epsilon": 9.0})
    assert set(found.to_arrow()["site"].to_pylist()) == {"a", "b"}


def test_without_a_bound_on_groups_it_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    with Ledger(str(ledger), create=True) as opened:
        opened.create(DataSet("d", 20.0, 1e-3, "who", "gdp"))
    with pytest.raises(InvalidParameter, match=r"--distinct, got none\. Hint: add --max-groups"):
        dp.release(VISITS, distinct={"page": 2}, ledger=ledger, dataset="d", **ASKED)
    with Ledger(str(ledger)) as opened:
        assert not opened.status("d").spends


def test_plans_are_stored_and_read_with_it(tmp_path: Path) -> None:
    plan = dp.plan(
        epsilon=1, delta=1e-6, max_groups=2, distinct={"page": 3, "who": "auto"}, weights={"distinct_page": 2}
    )
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan
    assert [one.name for one in plan.request.aggregates] == ["distinct_page", "distinct_who"]
    assert "at most 3 that nobody else has added" in str(plan).replace("\n" + 15 * " ", " ")


def test_an_aggregate_of_distinct_values_starts_at_zero() -> None:
    for lower, upper in ((1.0, 3.0), (0.0, 0.5)):
        with pytest.raises(DphistError):
            Distinct("page", lower, upper)


def test_the_command_line_writes_and_verifies_it(tmp_path: Path) -> None:
    pa.parquet.write_table(VISITS, tmp_path / "visits.parquet")
    out = tmp_path / "out.parquet"
    options = ["--unit", "who", "--by", "site", "--epsilon", "2", "--delta", "1e-6", "--max-groups", "1"]
    done = dphist("release", str(tmp_path / "visits.parquet"), *options, "--distinct", "page:2", "-o", str(out))
    assert done.returncode == 0, done.stderr
    assert dphist("verify", str(out)).returncode == 0
    for wrong in ("page", "page:x", ":3"):
        refused = dphist("release", str(tmp_path / "visits.parquet"), *options, "--distinct", wrong, "-o", f"{out}.csv")
        assert refused.returncode != 0
        assert "--distinct url:5" in refused.stderr
