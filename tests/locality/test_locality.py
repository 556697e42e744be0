"""Locality, the hypothesis of every theorem: what a table yields is the sum of what each unit's records yield alone.

Nothing that is global to a file may matter: statistics, zone maps, bloom filters, dictionaries, row groups, sniffed types, the
number and order of rows, threads, chunk borders, other columns, other units. About 500 runs of the engine by default; 20 times
as many with `-m statistical`.
"""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from counting import Outcome, count
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from nasty_tables import KINDS, UNIT, everything, tables
from oracle import Part, Question, add_up, answer, tag_of, take_away, units_of
from record_expressions import EXPRESSIONS
from writers import WRITERS, Writer

from dphist.engines import PerformanceSettings
from dphist.histogram import Measure

MORE = 20
"""How many times as many examples the thorough run has."""

NUMBERS = ("float64", "float32", "int", "decimal", "bool")


def measures_of(column: str) -> tuple[Measure, ...]:
    return (
        Measure("sum", "sum", column, -2.0, 6.0, 2.0, 2.0**-18, 2**20),
        Measure("mean", "mean", column, 1.0, 5.0, 3.0, 2.0**-19, 2**20),
        Measure("rows", "rows", None, 0.0, 3.0, 1.5, 0.5, 3),
    )


def parts_of(table: pa.Table, *, boolean: bool = False) -> list[Part]:
    """Every key, or every condition, that a table offers."""
    found = []
    for field in table.schema:
        if field.name == UNIT:
            continue
        tag = tag_of(field.type)
        if not boolean and tag not in ("struct", "list"):
            found.append(Part(field.name))
        found += [Part(field.name, one) for one in EXPRESSIONS.get(tag, ()) if one.boolean or not boolean]
    return found


