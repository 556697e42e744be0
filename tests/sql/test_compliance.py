"""GoogleSQL's compliance cases, restated in `compliance.toml`: each passes without noise, or docs/sql.md says why it does not.

Noise is always drawn. A source of zeros makes each sampler return its centre, so that what is published is exact but for the
lattice: a unit's value is rounded to a step of its measure, and a quantile to a bin of its tree.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import runpy
import tomllib
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist.errors import DphistError
from dphist.noise import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, sample, toss
from dphist.noise.exact import sample_exactly
from dphist.run.release import Release
from example_numbers import some
from spark_sessions import frame
from word_sources import drawn_from

DATA = tomllib.loads((Path(__file__).parent / "compliance.toml").read_text(encoding="utf-8"))
CASES: list[dict[str, str]] = DATA["case"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
TYPES = {"ticket": pa.int64(), "rider": pa.int64(), "stops": pa.int64(), "fare": pa.float64()}
MOST_ROWS = 30
"""Of one statement: ten riders beside a list of three."""
ON_SPARK = ("each rider in one of three groups", "percentiles")


def zeros() -> Any:
    """A source of zeros, whose class travels to Spark's executors by value."""

    class Zeros:
        def words(self, count: int) -> Any:
            return np.zeros(count, dtype=np.uint64)

    return Zeros()


@cache
def tables() -> dict[str, pa.Table]:
    found = {}
    for name, text in DATA["tables"].items():
        rows = list(csv.DictReader(io.StringIO(text.strip())))
        values = {column: [json.loads(row[column] or "null") for row in rows] for column in rows[0]}
        found[name] = pa.table({column: pa.array(cells, TYPES[column]) for column, cells in values.items()})
    return found


@cache
def connection(engine: str = "duckdb") -> dp.Connection:
    """All tables, each row of which is a rider's."""
    sources = {name: frame(table, 1) if engine == "spark" else table for name, table in tables().items()}
    return dp.connect(tables=sources, unit="rider")


def run(text: str, engine: str = "duckdb") -> Any:
    """The answer of the last statement, without noise."""
    return drawn_from(zeros(), connection(engine).prepare(text).run)[-1]


def lattice(release: Release) -> float:
    """How far a published value is from the exact one at most, by what its plan rounds to."""
    trees = {one.name: one.measure.tree for one in release.plan.measures}
    steps = [float(one.measure.step) for one in release.plan.measures if trees[one.name] is None]
    bins = [tree.resolution for tree in trees.values() if tree is not None]
    return MOST_ROWS * max(steps, default=0.0) + max(bins, default=0.0) + 1e-12


def estimated(release: Release) -> bool:
    """Whether counts are estimates from several noisy numbers, which no lattice bounds (docs/counting.md)."""
    return release.plan.mechanism.in_rounds


def is_close(expected: float, found: float, releases: tuple[Release, ...]) -> bool:
    if any(map(estimated, releases)):
        errors = [max(column.to_pylist(), default=0.0) for column in std_errors(releases)]
        whole = round(found) == expected or not float(expected).is_integer()
        return whole and abs(found - expected) < max(errors)
    return abs(found - expected) <= max(map(lattice, releases))


def std_errors(releases: tuple[Release, ...]) -> list[Any]:
    return [
        release.to_arrow().column(name)
        for release in releases
        for name in release.to_arrow().column_names
        if name.endswith("_std_error")
    ]


def agrees(expected: Any, found: Any, releases: tuple[Release, ...]) -> bool:
    """Numbers up to what is rounded; of a report what is expected of it, and that its interval is one."""
    if isinstance(expected, dict):
        report = json.loads(found) if isinstance(found, str) else found
        if "middle" in expected:
            report = {**report, "middle": (report["lower_bound"] + report["upper_bound"]) / 2}
        if (result := report.get("result")) and result["value"] is not None:
            interval = result["noise_confidence_interval"]
            assert interval["lower_bound"] < interval["upper_bound"]
            assert interval["confidence_level"] == 0.95
        return all(agrees(value, report[name], releases) for name, value in expected.items())
    if isinstance(expected, bool) or expected is None:
        return found is expected
    return isinstance(found, int | float) and is_close(expected, found, releases)


