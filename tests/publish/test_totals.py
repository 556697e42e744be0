"""All units, and those in no released group: exact without noise, by every way; errors, bounds, signs, words and checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dphist as dp
from dphist.cli.app import app
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.errors import InvalidParameter
from dphist.files.formats import write_table
from dphist.noise import DiscreteLaplace
from dphist.noise.tails import log_tail, log_two_tail
from dphist.noise.testing import SeededEntropy
from dphist.run.job import prepare, privatise
from dphist.run.release import Selection
from dphist.run.totals import Totals, contradiction, estimated, half_width, published_values
from dphist.show.text import table_text
from word_sources import drawn_from

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
OF_USERS: dict[str, Any] = {"unit": "user", "by": "item"}


class Zero:
    """All words are zero: every law draws its middle, 0."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


def overlapping() -> pa.Table:
    """Users 0..599 in a and, the first 300 of them, in b; users 300..309 in a and in a small group; 40 in small ones alone."""
    pairs = [(user, "a") for user in range(600)] + [(user, "b") for user in range(300)]
    pairs += [(user, "tiny") for user in range(300, 303)] + [(600 + i, f"alone {i // 2}") for i in range(40)]
    return pa.table({"user": [user for user, _ in pairs], "item": [item for _, item in pairs]})


WAYS: dict[str, dict[str, Any]] = {
    "one pass": {"max_groups": 1},
    "laplace": {"max_groups": 2, "mechanism": "laplace"},
    "correlated": {"sparsity": 60, "mechanism": "correlated-gaussian"},
    "rounds": {"mechanism": "adaptive"},
    "votes": {"mechanism": "voting"},
    "choice": {},
    "list": {"keys": ["a", "b", "tiny", "alone 3"], "sparse": True, "max_groups": 2},
}


def run(source: pa.Table, plan: dp.Plan | None = None, **options: Any) -> dp.Release:
    """A release without noise."""
    given: dict[str, Any] = {"plan": plan} if plan is not None else BUDGET
    return drawn_from(Zero(), prepare(source, **OF_USERS, **given, **options).run)


@pytest.mark.parametrize("way", WAYS)
def test_without_noise_every_unit_is_counted_once(way: str) -> None:
    """Groups overlap, so nothing could be had by subtraction; units that are outside a public list are not counted at all."""
    found = run(overlapping(), total=True, **WAYS[way])
    released = set(found.to_arrow()["item"].to_pylist())
    assert released == {"a", "b"} or way in ("votes", "choice")  # an election, whose law has no middle, shows more
    rows = overlapping().to_pylist()
    covered = len({row["user"] for row in rows if row["item"] in released})
    total = 602 if way == "list" else 640
    assert [part.value for part in parts_of(found)] == [total, covered, total - covered]
    assert found.total == total


def parts_of(found: dp.Release) -> list[Any]:
    totals = found.totals
    assert totals is not None
    return [part for part in (totals.total, totals.covered, totals.other) if part is not None]


def test_nobody_and_nothing_released() -> None:
    empty = overlapping().slice(0, 0)
    for way in ("one pass", "choice"):
        assert [part.value for part in parts_of(run(empty, total=True, **WAYS[way]))] == [0, 0, 0]
        few = run(overlapping().slice(0, 3), total=True, **WAYS[way])
        assert few.to_arrow().num_rows == 0
        assert [part.value for part in parts_of(few)] == [3, 0, 3]
        assert "No group was released" in table_text(few.to_arrow(), few.plan, 0, few.totals)


def test_a_complete_public_list_has_one_number_as_before() -> None:
    """Who is in no listed group is not counted, and all listed groups are released: nobody can be in none."""
    found = run(overlapping(), total=True, keys=["a", "b", "tiny"], intervals=0.9)
    assert not found.plan.request.other
    assert found.totals is not None
    assert found.total == 600
    assert found.totals.other is None
    assert {"covered_units", "other_units"}.isdisjoint(found.metadata())
    scale = found.plan.request.total_scale
    assert scale is not None
    assert found.totals.total.std_error == math.sqrt(2) * scale


def test_other_units_need_a_total_and_groups_that_may_stay_hidden() -> None:
    """Which follows from the rest of a request, and is not stored."""
    for asked in ({"max_groups": 1}, {"keys": 4, "total": True}, {"sketch": 4}, {"sketch": 4, "total": True}):
        assert not dp.plan(**BUDGET, **asked).request.other  # type: ignore[arg-type]
    for asked in ({"max_groups": 1, "total": True}, {"keys": 4, "sparse": True, "total": True}):
        assert dp.plan(**BUDGET, **asked).request.other  # type: ignore[arg-type]