@st.composite
def questions(draw: st.DrawFn, writer: Writer, table: pa.Table) -> Question:
    """One or two keys, perhaps measures of a column of numbers, perhaps a condition."""
    seen = writer.see(table)
    keys = draw(st.lists(st.sampled_from(parts_of(seen)), min_size=1, max_size=2, unique_by=lambda part: (part.column, part.sql)))
    summable = (*NUMBERS, "text") if writer.untyped else NUMBERS
    numbers = [field.name for field in seen.schema if field.name != UNIT and tag_of(field.type) in summable]
    measures = measures_of(draw(st.sampled_from(numbers))) if numbers and draw(st.booleans()) else ()
    conditions = parts_of(seen, boolean=True)
    where = draw(st.sampled_from(conditions)) if conditions and draw(st.booleans()) else None
    return Question(tuple(keys), measures, where, draw(st.sampled_from(["group", "group", "drop"])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Writer, pa.Table, Question]:
    writer = draw(st.sampled_from(WRITERS))
    table = draw(tables())
    question = draw(questions(writer, table))
    note(f"{writer}: {question}\n{writer.see(table).to_pydict()}")
    return writer, table, question


def of_units(table: pa.Table, units: list[object]) -> pa.Table:
    """The records of some units."""
    return table.filter(pa.array([unit in units for unit in units_of(table)]))


def examples(number: int) -> settings:
    return settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def added(parts: list[Outcome], whole: Outcome) -> Outcome:
    """The sum of what was counted apart; a refusal must be the same for everybody."""
    if any(isinstance(part, str) for part in parts):
        (refusal,) = {part for part in parts if isinstance(part, str)}
        assert all(isinstance(part, str) for part in parts), "a type was refused for some units only"
        return refusal
    return add_up([part for part in parts if not isinstance(part, str)]) if parts else whole


def assert_same(got: Outcome, want: Outcome, question: Question) -> None:
    """Equality, and where it fails the values of each key that differ."""
    if got == want or isinstance(got, str) or isinstance(want, str):
        assert got == want
        return
    lines = []
    for place, part in enumerate(question.keys):
        units = [Counter(pair for key, row in groups.items() for pair in [(key[place], *row)]) for groups in (got, want)]
        more, less = (str(list((units[a] - units[1 - a]).elements()))[:300] for a in (0, 1))
        lines.append(f"{part.sql or part.column}: got {more}, expected {less}")
    raise AssertionError("\n".join(lines))


def check_alone(case: tuple[Writer, pa.Table, Question]) -> None:
    """Each unit alone, the oracle and the road over pairs agree with the whole."""
    writer, table, question = case
    whole = count(writer, table, question)
    if question.has_meaning and not isinstance(whole, str):
        assert_same(whole, answer(writer.see(table), question), question)
    names = [unit for unit in dict.fromkeys(units_of(table)) if unit is not None]
    alone = [count(writer, of_units(table, [unit]), question) for unit in names]
    assert_same(whole, added(alone, whole), question)
    assert_same(count(writer, table, question, pairs=True), whole, question)


def check_removal(case: tuple[Writer, pa.Table, Question], which: random.Random) -> None:
    """Without one unit, exactly what it adds alone is gone."""
    writer, table, question = case
    names = [unit for unit in dict.fromkeys(units_of(table)) if unit is not None]
    if not names:
        return
    gone = which.choice(names)
    whole, own = count(writer, table, question), count(writer, of_units(table, [gone]), question)
    rest = count(writer, of_units(table, [unit for unit in units_of(table) if unit != gone]), question)
    if isinstance(whole, str) or isinstance(own, str):
        assert whole == own == rest
    else:
        assert not isinstance(rest, str)
        assert_same(rest, take_away(whole, own), question)


def check_settings(case: tuple[Writer, pa.Table, Question], other: Writer, order: random.Random) -> None:
    """Threads, the order of rows, one more column and another writer of the same types change nothing."""
    writer, table, question = case
    whole = count(writer, table, question)
    rows = list(range(len(table)))
    order.shuffle(rows)
    wider = table.take(pa.array(rows, pa.int64())).append_column("column99", pa.array([float("nan")] * len(table)))
    for threads in (2, 4):
        assert_same(count(writer, wider, question, settings=PerformanceSettings(threads=threads)), whole, question)
        wider = table
    if other.untyped == writer.untyped and other.see(table).schema.equals(writer.see(table).schema):
        assert_same(count(other, table, question), whole, question)


@examples(45)
@given(case=cases())
def test_a_table_is_the_sum_of_its_units(case: tuple[Writer, pa.Table, Question]) -> None:
    check_alone(case)


@examples(40)
@given(case=cases(), which=st.randoms())
def test_without_a_unit_only_its_own_contributions_go(
    case: tuple[Writer, pa.Table, Question], which: random.Random
) -> None:
    check_removal(case, which)


@examples(25)
@given(case=cases(), other=st.sampled_from(WRITERS), order=st.randoms())
def test_settings_order_and_writers_change_nothing(
    case: tuple[Writer, pa.Table, Question], other: Writer, order: random.Random
) -> None:
    check_settings(case, other, order)


@pytest.mark.parametrize("writer", WRITERS, ids=repr)
def test_every_kind_of_key_through_every_writer(writer: Writer) -> None:
    """One table with every value of every kind, all plain keys in a few queries: nothing is left to chance."""
    table = writer.see(everything())
    names = [field.name for field in table.schema if field.name != UNIT and tag_of(field.type) not in ("struct", "list")]
    simple = [name for name in names if not str(table.schema.field(name).type).endswith(("[ns]", "[ns, tz=UTC]"))]
    for keys in (simple[: len(simple) // 2], simple[len(simple) // 2 :]):
        if not keys:
            continue
        narrow = everything().select([UNIT, *keys])
        renamed = narrow.rename_columns([f"column{i}" for i in range(narrow.num_columns)])
        question = Question(tuple(Part(name) for name in renamed.column_names[1:]))
        assert_same(count(writer, renamed, question), answer(writer.see(renamed), question), question)


@pytest.mark.parametrize("name", ["pyarrow groups of 2", "polars parquet", "arrow", "polars", "pandas pyarrow"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_time_that_does_not_fit_is_null_for_its_own_record(name: str, zone: str | None) -> None:
    """Milliseconds reach a thousand times further than the microseconds that DuckDB makes of them."""
    (writer,) = [writer for writer in WRITERS if writer.name == name]
    times = pa.array([0, 2**63 - 1, 0, -(2**63), None], pa.int64()).view(pa.timestamp("ms", zone))
    question = Question((Part("column1"),))
    assert count(writer, pa.table([[1, 2, 3, 4, 5], times], [UNIT, "column1"]), question) == {
        (None,): (3,),
        (("instant" if zone else "timestamp", 0),): (2,),
    }


@pytest.mark.statistical
@pytest.mark.parametrize("check", [check_alone, check_removal], ids=lambda check: check.__name__)
def test_many_tables(check: object) -> None:
    @examples(45 * MORE)
    @given(case=cases(), which=st.randoms())
    def holds(case: tuple[Writer, pa.Table, Question], which: random.Random) -> None:
        if check is check_alone:
            check_alone(case)
        else:
            check_removal(case, which)

    holds()


def test_the_pools_hold_what_they_promise() -> None:
    """A pool without NaN, or a table of one unit, would find nothing."""
    table = everything()
    assert table.num_columns == len(KINDS) + 1
    assert len({unit for unit in units_of(table) if unit is not None}) == 4
