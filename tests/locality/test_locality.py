"""Locality, the hypothesis of every theorem: what a table yields is the sum of what each unit's records yield alone.

Nothing that is global to a file may matter: statistics, zone maps, bloom filters, dictionaries, row groups, sniffed types, the
number and order of rows, threads, chunk borders, other columns, other units. About 250 runs of the engine by default; many
times as many with `-m statistical`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from counting import Outcome, count
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st
from nasty_tables import KINDS, UNIT, everything, tables
from oracle import Group, Part, Question, add_up, answer, tag_of, take_away, units_of, values_of
from record_expressions import EXPRESSIONS
from writers import WRITERS, Writer

from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.mean import MeanOfUnit
from dphist.aggregates.measures import Lattice, Measure
from dphist.aggregates.total import SumOfUnit
from dphist.engines.query import PerformanceSettings
from dphist.engines.source import Files

ALONE, SEVERAL, REMOVED, SETTINGS = 6, 2, 4, 3
"""Examples of each property: five, eight, three, and three or four runs of the engine each."""

MANY = 1000
"""Examples of the thorough run."""

NUMBERS = ("float64", "float32", "int", "decimal", "bool")


def measures_of(column: str) -> tuple[Measure, ...]:
    return (
        SumOfUnit(column, -2.0, 6.0, lattice=Lattice(2.0, 2.0**-18)),
        MeanOfUnit(column, 1.0, 5.0, lattice=Lattice(3.0, 2.0**-19)),
        RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5)),
    )


def parts_of(table: pa.Table, *, boolean: bool = False) -> list[Part]:
    """Every key, or every condition, that a table offers."""
    found = []
    for field in table.schema:
        if field.name == UNIT:
            continue
        tag = tag_of(field.type)
        if not boolean and tag not in ("struct", "list", "instant_ns"):  # the last are read to the microsecond
            found.append(Part(field.name))
        found += [Part(field.name, one) for one in EXPRESSIONS.get(tag, ()) if one.boolean or not boolean]
    return found


@st.composite
def questions(draw: st.DrawFn, writer: Writer, table: pa.Table, several: bool) -> Question:
    """One to three keys, measures of a column of numbers, perhaps a condition: one run asks as much as it can."""
    seen = writer.see(table)
    by_name = {name: [part for part in parts_of(seen) if part.column == name] for name in seen.column_names}
    names = draw(st.lists(st.sampled_from([name for name in by_name if by_name[name]]), min_size=1, max_size=3))
    keys: dict[Part, None] = dict.fromkeys(draw(st.sampled_from(by_name[name])) for name in names)
    summable = (*NUMBERS, "text") if writer.untyped else NUMBERS
    numbers = [field.name for field in seen.schema if field.name != UNIT and tag_of(field.type) in summable]
    measures = measures_of(draw(st.sampled_from(numbers))) if numbers else ()
    conditions = parts_of(seen, boolean=True)
    where = draw(st.none() | st.sampled_from(conditions)) if conditions else None
    question = Question(tuple(keys), measures, where, draw(st.sampled_from(["group", "group", "drop"])))
    if not several:
        return question
    # Few values each, or every record would be a unit of its own.
    known = [part for part in parts_of(seen) if part.has_meaning and part.column in seen.column_names[1:3]]
    drawn = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
    return replace(question, unit=(Part(UNIT), *drawn) if draw(st.booleans()) else tuple(drawn))


@st.composite
def cases(draw: st.DrawFn, *, several: bool = False) -> tuple[Writer, pa.Table, Question]:
    """several: units of several parts, or of expressions."""
    writer = draw(st.sampled_from([writer for writer in WRITERS if not (several and writer.derived)]))
    drawn = draw(tables())
    taken = drawn.select(writer.see(drawn).column_names)  # a file without a header knows columns by their place
    table = taken.rename_columns([f"column{place}" for place in range(taken.num_columns)])
    question = draw(questions(writer, table, several))
    note("\n".join([f"{writer}: {question}", *(f"{n}: {values_of(table.column(n))}" for n in table.column_names)]))
    return writer, table, question


def take(table: pa.Table, rows: list[int]) -> pa.Table:
    """Some rows. Arrow cannot take from views of text, so these go through plain text."""
    plain = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in table.schema]
    columns = [
        column.cast(kind).take(pa.array(rows, pa.int64())).cast(column.type)
        if kind != column.type
        else column.take(pa.array(rows, pa.int64()))
        for column, kind in zip(table.columns, plain, strict=True)
    ]
    return pa.table(columns, table.column_names)


def split(writer: Writer, table: pa.Table, parts: Sequence[Part]) -> dict[Group, pa.Table]:
    """The records of each unit. In a text file 'nan' is a name like any other."""
    units = units_of(writer.see(table), parts)
    names = [unit for unit in dict.fromkeys(units) if unit is not None]
    return {name: take(table, [row for row, unit in enumerate(units) if unit == name]) for name in names}


def examples(number: int, *, shrink: bool = False) -> settings:
    """A failure is shown as it was drawn: to shrink it takes minutes, which the thorough run has."""
    phases = [phase for phase in Phase if shrink or phase not in (Phase.shrink, Phase.explain)]
    return settings(
        max_examples=number, phases=phases, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
    )


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
        rows = [Counter((key[place], *row) for key, row in groups.items()) for groups in (got, want)]
        if rows[0] != rows[1]:
            more, less = (str(list((rows[a] - rows[1 - a]).elements()))[:300] for a in (0, 1))
            lines.append(f"{part.sql or part.column}: got {more}, expected {less}")
    raise AssertionError("\n".join(lines or ["other combinations of the same keys"]))


def check_alone(case: tuple[Writer, pa.Table, Question]) -> None:
    """Each unit alone, the oracle and the road over pairs agree with the whole."""
    writer, table, question = case
    whole = count(writer, table, question)
    if question.has_meaning and not isinstance(whole, str):
        assert_same(whole, answer(writer.see(table), question), question)
    alone = [count(writer, own, question) for own in split(writer, table, question.unit).values()]
    assert_same(whole, added(alone, whole), question)
    assert_same(count(writer, table, question, pairs=True), whole, question)


def check_removal(case: tuple[Writer, pa.Table, Question], which: random.Random) -> None:
    """Without one unit, exactly what it adds alone is gone."""
    writer, table, question = case
    apart = split(writer, table, question.unit)
    assume(len(apart) > 1)
    gone = which.choice(list(apart))
    units = units_of(writer.see(table), question.unit)
    others = take(table, [row for row, unit in enumerate(units) if unit != gone])
    whole, own, rest = (count(writer, part, question) for part in (table, apart[gone], others))
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
    wider = take(table, rows).append_column("column99", pa.array([float("nan")] * len(table)))
    for threads in (2, 4):
        assert_same(count(writer, wider, question, settings=PerformanceSettings(threads=threads)), whole, question)
        wider = table
    alike = other.untyped == writer.untyped and ("csv" in other.name) == ("csv" in writer.name)
    if alike and other.see(table).schema.equals(writer.see(table).schema):
        assert_same(count(other, table, question), whole, question)


@examples(ALONE)
@given(case=cases())
def test_a_table_is_the_sum_of_its_units(case: tuple[Writer, pa.Table, Question]) -> None:
    check_alone(case)


@examples(REMOVED)
@given(case=cases(), which=st.randoms())
def test_without_a_unit_only_its_own_contributions_go(
    case: tuple[Writer, pa.Table, Question], which: random.Random
) -> None:
    check_removal(case, which)


@examples(SEVERAL)
@given(case=cases(several=True), which=st.randoms())
def test_units_of_several_parts_and_of_expressions_are_as_local(
    case: tuple[Writer, pa.Table, Question], which: random.Random
) -> None:
    check_alone(case)
    check_removal(case, which)


@examples(SETTINGS)
@given(case=cases(), other=st.sampled_from(WRITERS), order=st.randoms())
def test_settings_order_and_writers_change_nothing(
    case: tuple[Writer, pa.Table, Question], other: Writer, order: random.Random
) -> None:
    check_settings(case, other, order)


EXAMINED = ((False, "pyarrow"), (True, "duckdb parquet v2"))
"""By default; `make test-long` has every writer with and without a field."""


@pytest.mark.parametrize(
    ("nested", "name"),
    [
        pytest.param(nested, name, marks=[] if (nested, name) in EXAMINED else [pytest.mark.long])
        for nested in (False, True)
        for name in ("pyarrow", "polars parquet", "duckdb parquet v2")
    ],
)
def test_one_unit_does_not_decide_how_others_are_read(name: str, nested: bool) -> None:
    """Whoever has the largest value must not change what NaN is, in a sum or in a condition. No oracle is asked."""
    (writer,) = [writer for writer in WRITERS if writer.name == name]
    numbers = pa.array([float("nan"), float("nan"), 1.0, float("inf")])
    column = pa.StructArray.from_arrays([numbers], ["x"]) if nested else numbers
    table = pa.table([[1, 2, 3, 4], ["a"] * 4, column], [UNIT, "column1", "column2"])
    measures = () if nested else measures_of("column2")
    above = [part for part in parts_of(table, boolean=True) if part.sql in ("column2 > 1.5", "column2.x > 1.5")]
    for where in above if nested else [*above, None]:
        question = Question((Part("column1"),), measures, where)
        alone = [count(writer, take(table, [row]), question) for row in range(4)]
        for number in (3, 4):
            whole = count(writer, take(table, list(range(number))), question)
            assert_same(whole, added(alone[:number], whole), question)


OF_EACH_KIND = {
    "pyarrow groups of 2", "pyarrow version 1.0", "polars parquet", "duckdb parquet v2", "arrow", "arrow reader",
    "polars lazy", "duckdb relation", "pandas pyarrow", "pandas nullable", "pandas categories", "pandas objects",
    "pandas numpy", "csv python", "csv utf-16", "csv with nulls", "json lines", "arrow reader, derived",
}  # fmt: skip
"""Writers whose files or frames another road reads; `make test-long` has all of them."""


@pytest.mark.parametrize(
    "writer",
    [
        pytest.param(writer, id=repr(writer), marks=[] if writer.name in OF_EACH_KIND else [pytest.mark.long])
        for writer in WRITERS
    ],
)
def test_every_kind_of_key_through_every_writer(writer: Writer) -> None:
    """One table with every value of every kind, all plain keys in a few queries: nothing is left to chance."""
    table = writer.see(everything())
    names = [
        field.name for field in table.schema if field.name != UNIT and tag_of(field.type) not in ("struct", "list")
    ]
    simple = [name for name in names if not str(table.schema.field(name).type).endswith(("[ns]", "[ns, tz=UTC]"))]
    for keys in (simple[: len(simple) // 2], simple[len(simple) // 2 :]):
        if not keys:
            continue
        narrow = everything().select([UNIT, *keys])
        renamed = narrow.rename_columns([f"column{i}" for i in range(narrow.num_columns)])
        question = Question(tuple(Part(name) for name in renamed.column_names[1:]))
        assert_same(count(writer, renamed, question), answer(writer.see(renamed), question), question)


@pytest.mark.parametrize("name", ["pyarrow groups of 2", "csv polars"])
def test_every_expression_means_what_it_says(name: str) -> None:
    """All expressions of a kind of column at once, on every value of the kind."""
    (writer,) = [writer for writer in WRITERS if writer.name == name]
    tested, wrong = set(), []
    for place, kind in enumerate(KINDS, 1):
        table = everything().select([UNIT, f"column{place}"]).rename_columns([UNIT, "column1"])
        seen = writer.see(table)
        parts = [part for part in parts_of(seen) if part.sql is not None and part.has_meaning]
        tag = tag_of(seen.schema.field(1).type) if parts else ""
        if not parts or tag in tested or kind.name == "time64 ns":
            continue
        tested |= {tag} - {"timestamp", "instant"}
        question = Question(tuple(parts))
        try:
            assert_same(count(writer, table, question), answer(seen, question), question)
        except AssertionError as difference:
            wrong.append(f"{kind}: {difference}")
    assert not wrong, "\n".join(wrong)


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


FIRST_RECORDS = {
    "a control character": b"9,\x01b,b\n",
    "a quoted newline": b'9,"a\nb",b\n',
    "an open quote": b'9,a"b,b\n',
    "too short": b"9\n",
    "too long": b"9,b,b,b,b\n",
    "not UTF-8": b"9,\xff,b\n",
    "an empty line": b"\n",
    "a NUL": b"9,\x00,b\n",
}


@pytest.mark.parametrize("first", FIRST_RECORDS)
def test_the_first_record_of_a_file_without_header_decides_nothing(first: str, tmp_path: Path) -> None:
    """Not even how many columns there are."""
    path = tmp_path / "x.csv"
    path.write_bytes(FIRST_RECORDS[first] + b"1,a,x\n2,a,x\n")
    writer = Writer(
        "as it is", lambda table, folder: Files((path,), header=["column0", "column1", "column2"]), lambda table: table
    )
    found = count(writer, pa.table({}), Question((Part("column2"),)))
    assert not isinstance(found, str), found
    assert found[("text", "x"),] == (2,)


@pytest.mark.statistical
@pytest.mark.parametrize("check", [check_alone, check_removal], ids=lambda check: check.__name__)
@pytest.mark.parametrize("several", [False, True], ids=["column", "several"])
def test_many_tables(check: object, several: bool) -> None:
    @examples(MANY, shrink=True)
    @given(case=cases(several=several), which=st.randoms())
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
