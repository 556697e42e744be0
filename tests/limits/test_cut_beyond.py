"""What is in files, tables and budgets beyond a public limit is cut, left out or left alone; what is at the limit is not."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter, ValidationError

import dphist as dp
from dphist.aggregates.distinct import DistinctOfUnit
from dphist.aggregates.mean import MeanOfUnit
from dphist.aggregates.measures import Measure
from dphist.aggregates.spread import Deviation, Square
from dphist.aggregates.total import SumOfUnit
from dphist.aggregates.tree import Bins, Tree, noisy_quantiles
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.duckdb.session import leave_room, memory_limit
from dphist.engines.histogram import ContributionBounds
from dphist.engines.lines import first_line
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.source import CsvFormat
from dphist.engines.spark.source import fields_of
from dphist.engines.spark.types import guarded, is_short, short
from dphist.engines.sums import exact_total
from dphist.files.formats import SIDECAR
from dphist.ledger import heads
from dphist.ledger.charge import Receipt
from dphist.mechanisms import (
    continual,
    correlated_top_k,
    discrete,
    from_top,
    ranked,
    truncated_laplace,
    voting,
)
from dphist.mechanisms.lattice import add_noise
from dphist.mechanisms.surcharge import tree_surcharge, with_sampler_error
from dphist.mechanisms.tuning import ONE
from dphist.noise.laws import DiscreteLaplace, RoundedGaussian
from dphist.privacy.voting import _growth, release_probabilities
from dphist.run.counting import Classes
from dphist.run.public_keys import public_keys
from dphist.run.record import AnswerRecord, ReleaseRecord, StreamRecord, TopKRecord
from dphist.run.totals import noisy_units
from drawn_laws import recorded, silence

ONE_GROUP = ContributionBounds(1)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}


def groups(table: pa.Table, key: str, *measures: Measure) -> dict[Any, Any]:
    """The groups of a table by an expression, with what is added up."""
    query = GroupByQuery("u", (Key("k", key),), measures)
    found = DuckDBEngine().histogram(table, query, ONE_GROUP)
    columns = [found.keys["k"].to_pylist(), found.counts.tolist(), *(column.tolist() for column in found.sums.values())]
    return {key: numbers for key, *numbers in zip(*columns, strict=True)}


@pytest.mark.parametrize(("kind", "measured"), [(pa.string(), "strlen"), (pa.binary(), "octet_length")])
def test_a_long_text_is_null(kind: pa.DataType, measured: str) -> None:
    table = pa.table({"u": ["a", "b"], "x": pa.array([b"x" * 65_536, b"x" * 65_537]).cast(kind)})
    assert groups(table, f"{measured}(x)") == {65_536: [1], None: [1]}


def test_a_long_step_is_null() -> None:
    table = pa.table({"u": ["a", "b"], "x": ["x" * 32_768, "x" * 32_769]})
    for step in ("x || x", "concat(x, x)", "replace(x, 'x', 'yy')", "hex(x)"):
        assert groups(table, f"strlen({step})") == {65_536: [1], None: [1]}


def test_a_long_list_is_null() -> None:
    table = pa.table({"u": ["a", "b"], "x": [[1] * 4_096, [1] * 4_097]})
    assert groups(table, "len(x)") == {4_096: [1], None: [1]}


ENDS = {"all": [math.inf], "much": [1e300], "both": [math.inf, -1e300], "little": [-1e300], "nothing": [-math.inf]}
"""The values of each unit."""


@pytest.mark.parametrize("of", [SumOfUnit, MeanOfUnit])
def test_values_of_any_size_are_cut_before_they_are_added_up(of: type[Measure]) -> None:
    """In steps of at most 2^62, in either direction."""
    rows = [(unit, value) for unit, values in ENDS.items() for value in values]
    table = pa.table({"u": [unit for unit, _ in rows], "n": [value for _, value in rows]})
    measure = of("n", -1.0, 1.0)
    most = measure.sensitivity_steps
    steps = {unit: found[1] for unit, found in groups(table, "u", measure).items()}
    assert steps == {"all": most, "much": most, "both": 0, "little": -most, "nothing": -most}
    with DuckDBEngine().open(table, GroupByQuery("u", (Key("k", "1"),), (measure,))) as records:
        sizes = records.sizes(1)
    assert (sizes[0], sizes[len(sizes) // 2], sizes[-1], sizes.sum()) == (2, 1, 2, 5)


@pytest.mark.parametrize("kind", [Deviation, Square])
def test_each_value_is_clamped_before_those_of_a_unit_are_added_up(kind: type[Measure]) -> None:
    """For means and variances of records: 1 and -1 are as far from 0 as each other, 99 and -1 are not."""
    table = pa.table({"u": ["a", "a", "b", "b", "c", "c"], "n": [99.0, -1.0, 1.0, -99.0, 9.0, 0.0]})
    found = groups(table, "u", kind("n", -1.0, 1.0, records=2))
    same = groups(table, "u", kind("greatest", -1.0, 1.0, records=2, expression="greatest(least(n, 1), -1)"))
    assert found == same


@pytest.mark.parametrize("value", [math.inf, 2.0**155, 1e300])
def test_sums_of_sums_of_values_of_any_size_end_at_the_largest(value: float) -> None:
    total = exact_total("x", lambda number: f"CAST(trunc({number}) AS BIGINT)", lambda whole: f"SUM({whole})")
    with duckdb.connect() as connection:
        for sign in (1, -1):
            found = connection.execute(
                f"SELECT {total} FROM (SELECT CAST(? AS DOUBLE) AS x)", [sign * value]
            ).fetchall()
            assert found == [(sign * math.nextafter(2.0**155, 0),)]


@pytest.mark.parametrize(("limit", "fits"), [(4, True), (3, False)])
def test_an_election_has_room_for_so_many_values(monkeypatch: pytest.MonkeyPatch, limit: int, fits: bool) -> None:
    """Three units with two values each, of which each may have one."""
    monkeypatch.setattr("dphist.engines.duckdb.pairs.MOST_RELEASED", limit)
    table = pa.table({"u": [1, 1, 2, 2, 3, 3], "k": ["a"] * 6, "n": [1.0, 2.0] * 3})
    query = GroupByQuery("u", (Key("k"),), (DistinctOfUnit("n", 0, 1),))
    with nullcontext() if fits else pytest.raises(dp.InvalidParameter, match=r"fewer than 2\^31"):
        assert DuckDBEngine().histogram(table, query, ONE_GROUP).sums["distinct_n"].tolist() == [2]


@pytest.mark.parametrize(("limit", "fits"), [(4, True), (3, False)])
def test_codes_have_room_for_so_many_units(monkeypatch: pytest.MonkeyPatch, limit: int, fits: bool) -> None:
    monkeypatch.setattr("dphist.engines.duckdb.pairs.MOST_RELEASED", limit)
    table = pa.table({"u": [1, 2, 3], "k": ["a", "a", "b"]})
    expected = nullcontext() if fits else pytest.raises(dp.InvalidParameter, match=r"fewer than 2\^31")
    with DuckDBEngine().open(table, GroupByQuery("u", (Key("k"),))) as records, records.pairs() as pairs, expected:
        assert pairs.total_units() == 3
        pairs.sampled(300)


@pytest.mark.parametrize("most", [1, 2, 9])
def test_no_more_groups_are_brought_than_are_asked_for(most: int) -> None:
    table = pa.table({"u": [1, 2, 3, 4, 5, 6], "k": ["a", "a", "a", "b", "b", "c"]})
    found = DuckDBEngine().histogram(table, GroupByQuery("u", (Key("k"),)), ONE_GROUP, largest=most)
    assert dict(zip(found.keys["k"].to_pylist(), found.counts.tolist(), strict=True)) == dict(
        [("a", 3), ("b", 2), ("c", 1)][:most]
    )


def test_the_engine_keeps_what_it_needs() -> None:
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '500MB'")
        leave_room(connection, 1e12)
        assert memory_limit(connection) == pytest.approx(125e6, rel=0.01)


def test_of_any_sequence_of_keys_no_more_are_taken_than_a_list_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphist.run.public_keys.MOST_KEYS", 10)
    fits: list[Any] = [
        "SELECT range AS a FROM range(10)", {"a": range(5), "b": range(2)}, {"a": range(10)}, {"a": iter(range(10))}, "a=0..9"
    ]  # fmt: skip
    for keys in fits:
        assert public_keys(keys).num_rows == 10
    long = iter(range(100))
    beyond: list[tuple[Any, str]] = [
        ("SELECT range AS a FROM range(11)", "more"), ({"a": range(6), "b": range(2)}, "12"), ({"a": range(11)}, "11"),
        ({"a": iter(range(11))}, "more"), ("a=0..10", "11"), ({"a": long}, "more"),
    ]  # fmt: skip
    for keys, got in beyond:
        with pytest.raises(dp.InvalidParameter, match=f"at most 10 public keys, got {got}"):
            public_keys(keys)
    assert next(long) == 11


CALIBRATED: dict[str, Callable[[float], object]] = {
    "stream": lambda epsilon: continual.calibrate(epsilon, 1e-8, 4, 1),
    "correlated top-k": lambda epsilon: correlated_top_k.calibrate(epsilon, 1e-8, 3),
    "discrete halves": lambda epsilon: discrete.discrete_correlated(epsilon, 1e-8, 20),
    "discrete": lambda epsilon: discrete.discrete_threshold(epsilon, 1e-8, 3),
    "from-top": lambda epsilon: from_top.calibrate(epsilon, 1e-8, 3),
    "ranked": lambda epsilon: ranked.calibrate(epsilon, 1e-8, 3, 10),
    "bars": lambda epsilon: truncated_laplace.TruncatedLaplace.for_budget(epsilon, 1e-8, 2),
    "election": lambda epsilon: voting.calibrate(epsilon, 1e-8),
    "bounded": lambda epsilon: dp.plan(epsilon=epsilon, delta=1e-8, max_groups=3).mechanism,
    "trees": lambda epsilon: tree_surcharge(epsilon, 5),
    "samplers": lambda epsilon: with_sampler_error(lambda at: 1e-9, epsilon, 7),
}


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_larger_epsilon_is_worth_no_more_than_samplers_are_exact_for(name: str) -> None:
    assert CALIBRATED[name](1000.0) == CALIBRATED[name](30.0)


def test_shares_of_a_larger_epsilon_end_there_too() -> None:
    large = dp.plan(epsilon=1e5, delta=1e-8, total=True, sums={"n": "auto"}).request
    assert (large.choice_epsilon, large.bounds_epsilon) == (30.0, 30.0)
    assert large.total_scale == pytest.approx(1 / 30, rel=1e-9)
    assert _growth(1000.0) == _growth(60.0)


def test_more_people_than_there_are_count_as_the_public_limit() -> None:
    request = dp.plan(**BUDGET, max_groups=1, total=True).request
    with recorded(silence):
        assert noisy_units([5, 2**40, 2**40 + 1, 2**62], request) == [5, 2**40, 2**40, 2**40]


def test_counts_end_at_a_public_limit() -> None:
    """With the finest lattice they still have room in 64 bits."""
    counts = np.array([5, 2**40, 2**40 + 1, 2**62])
    with recorded(silence):
        noisy = add_noise(counts, RoundedGaussian(Fraction(3), 16), 16)
    assert noisy.tolist() == [count << 16 for count in (5, 2**40, 2**40, 2**40)]


def test_counts_of_a_list_end_there_too() -> None:
    found = correlated_top_k.calibrate(1.0, 1e-8, 2)
    with recorded(silence):
        kept, _ = found.perturb(np.array([2**62, 2**40, 7]))
    assert kept.noisy.tolist() == [2**40 << kept.lattice_bits] * 2


@pytest.mark.parametrize("rounds", [1, 3, 2**20])
def test_counts_of_a_stream_fit_into_all_rounds_together(rounds: int) -> None:
    most = continual.ContinualCounts(rounds, 1, 5.0, 50).most_per_round
    assert 2**61 - rounds < most * rounds <= 2**61


def test_a_rule_has_no_more_votes_than_anybody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = len(release_probabilities.__wrapped__(1.0, 1e-8))
    monkeypatch.setattr("dphist.privacy.voting.MOST_VOTES", votes - 1)  # the first of them is for nobody
    assert len(release_probabilities.__wrapped__(1.0, 1e-8)) == votes
    monkeypatch.setattr("dphist.privacy.voting.MOST_VOTES", votes - 2)
    with pytest.raises(dp.Infeasible, match=f"{votes - 2} votes"):
        release_probabilities.__wrapped__(1.0, 1e-8)


def test_what_spark_takes_for_short() -> None:
    with duckdb.connect() as connection:
        for size in (65_536, 65_537):
            found = connection.execute(f"SELECT {is_short('x')} FROM (SELECT CAST(repeat('x', {size}) AS BLOB) AS x)")
            assert found.fetchall() == [(size == 65_536,)]
    assert short("x") == guarded("x", "binary") == f"CASE WHEN {is_short('x')} THEN x END"


def test_a_delta_of_one_is_the_largest_below() -> None:
    table = pa.table({"u": ["a"], "k": ["b"]})
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1, max_groups_contributed=1)"
    assert "epsilon" in dp.connect(tables={"t": table}, unit="u").explain(
        f"SELECT {clause} k, COUNT(*) FROM t GROUP BY k"
    )


@pytest.mark.parametrize(("bound", "groups"), [(3, 3), (1024, 1024), (1025, 1024)])
def test_a_unit_is_in_so_many_trees_of_selected_groups(bound: int, groups: int) -> None:
    assert Classes((bound * ONE,), 1, 1, 1).most_in_trees == groups


@pytest.mark.parametrize("number", [64, 65])
def test_so_many_quantiles_are_read_off_one_tree(number: int) -> None:
    tree, law = Tree(0, 1, 2), DiscreteLaplace(Fraction(1))
    bins, probabilities = (
        Bins(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)),
        np.linspace(0.1, 0.9, number),
    )
    if number == 64:
        assert noisy_quantiles(bins, tree, law, probabilities.tolist()).values.shape == (64, 1)
    else:
        with pytest.raises(dp.InvalidParameter, match="1 to 64 probabilities"):
            noisy_quantiles(bins, tree, law, probabilities.tolist())


def test_the_names_of_columns_are_as_long_as_a_line_may_be(tmp_path: Path) -> None:
    for size, fits in ((2**20, True), (2**20 + 1, False)):
        (tmp_path / "x.csv").write_bytes(b"u," + b"x" * (size - 2) + b"\n")
        with nullcontext() if fits else pytest.raises(dp.UnreadableSource, match="first line of at most 1 MiB"):
            assert len(first_line(str(tmp_path / "x.csv"), CsvFormat(",", '"', header=True))) == 2


def test_a_line_in_another_encoding_is_as_long_as_in_utf_8() -> None:
    form = CsvFormat(",", '"', header=True, encoding="latin-1")
    for size, fits in ((2**19, True), (2**19 + 1, False)):
        assert (fields_of(b"\xe9" * size, form) is not None) == fits  # two bytes each


def limited(model: Any, field: str) -> TypeAdapter[Any]:
    """What reads one field of a published file."""
    kind = model.model_fields[field]
    annotated: Any = Annotated[kind.annotation, *kind.metadata]
    return TypeAdapter(annotated)


@pytest.mark.parametrize(("model", "field"), [
    (TopKRecord, "k"), (StreamRecord, "round"),
])  # fmt: skip
def test_numbers_of_published_files_end_where_those_of_plans_do(model: Any, field: str) -> None:
    checked = limited(model, field)
    assert checked.validate_python(2**40) == 2**40
    with pytest.raises(ValidationError):
        checked.validate_python(2**40 + 1)


def test_entries_that_files_name_end_there_too() -> None:
    checked: TypeAdapter[Receipt] = TypeAdapter(Receipt)
    entry = {"dataset": "d", "entry": 2**40, "hash": "0" * 64}
    assert checked.validate_python(entry).entry == 2**40
    with pytest.raises(ValidationError):
        checked.validate_python({**entry, "entry": 2**40 + 1})


def test_an_answer_has_so_many_private_tables() -> None:
    checked, one = limited(AnswerRecord, "releases"), ReleaseRecord.model_construct()
    assert len(checked.validate_python((one,) * 1_000)) == 1_000
    with pytest.raises(ValidationError):
        checked.validate_python((one,) * 1_001)


def test_the_newest_files_of_a_folder_are_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(heads, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.csv{SIDECAR}").touch()
    assert len(heads._newest(tmp_path)) == 3


def test_who_examines_a_file_has_so_much_time_and_memory() -> None:
    words = (
        "import resource\nfrom dphist.verification import isolated\nisolated.limit_process_for(0)\n"
        "print(*(resource.getrlimit(one)[0] for one in (resource.RLIMIT_CPU, resource.RLIMIT_AS)))"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    seconds, memory = map(int, done.stdout.split())
    assert 7 <= seconds <= 13
    assert 700 << 20 <= memory <= 1300 << 20