def test_a_histogram_without_its_pairs_is_refused() -> None:
    keys = pa.table({"item": ["a"]})
    histogram = Histogram(keys, np.array([500]), ContributionBounds(1), total_units=500)
    with pytest.raises(InvalidParameter, match="pairs of units and groups"):
        privatise(histogram, dp.plan(**BUDGET, max_groups=1, total=True), Selection("user", ("item",)))


def test_two_numbers_cost_what_one_did() -> None:
    two = dp.plan(**BUDGET, max_groups=1, total=True)
    one = dp.plan(**BUDGET, keys=4, total=True)
    assert two.request.total_scale == one.request.total_scale
    assert two.request.mechanism_epsilon == one.request.mechanism_epsilon
    assert 1 / (two.request.total_scale or 0) + two.request.mechanism_epsilon <= 1.0


# Errors and bounds


@pytest.mark.parametrize("scale", [Fraction(1, 20), Fraction(1), Fraction(7, 3), Fraction(20), Fraction(60)])
def test_the_tail_of_two_noises_is_that_of_their_convolution(scale: Fraction) -> None:
    law = DiscreteLaplace(scale)
    reach = int(60 * scale) + 40
    x = np.arange(-reach, reach + 1)
    single = np.exp(-np.abs(x) / float(scale))
    single /= single.sum()
    both = np.convolve(single, single)
    for t in sorted({0, 1, 2, int(scale), int(3 * scale), int(9 * scale)}):
        exact = both[np.arange(-2 * reach, 2 * reach + 1) > t].sum()
        tail = float(np.exp(log_two_tail(law, t)))
        assert exact * (1 - 1e-9) <= tail <= exact * (1 + 1e-9)


@pytest.mark.parametrize("noises", [1, 2])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.999999, 1 - 2.0**-53])
@pytest.mark.parametrize("scale", [Fraction(1, 30), Fraction(3, 2), Fraction(20), Fraction(10**9)])
def test_bounds_are_the_smallest_that_cover(noises: int, level: float, scale: Fraction) -> None:
    law = DiscreteLaplace(scale)
    reach = half_width(law, noises, level)
    tail = log_tail if noises == 1 else log_two_tail
    assert 2 * math.exp(float(tail(law, reach))) <= (1 - level) * (1 + 1e-9)
    assert reach == 0 or 2 * math.exp(float(tail(law, reach - 1))) > (1 - level) * (1 - 1e-9)


def test_bounds_are_not_those_of_a_normal_law() -> None:
    """At 95 % a normal law would reach 1.96 standard errors: too far for these, and at 99.9 % not far enough."""
    law = DiscreteLaplace(Fraction(20))
    assert half_width(law, 2, 0.95) < 1.96 * math.sqrt(2) * 28.3 * 1.1
    assert half_width(law, 2, 0.999) > 3.2905 * 40
    assert half_width(law, 1, 0.999) > 3.2905 * 28.3


REQUEST = dp.plan(**BUDGET, max_groups=1, total=True).request
ONE_NUMBER = dp.plan(**BUDGET, keys=3, total=True).request
whole = st.integers(-300, 300)


@given(covered=whole, other=whole, negative=st.booleans(), level=st.none() | st.floats(0.1, 0.99))
@settings(deadline=None)
def test_what_is_published_fits_together(covered: int, other: int, negative: bool, level: float | None) -> None:
    values = published_values((covered, other), allow_negative=negative)
    assert contradiction(values, allow_negative=negative) is None
    assert values[0] == (covered + other if negative else max(covered + other, 0))
    assert negative or min(values) >= 0
    totals = estimated(values, REQUEST, level, allow_negative=negative)
    for part in (totals.total, totals.covered, totals.other):
        assert part is not None
        if part.low is None or part.high is None:
            assert level is None
        else:
            assert part.low <= part.value < part.high
            assert negative or part.low >= 0
    assert totals.total.std_error == pytest.approx(math.sqrt(2) * totals.other.std_error)  # type: ignore[union-attr]
    for wrong in ([sum(values[1:]) + 1, *values[1:]], [-1.0, *values[1:]]):
        assert contradiction(wrong, allow_negative=False) is not None


@given(truth=st.integers(0, 200), noise=whole, level=st.floats(0.1, 0.99))
@settings(deadline=None)
def test_a_value_that_is_cut_is_covered_as_often(truth: int, noise: int, level: float) -> None:
    """Whatever the noise: bounds of what noise made negative hold the truth if those of the noisy value did."""
    found = []
    for negative in (True, False):
        values = published_values((truth + noise,), allow_negative=negative)
        total = estimated(values, ONE_NUMBER, level, allow_negative=negative).total
        assert total.low is not None
        assert total.high is not None
        found.append(total.low <= truth <= total.high)
    assert found[1] >= found[0]


# Words and checks


