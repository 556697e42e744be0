"""Numbers beyond a public limit are refused, by one error of ours, and those at it are not."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist import checks
from dphist.aggregates.count import Filled, RowsOfUnit
from dphist.aggregates.distinct import DistinctOfUnit
from dphist.aggregates.measures import Measure
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.aggregates.total import SumOfUnit
from dphist.aggregates.tree import Tree
from dphist.cli.sql import read_query
from dphist.engines import frames
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.literals import format_of, pattern, short
from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings, memory_beside_python
from dphist.engines.source import Files
from dphist.errors import DphistError
from dphist.files import stored
from dphist.ledger.accountant import declared_cost, price
from dphist.ledger.dataset import DataSet
from dphist.mechanisms import lattice
from dphist.mechanisms.adaptive import calibrate as calibrate_rounds
from dphist.mechanisms.continual import ContinualCounts
from dphist.mechanisms.counts import CountNoise
from dphist.mechanisms.truncated_laplace import TruncatedLaplace
from dphist.noise.exact import sample_exactly
from dphist.noise.exponential import exponential_top_k
from dphist.noise.laws import DiscreteGaussian, DiscreteLaplace, RoundedGaussian, TruncatedDiscreteLaplace
from dphist.noise.sampling import sample
from dphist.noise.tails import log_max_tail, log_sum_tail
from dphist.planning import storage
from dphist.planning.flexible import Buckets, Grid
from dphist.privacy import truncated_laplace
from dphist.privacy.composition import PrivacyCost
from dphist.privacy.events import GaussianEvent

SUM: dict[str, Any] = {"column": "n", "lower": 0.0, "upper": 1.0}
LAPLACE = DiscreteLaplace(Fraction(3))
PEOPLE = pa.table({"u": range(40), "n": [1.0] * 40})
ROUNDS = calibrate_rounds(1.0, 1e-8)
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-8, max_groups_contributed=1)"
UP, DOWN = 1 + 2**-40, 1 - 2**-40


def measure(kind: type[Measure] = SumOfUnit, **change: Any) -> Measure:
    return kind(**{**SUM, **change})


def stored_text(text: str) -> object:
    return stored.parse(f'{{"a": {text}}}'.encode(), "here")


def expression(text: str) -> None:
    read_expression(text)


def resolved(text: str) -> object:
    """What a key is computed by, resolved."""
    table = pa.table({"u": ["a"], "n": [1.0]})
    return DuckDBEngine().histogram(table, GroupByQuery("u", (Key("k", text),)), ContributionBounds(1))


def data_set(epsilon: float) -> DataSet:
    return DataSet("events", epsilon, 1e-6, "user", "basic")


def plan(**change: Any) -> dp.Plan:
    return dp.plan(**{"epsilon": 1.0, "delta": 1e-8, "max_groups": 3, **change})


def literal(complaint: str | None) -> None:
    if complaint is not None:
        raise dp.InvalidParameter(complaint, "another")


def statement(text: str) -> str:
    """A private SELECT, as it is explained."""
    table = pa.table({"u": ["a"], "k": ["b"], "n": [1.0]})
    public = dp.public(pa.table({"k": ["b"]}))
    return dp.connect(tables={"t": table, "p": public}, unit="u").explain(f"{PRIVATE} {text}")


def drawable(**change: Any) -> None:
    """Whether the noise on counts after rounds can be drawn, with this much of it."""
    replace(CountNoise("gaussian", 4.0, 2.5, 0.65), **change).require_drawable([])


def drawable_sum(std: Any) -> None:
    """The same for a sum, of which a unit that is in many groups has 32 times the noise."""
    noisy = NoisyMeasure(RowsOfUnit(None, 0.0, 2.0**20), RoundedGaussian(Fraction(std), 0))
    CountNoise("gaussian", 4.0, 2.5, 0.65).require_drawable([noisy])


def with_alternatives(number: int) -> None:
    """A stored plan that compares itself with so many of one kind."""
    made = plan()
    laplace = plan(mechanism="laplace").mechanism
    storage.from_data(
        json.loads(json.dumps(storage.to_data(made.request, made.mechanism, (laplace,) * number))), "a plan"
    )


Call = Callable[[Any], object]
LIMITS: dict[str, tuple[Call, Any, Any]] = {
    # what is asked: how, the last number that is taken, one that is refused
    "epsilon of a budget": (lambda x: checks.check_budget(x, 1e-8), 1e-9, 0.99e-9),
    "delta of a budget": (lambda x: checks.check_budget(1.0, x), 1e-100, 0.99e-100),
    "whole numbers": (lambda x: checks.check_whole("n", x), 2**40, 2**40 + 1),
    "epsilon of bounds": (lambda x: dp.bounds(PEOPLE, unit="u", column="n", epsilon=x), 30.0, 30.1),
    "least epsilon of bounds": (lambda x: dp.bounds(PEOPLE, unit="u", column="n", epsilon=x), 1e-9, 0.99e-9),
    "epsilon of a data set": (data_set, 30.0, 30.1),
    "epsilon of what was spent elsewhere": (lambda x: declared_cost(x, 0.0, None, None), 1e6, 1.01e6),
    "epsilon of a composition": (lambda x: price(plan().mechanism.event(1.0), x), 30.0, 30.1),
    "a cost": (lambda x: PrivacyCost(x, 0.0, 0.0, 0.0, 0.0, 0.0), 1e140, 1.01e140),
    "a number of an event": (GaussianEvent, 1e140, 1.01e140),
    "distinct values": (lambda x: measure(kind=DistinctOfUnit, upper=x), 2.0**20, 2.0**20 + 1),
    "records of a unit": (lambda x: measure(kind=Filled, records=x), 2**20, 2**20 + 1),
    "least weight": (lambda x: measure(weight=x), 1e-6, 0.99e-6),
    "weight": (lambda x: measure(weight=x), 1e6, 1.01e6),
    "steps of a sum": (lambda x: measure(kind=RowsOfUnit, column=None, upper=x), 2.0**40, 2.0**40 + 2),
    "sums": (lambda x: plan(sums={f"n{i}": (0, 1) for i in range(x)}), 16, 17),
    "quantiles": (lambda x: plan(quantiles={"n": ([i / 50 for i in range(1, x + 1)], 0, 1)}), 16, 17),
    "height of a tree": (lambda x: Tree(0, 1, x), 20, 21),
    "records in a tree": (lambda x: Tree(0, 1, 12, x), 2**16, 2**16 + 1),
    "mechanisms of a plan": (with_alternatives, 2, 3),
    "noise of rounds": (lambda x: replace(ROUNDS, round_stds=(x,) * 4).require_drawable([]), 2.0**28, 2.0**28 * UP),
    "noise of a histogram": (lambda x: drawable(histogram_noise=x), 2.0**28, 2.0**28 * UP),
    "noise of a sum": (drawable_sum, 2**39, 2**39 + 1),
    "steps of a sum after rounds": (
        lambda x: ROUNDS.require_drawable([measure(kind=RowsOfUnit, column=None, upper=x)]), 2.0**30, 2.0**30 + 2
    ),
    "q of a smallest q": (lambda x: truncated_laplace.smallest_q(x, 1e-100), 4e-10, 3.5e-10),
    "lattice bits": (lattice.check_lattice, 40, 41),
    "correlation": (lattice.check_correlation, 1e6, 1.01e6),
    "least correlation": (lattice.check_correlation, 1e-300, 0.99e-300),
    "rounds": (lambda x: ContinualCounts(x, 1, 5.0, 50), 2**20, 2**20 + 1),
    "q of a truncated law": (lambda x: TruncatedLaplace(Fraction(1), x), 2**40, 2**40 + 1),
    "bars": (truncated_laplace.check_bars, 256, 257),
    "lattice bits of noise": (lambda x: RoundedGaussian(Fraction(1, 2**20), x), 52, 53),
    "least variance": (lambda x: DiscreteGaussian(Fraction(1, 2**80) * Fraction(x)), 1.0, DOWN),
    "variance": (lambda x: DiscreteGaussian(2**90 * Fraction(x)), 1.0, UP),
    "scale": (lambda x: DiscreteLaplace(2**45 * Fraction(x)), 1.0, UP),
    "least scale": (lambda x: DiscreteLaplace(Fraction(1, 2**40) * Fraction(x)), 1.0, DOWN),
    "epsilon of truncated noise": (lambda x: TruncatedDiscreteLaplace(2**40 * Fraction(x), 3), 1.0, UP),
    "least epsilon of truncated noise": (
        lambda x: TruncatedDiscreteLaplace(Fraction(1, 2**45) * Fraction(x), 3), 1.0, DOWN
    ),
    "q of truncated noise": (lambda x: TruncatedDiscreteLaplace(Fraction(1), x), 2**61, 2**61 + 1),
    "coefficient": (lambda x: exponential_top_k(np.arange(3), x, 1), 2**40, 2**40 + 1),
    "utility": (lambda x: exponential_top_k(np.array([x, 0]), 1, 1), 2**61, 2**61 + 1),
    "least utility": (lambda x: exponential_top_k(np.array([x, 0]), 1, 1), -(2**61), -(2**61) - 1),
    "t of a largest noise": (lambda x: log_max_tail(LAPLACE, LAPLACE, x, 3), 2**52, 2**52 + 1),
    "least t of a largest noise": (lambda x: log_max_tail(LAPLACE, LAPLACE, x, 3), -(2**52), -(2**52) - 1),
    "noises with a largest": (lambda x: log_max_tail(LAPLACE, LAPLACE, 9, x), 2**52, 2**52 + 1),
    "terms of a sum of noises": (lambda x: log_sum_tail(DiscreteGaussian(Fraction(9)), x, 5.0), 1024, 1025),
    "buckets": (lambda x: Buckets(0.0, float(x), 0.5), 2**40, 2**40 + 1),
    "buckets of an axis": (lambda x: Grid((0.0,), (float(x),), 0.5), 2**40, 2**40 + 1),
    "error of a statistic": (lambda x: Buckets(2.0**50 - 1, 2.0**50, x), 2.0**8, 2.0**8 * DOWN),
    "depth of what is stored": (lambda x: stored_text("[" * x + "]" * x), 19, 20),
    "digits of what is stored": (lambda x: stored_text("1" * x), 20, 21),
    "letters of a stored number": (lambda x: stored_text("0." + "1" * (x - 2)), 64, 65),
    "bytes of what is stored": (lambda x: stored_text('"' + "x" * (x - 9) + '"'), 4 << 20, (4 << 20) + 1),
    "memory": (lambda x: PerformanceSettings(memory_limit=f"{x}MB"), 10**9, 10**9 + 1),
    "least memory": (lambda x: PerformanceSettings(memory_limit=f"{x}KB"), 1_000, 999),
    "least memory of a command": (lambda x: memory_beside_python(f"{x}MB"), 300, 299),
    "threads": (lambda x: PerformanceSettings(threads=x), 1024, 1025),
    "texts that mean null": (lambda x: Files(("x.csv",), nulls=tuple(map(str, range(x)))), 100, 101),
    "letters that mean null": (lambda x: Files(("x.csv",), nulls=("x" * x,)), 100, 101),
    "digits of a type": (lambda x: Files(("x.csv",), types={"n": f"decimal({x},2)"}), 38, 39),
    "letters of an expression": (lambda x: expression("a" * x), 2**16, 2**16 + 1),
    "brackets of an expression": (lambda x: expression("(" * x + "a" + ")" * x), 200, 201),
    "digits in an expression": (lambda x: expression("9" * x + "=n"), 400, 401),
    "bytes of a format": (lambda x: literal(format_of(frozenset())("x" * x)), 200, 201),
    "bytes of a pattern": (lambda x: literal(pattern("x" * x)), 1000, 1001),
    "repeats in a pattern": (lambda x: literal(pattern(f"x{{{x}}}")), 100, 101),
    "characters of a statement": (lambda x: statement(f"k, COUNT(*) FROM t GROUP BY k{' ' * x}"), 2**18 - 150, 2**18 - 90),
    "brackets of a statement": (lambda x: statement(f"k, COUNT(*) FROM t WHERE {'(' * x}n > 1{')' * x} GROUP BY k"), 20, 101),
    "boundaries of quantiles": (
        lambda x: statement(f"APPROX_QUANTILES(n, {x}, contribution_bounds_per_row => (0, 1)) FROM t"), 16, 17
    ),
    "tables of a statement": (
        lambda x: statement(f"COUNT(*) FROM t WHERE k IN (SELECT k FROM p {'UNION ALL SELECT k FROM p ' * x})"), 65, 66
    ),
    "levels of an expression": (lambda x: resolved("abs(" * x + "n" + ")" * x), 32, 33),
    "bytes of a replacement": (lambda x: literal(short("x" * x)), 60, 61),
}  # fmt: skip
WORDS = {"brackets of a statement": "at most 100 brackets"}
"""Of the error, where what is far beyond the limit is refused for another reason."""


@pytest.mark.parametrize("name", LIMITS)
def test_a_parameter_ends_at_its_limit(name: str) -> None:
    call, most, more = LIMITS[name]
    call(most)
    with pytest.raises(DphistError, match=WORDS.get(name, r"^Expected ")):
        call(more)


@pytest.mark.parametrize("draw", [sample, sample_exactly])
def test_more_draws_than_anybody_needs_are_refused(draw: Callable[..., object]) -> None:
    """Before anything is reserved for them."""
    for number in (2**40 + 1, 2**41):
        with pytest.raises(dp.InvalidParameter, match="as an int in"):
            draw(LAPLACE, number)
    with pytest.raises(dp.InvalidParameter, match="k as an int in"):
        exponential_top_k(np.arange(3), 1, 2**40 + 1)


def test_without_another_budget_a_cost_is_for_the_largest() -> None:
    assert price(plan().mechanism.event(1.0)) == price(plan().mechanism.event(1.0), 30.0)


def test_a_decimal_of_a_frame_has_some_hundred_digits() -> None:
    ends = {
        "1." + "1" * 399: True,
        "1." + "1" * 400: False,
        "1E400": True,
        "1E401": False,
        "1E-400": True,
        "1E-401": False,
    }
    assert {text: frames.number_in(Decimal(text)) is not None for text in ends} == ends


def test_of_standard_input_little_more_is_read_than_statements_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    source = io.BytesIO(b" " * 2**22)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
    with pytest.raises(dp.InvalidParameter, match="at most 1,048,576 bytes of statements"):
        read_query("-")
    assert source.tell() == 2**20 + 1
    for size in (2**20, 2**20 + 1):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" " * size)))
        if size > 2**20:
            with pytest.raises(dp.InvalidParameter, match="at most 1,048,576 bytes of statements"):
                read_query("-")
        else:
            assert len(read_query("-")[0]) == size


def test_a_file_of_statements_has_a_length(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_bytes(b" " * 2**20)
    assert len(read_query(str(tmp_path / "x.sql"))[0]) == 2**20
    (tmp_path / "x.sql").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(dp.InvalidParameter, match="a file of statements of at most 1,048,576 bytes"):
        read_query(str(tmp_path / "x.sql"))


def test_of_a_file_little_more_is_read_than_it_may_have(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b" " * (stored.MOST_BYTES + 1))
    with pytest.raises(dp.InvalidParameter, match="a plan of at most 4,194,304 bytes"):
        stored.read_file(tmp_path / "plan.json", "a plan")
