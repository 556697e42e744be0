"""A value that says less than its bounds alone is not published: by the stated error, so that anybody can compute it anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.aggregates.noisy_sums import says_nothing
from dphist.files.digests import seal, table_digest
from dphist.files.formats import METADATA_KEY
from dphist.planning.describe import PRECISE, units_for
from dphist.run.release import Release
from example_numbers import some

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SIZES = (0, 1, 5, 20, 40, 60, 80, 120, 200, 400, 900)
KEYS = [f"g{size}" for size in SIZES]
"""A public list, so that groups are published however small they are."""
VALUES: dict[str, Any] = {
    "sums": {"x": (0, 100)},
    "means": {"x": (0, 100), "y": (-40, -10)},
    "variances": {"x": (0, 100)},
    "stds": {"x": (0, 100)},
    "quantiles": {"x": ([0.1, 0.5, 0.9], 0, 100)},
}


def people(present: float = 1.0) -> pa.Table:
    """Groups of so many people, of whom a part has a value in x; nobody has one in y."""
    random = np.random.default_rng(7)
    items = np.repeat(KEYS, SIZES)
    x = [float(value) if with_one else None for value, with_one in zip(
        random.uniform(0, 100, len(items)), random.random(len(items)) < present, strict=True)]  # fmt: skip
    return pa.table({"user": np.arange(len(items)), "item": items, "x": x, "y": pa.nulls(len(items), pa.float64())})


def release_of(table: pa.Table, **options: Any) -> Release:
    return dp.release(table, unit="user", by="item", **{**BUDGET, **VALUES, **options})


WAYS: list[dict[str, Any]] = [
    {"keys": KEYS, "max_groups": 1},
    {"keys": KEYS, "max_groups": 1, "mechanism": "laplace", "intervals": 0.9},
    {"keys": KEYS, "intervals": 0.9, "integers": True},
    {"max_groups": 1, "intervals": 0.95},
    {"max_groups": 1, "mechanism": "laplace"},
    {"mechanism": "adaptive", "intervals": 0.9},
    {"mechanism": "voting"},
]


@pytest.mark.parametrize(("present", "options"), some([*product([0.0, 0.3, 1.0], WAYS)], 11), ids=str)
def test_null_is_what_its_stated_error_says_and_nothing_else(
    present: float, options: dict[str, Any], tmp_path: Path
) -> None:
    """Published with an error within its bounds, or null with its interval; plan and table tell which."""
    release = release_of(people(present), **options)
    table, limited = release.to_arrow(), release.plan.limited_names
    assert len(limited) == 7
    for name, aggregate in limited.items():
        low, high = aggregate.span or (0.0, 0.0)
        null = pc.is_null(table.column(name)).to_numpy()
        errors = table.column(f"{name}_std_error").to_numpy()
        assert (null == (errors > (high - low) / np.sqrt(12))).all(), name
        for end in ("_low", "_high") if options.get("intervals") else ():
            assert (pc.is_null(table.column(name + end)).to_numpy() == null).all()
        told = [one for one in release.withheld if name in one.names]
        assert [one.groups for one in told] == ([null.sum()] if null.any() else [])
    others = [name for name in table.column_names if name.split("_")[0] in ("count", "sum") or name.endswith("_error")]
    assert all(table.column(name).null_count == 0 for name in others)
    for ending in ("parquet", "csv", "json"):
        release.write(tmp_path / f"out.{ending}")
        checks = dp.verify(tmp_path / f"out.{ending}")
        assert not [check for check in checks if check.failed]
        assert [check.passed for check in checks if check.name == "withheld"] == [True]


LITTLE_NOISE: list[dict[str, Any]] = [{"epsilon": 50.0}, {"epsilon": 50.0, "quantiles": None}]


@pytest.mark.parametrize("options", [{}, {"mechanism": "laplace"}, *LITTLE_NOISE], ids=str)
def test_groups_in_which_nobody_has_a_value_have_none(options: dict[str, Any]) -> None:
    """However little noise there is: a number of people that is lost in its own noise divides nothing."""
    keys = [f"k{i}" for i in range(300)]
    nobody = pa.array([None], pa.float64())
    table = pa.table({"user": ["a"], "item": ["k0"], "x": nobody, "y": nobody})
    asked = {**BUDGET, **VALUES, **options}
    release = dp.release(table, unit="user", by="item", keys=keys, max_groups=1, **asked)
    for name in release.plan.limited_names:
        assert release.to_arrow().column(name).null_count >= 280, name  # 2.3 % are above two standard errors


def test_a_table_without_any_number_says_so_everywhere(tmp_path: Path) -> None:
    """Decimal commas: every value is null, and was published as 150,000 ± 602,147."""
    rows = [f"{i};{'ABCD'[i % 4]};{20 + i % 70}.000,00" for i in range(8000)]
    (tmp_path / "decimal.csv").write_text("\n".join(["person;town;income", *rows]) + "\n", encoding="utf-8")
    source = [str(tmp_path / "decimal.csv"), "--delimiter", ";", "--unit", "person", "--by", "town"]
    asked = [
        "--mean",
        "income:0:150000",
        "--max-groups",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-8",
        "--intervals",
        "0.9",
    ]
    files = ["-o", str(tmp_path / "out.csv"), "--report", str(tmp_path / "out.html")]
    done = dphist("release", *source, *asked, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(null)") == 2 * 4 + 1  # values, intervals, and the line
    metadata = json.loads((tmp_path / "out.csv.dphist.json").read_text())
    (one,) = metadata["withheld"]
    assert (one["names"], one["groups"], one["of_groups"]) == (["mean_income"], 4, 4)
    assert one["with_a_value"] < 100 < 7900 < one["units"] < 8100
    line = (
        "mean_income is withheld (null) in 4 of 4 groups, where noise says less than its bounds alone: about"
        f" {one['with_a_value']:,} of {one['units']:,} units there had a number in `income`."
    )
    assert one["in_words"] == line
    assert line in " ".join(done.stdout.split())
    assert line in (tmp_path / "out.html").read_text()
    assert [row.split(",")[4:8:1] for row in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert not [check for check in dp.verify(tmp_path / "out.csv") if check.failed]


def test_notebooks_reports_and_plots_show_what_is_withheld() -> None:
    release = release_of(people(0.0), keys=KEYS, max_groups=1, intervals=0.9)
    lines = release.without_value()
    assert lines
    shown = release._repr_html_(), release.summary(), release.summary(markdown=True).replace("\\", ""), release.html()
    for text in shown:
        assert all(line in " ".join(text.split()) for line in lines)
        assert "(null)" in text
        assert "nan" not in text.casefold().split()
    counted = dp.release(
        people(), unit="user", by="item", **{**BUDGET, "epsilon": 1000.0}, max_groups=1, means={"x": (0, 100)}
    )
    assert counted.without_value() == []
    import matplotlib.pyplot as plt

    release.plot()
    plt.close("all")


def test_statements_get_null() -> None:
    """Whatever they compute from it; and the terminal says why."""
    inner = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1) item,"
        " COUNT(DISTINCT user) AS people, AVG(y, contribution_bounds_per_group => (-40, -10)) AS m FROM people GROUP BY item"
    )
    statement = f"SELECT item, m, 2 * m AS twice, COALESCE(m, -1) AS known FROM ({inner})"
    answer = dp.connect({"people": people()}, unit="user").sql(statement)
    rows = answer.to_arrow().to_pylist()
    null = [row for row in rows if row["m"] is None]
    assert len(null) >= len(rows) - 1 > 2  # noise says now and then that somebody has a value
    assert all((row["twice"], row["known"]) == (None, -1) for row in null)
    assert "had a number in `y`" in "".join(answer.without_value())
    assert "(null)" in answer.summary()
    assert "nan" not in answer.summary().casefold()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("withheld") / "out.parquet"
    release_of(people(0.5), keys=KEYS, max_groups=1, intervals=0.9).write(path)
    return path


def _row(table: pa.Table, name: str, null: bool) -> int:
    return int(np.flatnonzero(pc.is_null(table.column(name)).to_numpy() == null)[0])


def _set(table: pa.Table, name: str, row: int, value: float | None) -> pa.Table:
    values = table.column(name).to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(name), name, pa.array(values, pa.float64()))


def _all(table: pa.Table, name: str, row: int, value: float | None) -> pa.Table:
    for end in ("", "_low", "_high"):
        table = _set(table, name + end, row, value)
    return table


Edit = Callable[[pa.Table, dict[str, Any]], pa.Table]
EDITS: dict[str, Edit] = {
    "a value that says nothing": lambda table, _: _all(table, "mean_x", _row(table, "mean_x", True), 50.0),
    "a value left out": lambda table, _: _all(table, "mean_x", _row(table, "mean_x", False), None),
    "an interval alone": lambda table, _: _set(table, "p50_x_low", _row(table, "p50_x", True), 0.0),
    "an interval left out": lambda table, _: _set(table, "p50_x_low", _row(table, "p50_x", False), None),
    "another error": lambda table, _: _set(table, "variance_x_std_error", _row(table, "variance_x", True), 1.0),
    "no error": lambda table, _: _set(table, "variance_x_std_error", _row(table, "variance_x", True), None),
    "a sum left out": lambda table, _: _set(table, "sum_x", 0, None),
    "fewer told": lambda table, told: told["withheld"][0].update(groups=0) or table,
    "others told": lambda table, told: told["withheld"][0].update(units=10**6) or table,
    "nothing told": lambda table, told: told.pop("withheld") and table,
    "a sum told": lambda table, told: told["withheld"][0].update(names=["sum_x"]) or table,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_verify_computes_anew_what_is_withheld(edit: Edit, written: Path, tmp_path: Path) -> None:
    """Of a file whose digests were computed anew, as whoever edits it can."""
    table = pq.ParquetFile(written).read().replace_schema_metadata(None)
    metadata = json.loads(pq.read_schema(written).metadata[METADATA_KEY])
    changed = edit(table, metadata)
    record = seal({**metadata, "table": {"sha256": table_digest(changed)}})
    path = tmp_path / "out.parquet"
    pq.write_table(changed.replace_schema_metadata({METADATA_KEY: json.dumps(record)}), path)
    failed = {check.name: check.detail for check in dp.verify(path) if check.failed}
    assert failed
    if edit in list(EDITS.values())[:6]:
        assert failed["withheld"].startswith("are not the values that say less than their bounds alone")


@pytest.mark.parametrize(
    "options", [{"max_groups": 1}, {"max_groups": 1, "mechanism": "laplace"}, {"keys": 7}], ids=str
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_a_plan_says_from_which_size_on_a_value_is_precise(options: dict[str, Any], epsilon: float) -> None:
    """By what a release of groups of that size states: just below a quarter of half the range."""
    values = {**VALUES, "means": {"x": (0, 100)}}
    plan = dp.plan(**{**BUDGET, "epsilon": epsilon}, **options, **values)
    noisy = {one.name: one for one in plan.measures}
    told = " ".join(plan.describe().split())
    for name, aggregate in plan.limited_names.items():
        if name in ("p10_x", "p90_x"):  # told together
            continue
        least, precise = (
            units_for(aggregate, noisy, plan.mechanism.noise_std, share) for share in (2 * 12**-0.5, PRECISE)
        )
        assert least <= precise, name
        assert f"fewer than about {least:,} units" in told, name
        assert f"from {precise:,} on" in told, name
    assert told.count("below 25 % of half its range") == 4  # none of a sum


def test_sizes_follow_from_the_noise_of_the_tree() -> None:
    """A median among n even values is off by the noise of a prefix over n: 0.5 to 1 times that of a node, by where it ends."""
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=1, medians={"x": (0, 100)})
    (noisy,) = plan.measures
    (aggregate,) = plan.request.aggregates
    for share, times in ((0.25, 0.687), (0.05, 0.910)):
        units = units_for(aggregate, {noisy.name: noisy}, plan.mechanism.noise_std, share)
        assert units == pytest.approx(times * noisy.noise_std / (share / 2), rel=0.01)


def test_groups_of_the_size_that_a_plan_says_have_that_error() -> None:
    """A thousand even values, and as many groups as make the middle one sure."""
    plan = dp.plan(**BUDGET, keys=25, max_groups=1, **{**VALUES, "means": {"x": (0, 100)}})
    noisy = {one.name: one for one in plan.measures}
    for name, aggregate in plan.limited_names.items():
        if name in ("p10_x", "p90_x"):  # the worst of three, which is p50, counts
            continue
        size = units_for(aggregate, noisy, plan.mechanism.noise_std, PRECISE)
        keys = [f"k{i}" for i in range(25)]
        even = np.tile((np.arange(size) + 0.5) / size * 100, 25)
        table = pa.table({"user": np.arange(25 * size), "item": np.repeat(keys, size), "x": even})
        release = dp.release(table, unit="user", by="item", keys=keys, plan=plan)
        low, high = aggregate.span or (0.0, 0.0)
        errors = release.to_arrow().column(f"{name}_std_error").to_numpy() / (high - low) * 2
        assert np.median(errors) == pytest.approx(PRECISE, rel=0.6), name
        assert (errors < 2 * 12**-0.5).mean() > 0.7, name


def test_the_rule_is_that_of_an_even_place_between_the_bounds() -> None:
    errors = np.array([0.0, 0.28, 0.2887, 3.0, np.nan])
    assert says_nothing(errors, (2.0, 3.0)).tolist() == [False, False, True, True, False]