def test_negative_numbers_are_published_only_if_they_are_asked_for() -> None:
    plan = dp.plan(epsilon=0.01, delta=1e-6, max_groups=1, total=True)
    seen = 0
    for seed in range(6):
        drawn = []
        for negative in (True, False):
            job = prepare(overlapping().slice(0, 5), **OF_USERS, plan=plan, allow_negative=negative)
            drawn.append([part.value for part in parts_of(drawn_from(SeededEntropy(seed), job.run))])
        seen += min(drawn[0]) < 0
        assert drawn[0][0] == drawn[0][1] + drawn[0][2]
        assert drawn[1] == [max(value, 0.0) for value in drawn[0]]
    assert seen > 1


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "no other": (lambda data: data.pop("other_units"), "guarantee"),
    "other is null": (lambda data: data.update(covered_units=None), "guarantee"),
    "more in all": (lambda data: data["total_units"].update(value=data["total_units"]["value"] + 1), "guarantee"),
    "half a unit": (lambda data: data["other_units"].update(value=0.5), "guarantee"),
    "negative": (lambda data: data["other_units"].update(value=-4.0), "guarantee"),
    "another error": (lambda data: data["other_units"].update(std_error=1.0), "other_units.std_error"),
    "error of one": (
        lambda data: data["total_units"].update(std_error=data["other_units"]["std_error"]),
        "total_units.std_error",
    ),
    "tighter": (lambda data: data["total_units"].update(low=data["total_units"]["value"]), "total_units.low"),
    "no bounds": (lambda data: [data["covered_units"].pop(end) for end in ("low", "high")], "covered_units.low"),
    "allowed in words": (lambda data: data.update(allow_negative=False), "allow_negative"),
}


def test_verify_compares_totals_with_the_plan(tmp_path: Path) -> None:
    found = dp.release(overlapping(), **OF_USERS, **BUDGET, max_groups=1, total=True, intervals=0.9)
    path = tmp_path / "out.parquet"

    def failed(data: dict[str, Any]) -> set[str]:
        write_table(found.to_arrow(), data, path, overwrite=True)
        return {check.name for check in dp.verify(path) if check.failed}

    assert failed(found.metadata()) == set()
    for name, (change, check) in WRONG.items():
        data = found.metadata()
        change(data)
        assert check in failed(data), name
    allowed = dp.release(overlapping(), **OF_USERS, **BUDGET, max_groups=1, total=True, allow_negative=True)
    found = allowed
    assert allowed.metadata()["allow_negative"] is True
    assert failed(allowed.metadata()) == set()
    assert "guarantee" in failed({**allowed.metadata(), "covered_units": {"value": -5.0, "std_error": 28.0}})


def test_console_metadata_and_report_tell_the_same(tmp_path: Path) -> None:
    found = run(overlapping(), total=True, max_groups=1, intervals=0.95)
    other = found.metadata()["other_units"]
    assert other["value"] == 40
    text = table_text(found.to_arrow(), found.plan, 2, found.totals)
    assert "\n  (other)      40 ± 28\n" in text
    assert "About 640 ± 40 (558 to 722) units in all; (other), about 40 ± 28 (0 to 100) of them," in text
    assert "about 640 ± 40 units in all, of whom about 40 ± 28 are in none of the groups shown" in found.html()
    assert "(other)" not in table_text(found.to_arrow(), found.plan, 2)
    one = Totals(parts_of(found)[0])
    assert "About 640 ± 40 (558 to 722) units in all." in table_text(found.to_arrow(), found.plan, 2, one)
    cut = table_text(found.to_arrow().slice(0, 1), found.plan, 2, found.totals).splitlines()
    assert cut[3] == "  … and 1 more group"
    assert cut[4].startswith("  (other) ")
    with_bounds = table_text(found.to_arrow(), found.plan, 2, found.totals, level=0.95)
    assert with_bounds.splitlines()[0].split() == ["item", "count", "count,", "95", "%"]
    assert " Intervals have a level of 95 %." in with_bounds


def test_the_command_has_totals_and_their_sign(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(overlapping(), tmp_path / "in.parquet")
    out = tmp_path / "out.json"
    arguments = (
        f"release {tmp_path / 'in.parquet'} --unit user --by item --epsilon 1 --delta 1e-6 --max-groups 1 --total"
    )
    result = CliRunner().invoke(app, [*arguments.split(), "--allow-negative", "-o", str(out), "--explain"])
    assert result.exit_code == 0, result.output
    assert "(other)" in result.output
    assert "are in none of the released groups." in result.output
    assert "one unit changes one of them, by one" in " ".join(result.output.split())
    assert not [check for check in dp.verify(out) if check.failed]
    words = "the number of units, with noise of std 40, and of those in no released group, with noise of std 28.28"
    assert words in " ".join(str(dp.plan(**BUDGET, max_groups=1, total=True)).split())