def check(text: str, wanted: str, engine: str = "duckdb") -> None:
    answer = run(text, engine)
    names = [name for name in answer.to_arrow().column_names if not name.endswith("_std_error")]
    found = [[row[name] for name in names] for row in answer.to_arrow().to_pylist()]
    expected = json.loads(wanted)
    assert len(found) == len(expected), found
    left = list(found)
    for row in expected:
        same = [one for one in left if all(agrees(*pair, answer.releases) for pair in zip(row, one, strict=True))]
        assert same, f"{row} is not among {left}"
        left.remove(same[0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, str]) -> None:
    if words := case.get("error") or case.get("refused"):
        with pytest.raises(DphistError, match=re.escape(words)):
            run(case["text"])
    else:
        check(case["text"], case.get("rows") or case["ours"])


@pytest.mark.parametrize("engine", ["spark"])  # so that it shares the session of the other tests of Spark
@pytest.mark.parametrize("name", some(ON_SPARK, 1))
def test_case_on_spark(name: str, engine: str) -> None:
    (case,) = (case for case in CASES if case["name"] == name)
    check(case["text"], case["rows"], engine)


def test_enough_cases_pass_and_each_is_judged_once() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) == 68
    assert all(sum(kind in case for kind in ("rows", "error", "refused", "ours")) == 1 for case in CASES)
    assert sum("rows" in case or "error" in case for case in CASES) >= 44
    assert f"68 of them, restated, are tests of ours: {sum('why' not in case for case in CASES)} pass" in page()


def test_the_page_gives_the_reason_of_every_case_that_does_not_pass() -> None:
    table = page().partition("### Compliance")[2].partition("\n## ")[0]
    listed = {
        (reason, what, name)
        for what, reason, names in re.findall(r"^\| (refused|answered) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
        for name in names.split("; ")
    }
    assert listed == {
        (DATA["reasons"][case["why"]], "refused" if "refused" in case else "answered", case["name"])
        for case in CASES
        if "why" in case
    }
    assert {case.get("why") for case in CASES} == {None, *DATA["reasons"]}


def test_the_noise_that_the_page_compares_is_what_the_benchmark_prints(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(PAGE.parents[1] / "benchmarks" / "sql_noise.py"), run_name="__main__")
    assert capsys.readouterr().out in page()


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "law",
    [
        RoundedGaussian(Fraction(1, 11), 10),
        RoundedGaussian(Fraction(300), 0),
        DiscreteGaussian(Fraction(5)),
        DiscreteLaplace(Fraction(1, 30)),
        DiscreteLaplace(Fraction(10**6)),
    ],
    ids=str,
)
def test_zeros_draw_no_noise_and_other_words_do(law: Any) -> None:
    """What every case above rests on."""
    assert not drawn_from(zeros(), sample, law, 9).any()
    if isinstance(law, DiscreteLaplace):
        assert not drawn_from(zeros(), sample_exactly, law, 9).any()
    assert drawn_from(zeros(), toss, [0, 1 << 100], np.ones(3, np.int64)).all()
    if math.isclose(float(getattr(law, "scale", 1)), 1e6) or isinstance(law, RoundedGaussian):
        assert sample(law, 9).any()


def test_a_report_about_groups_does_not_tell_the_size_of_an_ordinary_one_as_its_own() -> None:
    """How many people bounds were found from is known of everybody together, not of one group."""
    text = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1e20, delta = 1, max_groups_contributed = 1)
        stops, SUM(fare, report_format => 'JSON') AS report FROM rides GROUP BY stops"""
    for row in run(text).to_arrow().to_pylist():
        bounding = json.loads(row["report"])["bounding_report"]
        assert (bounding["num_inputs"], bounding["num_outside"]) == (None, None)
        assert bounding["lower_bound"] < bounding["upper_bound"]
