"""Expressions: what is a pure function of a record gets through, everything else does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import duckdb
import pyarrow as pa
import pytest
from engine_oracle import ENGINES, Engine, every_engine, groups_of
from hypothesis import given
from hypothesis import strategies as st

import dphist as dp
from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.measures import Lattice
from dphist.columns import joined_name, quote_identifier, split_name, split_unit
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.parser import read_expression
from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.engines.spark.expressions import spark_expression
from dphist.errors import InvalidParameter

CONNECTION = duckdb.connect()

PURE = {
    "date_trunc('month', time)": ("time",),
    "extract(year FROM t)": ("t",),
    "a + 1 > 3 AND b IS NULL": ("a", "b"),
    "CASE WHEN a THEN 1 ELSE b END": ("a", "b"),
    "CAST(x AS DATE)": ("x",),
    "x::DECIMAL(3, 2)": ("x",),
    "s.field": ("s",),
    "l[1]": ("l",),
    "l[1:2]": ("l",),
    "x IN (1, 2)": ("x",),
    "x BETWEEN y AND 2": ("x", "y"),
    "x LIKE 'a%'": ("x",),
    "x + INTERVAL 1 MONTH": ("x",),
    "x AT TIME ZONE 'Europe/Berlin'": ("x",),
    "lpad(x, 5, '0')": ("x",),
    "split_part(url, '/', 3)": ("url",),
    "regexp_extract(x, '(a)', 1)": ("x",),
    "coalesce(x, 'none')": ("x",),
    "x -- only a comment": ("x",),
    '"a column; DROP TABLE"': ("a column; DROP TABLE",),
    "'a literal FROM record'": (),
    '"user"': ("user",),
    "user": ("user",),
}
REFUSED = {
    "(SELECT 1)": "a subquery",
    "x IN (SELECT y FROM record)": "a subquery",
    "EXISTS (SELECT 1)": "a subquery",
    "sum(x)": "the function sum",
    "count(*)": "the function count_star",
    "count(*) FILTER (WHERE x)": "count_star",
    "sum(DISTINCT x)": "the function sum",
    "lower(DISTINCT x)": "the clause of an aggregate",
    "list(x ORDER BY x)": "the function list",
    "row_number() OVER ()": "a window",
    "lag(x) OVER (ORDER BY y)": "a window",
    "random()": "the function random",
    "now()": "the function now",
    "uuid()": "the function uuid",
    "gen_random_uuid()": "gen_random_uuid",
    "nextval('s')": "the function nextval",
    "getenv('HOME')": "the function getenv",
    "current_setting('threads')": "current_setting",
    "getvariable('x')": "getvariable",
    "read_text('/etc/passwd')": "read_text",
    "glob('*')": "glob",
    "error('x')": "the function error",
    "unnest(l)": "the function unnest",
    "no_such_function(x)": "no_such_function",
    "main.lower(x)": "with a schema",
    "repeat('x', n)": "the function repeat",
    "range(n)": "the function range",
    "*": "a star",
    "COLUMNS('a.*')": "a star",
    "?": "a parameter",
    "$name": "a parameter",
    "x COLLATE NOCASE": "a collation",
    "list_transform(l, lambda y: y)": "the function list_transform",
    "lower(lambda y: y)": "a lambda",
    "l -> 'a'": "a lambda or an arrow",
    "GROUPING(x)": "the operator grouping",
    "datetrunk('day', x)": "did you mean datetrunc or date_trunc",
    "printf('%*d', n, 1)": "the function printf",
    "damerau_levenshtein(x, y)": "docs/expressions.md",
    "json_contains(x, y)": "the function json_contains",
    "{'a': x}": "the function struct_pack with a named argument",
}
NOT_ONE = ["", " ", "x, y", "x FROM y", "x; SELECT 1", "x) FROM (SELECT 1", "x WHERE y", "x FROM record LIMIT 1", "x;"]
NOT_ONE += ["(", "'", "x FROM record UNION SELECT 1", "x FROM record, other", "DISTINCT x", "x FROM record GROUP BY x"]


@pytest.mark.parametrize("text", PURE)
def test_pure_expressions(text: str) -> None:
    assert read_expression(text).columns == PURE[text]


@pytest.mark.parametrize("text", REFUSED)
def test_refused_expressions(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_expression(text)
    assert REFUSED[text] in str(caught.value)


@pytest.mark.parametrize("text", NOT_ONE)
def test_more_or_less_than_one_expression(text: str) -> None:
    with pytest.raises(InvalidParameter, match="Expected one SQL expression"):
        read_expression(text)


def test_no_volatile_function_of_the_catalogue_gets_through() -> None:
    unsafe = CONNECTION.execute(
        """SELECT DISTINCT function_name FROM duckdb_functions()
           WHERE function_type IN ('table', 'table_macro', 'pragma') OR stability <> 'CONSISTENT'"""
    ).fetchall()
    assert len(unsafe) > 100
    for (name,) in unsafe:
        if not name.isidentifier():
            continue
        with pytest.raises(InvalidParameter):
            read_expression(f'"{name}"(x)')


MAKERS = [
    "to_timestamp(n)", "to_timestamp(n / 1e6)", "make_timestamp(n)", "epoch_ms(n)", "make_timestamp_ms(n)",
    "make_timestamp(n, 1, 1, 0, 0, 0)", "make_date(n, 1, 1)",
    "DATE '2000-01-01' + CAST(n AS INTEGER)", "TIMESTAMP '1970-01-01' + to_microseconds(n)",
    "TIMESTAMP '1970-01-01' - to_hours(n)", "DATE '1970-01-01' + to_days(CAST(n AS INTEGER))",
    "CAST(make_timestamp(n) AS DATE)", "date_trunc('week', make_timestamp(n))",
    "CAST(CAST(n AS VARCHAR) || '-01-01' AS TIMESTAMP)",
]  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_no_number_ends_a_run_when_it_is_made_a_time_and_written_as_text(maker: str) -> None:
    """DuckDB fails, even inside TRY, when it writes a time of the years before -290308 that some functions make."""
    edges = (2**63 - 1, 9223372022400000000, 9223372030000000000, 9223372036854775, 2**31, 290308, 5881580)
    numbers = [sign * edge + by for edge in edges for sign in (1, -1) for by in (-1, 0, 1)]
    table = pa.table({"user": range(len(numbers)), "n": [max(-(2**63), min(2**63 - 1, n)) for n in numbers]})
    uses = ("CAST({} AS VARCHAR)", "concat({}, '')", "strftime({}, '%Y')", "{}")
    keys = tuple(parse_key(f"key_{place}={use.format(maker)}") for place, use in enumerate(uses))
    found = DuckDBEngine().histogram(table, GroupByQuery("user", keys), ContributionBounds(1))
    assert found.counts.sum() == len(numbers)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("lower(n)", "lower of the type BIGINT"),
        ("lpad(x, n, '0')", "lpad with an argument that is not a literal"),
        ("time AT TIME ZONE x", "timezone with an argument that is not a literal"),
        ("age(time)", "age with 1 arguments"),
        ("CAST(s AS VARCHAR)", "a cast from STRUCT"),
        ("CAST(x AS JSON)", "a cast to JSON"),
        ("s = s", "a comparison of the type STRUCT"),
        ("x.y", "a field of something that has none"),
        ("regexp_matches(x, x)", "regexp_matches with an argument that is not a literal"),
        ("CAST('soon' AS DATE)", "CAST('soon' AS DATE)"),
    ],
)
def test_functions_are_refused_by_the_types_of_their_arguments(text: str, got: str) -> None:
    schema = pa.schema([("user", pa.int64()), ("n", pa.int64()), ("x", pa.string()), ("time", pa.timestamp("us"))])
    table = schema.append(pa.field("s", pa.struct([("a", pa.string())]))).empty_table()
    with pytest.raises(InvalidParameter) as caught:
        DuckDBEngine().explain(GroupByQuery("user", (Key("k", text),)), ContributionBounds(1), table)
    assert f"got {got}" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["x < 'nan'", "x = CAST('NaN' AS DOUBLE)", "x IN ('nan', '7')", "x BETWEEN 0 AND 'NaN'"]
)
def test_nan_is_null_in_literals_too(text: str) -> None:
    table = pa.table({"user": [1, 2], "x": [1.0, float("nan")]})
    query = GroupByQuery("user", (Key("user"),), where=text)
    assert groups_of(DuckDBEngine().histogram(table, query, ContributionBounds(1))) == {}


def test_deep_expressions_are_linear_in_their_depth() -> None:
    """A guard mentions its argument more than once: written in place, each level would double the text."""
    table = pa.table({"user": [1, 2], "x": ["a", "b" * 60_000]})

    def text(levels: int) -> str:
        return "x" + " || 'y'" * levels

    lengths = [
        len(DuckDBEngine().explain(GroupByQuery("user", (Key("k", text(n)),)), ContributionBounds(1), table).split())
        for n in (8, 16, 24)
    ]
    assert lengths[2] - lengths[1] < 1.2 * (lengths[1] - lengths[0])
    got = groups_of(DuckDBEngine().histogram(table, GroupByQuery("user", (Key("k", text(20)),)), ContributionBounds(1)))
    assert got == {("a" + "y" * 20,): (1,), ("b" * 60_000 + "y" * 20,): (1,)}


@pytest.mark.parametrize("levels", [150, 210, 250, 330, 500])
def test_a_deep_expression_is_written_or_refused(levels: int) -> None:
    """Whoever runs out of stack first, the reader or a writer, says so."""
    table = pa.table({"user": [1]})
    for text in ("1" + " + 1" * levels, "CASE WHEN TRUE THEN " * levels + "1" + " END" * levels):
        query = GroupByQuery("user", (Key("k", text),))
        here = partial(DuckDBEngine().explain, query, ContributionBounds(1), table)
        there = partial(lambda text: spark_expression(read_expression(text), str, lambda sql: "int"), text)
        for write in (here, there):
            try:
                assert write()
            except InvalidParameter as problem:
                assert problem.expected == "an expression that is not so deep"  # noqa: PT017


@every_engine
def test_an_error_in_one_record_is_a_null(engine: Engine) -> None:
    table = pa.table({"user": [1, 2, 3, 4], "x": ["1", "zero", "0", "9223372036854775807"]})
    keys = (Key("a", "CAST(x AS BIGINT)"), Key("b", "CAST(x AS BIGINT) + 1"), Key("c", "6 // CAST(x AS BIGINT)"))
    got = groups_of(engine.histogram(table, GroupByQuery("user", keys), ContributionBounds(1)))
    want = [(1, 2, 6), (None, None, None), (0, 1, None), (2**63 - 1, None, 0)]
    assert got == dict.fromkeys(want, (1,))
    query = GroupByQuery("user", (Key("user"),), where="CAST(x AS BIGINT) > 0")
    assert groups_of(engine.histogram(table, query, ContributionBounds(1))) == {(1,): (1,), (4,): (1,)}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("country", Key("country")),
        ("month=date_trunc('month', time)", Key("month", "date_trunc('month', time)")),
        (' "my month" = x=1 ', Key("my month", "x=1")),
        ('"a""b"=c', Key('a"b', "c")),
        ('k="a=b"', Key("k", '"a=b"')),
        ("ä=1", Key("ä", "1")),
        ("a b", Key("a b")),
        ("x==1", Key("x==1")),
        ("weird column = y", Key("weird column = y")),
    ],
)
def test_parsing_keys(text: str, key: Key) -> None:
    assert parse_key(text) == key


@given(
    st.text(min_size=1),
    st.none() | st.text(min_size=1).filter(lambda text: text.strip() == text != "" and text[0] != "="),
)
def test_a_name_and_its_expression_are_joined_as_they_are_split(name: str, expression: str | None) -> None:
    text = joined_name(name, expression)
    assert split_name(text) in (
        (name, expression),
        (name, quote_identifier(name) if expression is None else expression),
    )
    assert split_unit(joined_name(name, None, unit=True)) in ((name, None), (name, quote_identifier(name)))


def test_queries_are_checked() -> None:
    measure = RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5))
    wrong: list[Callable[[], object]] = [
        lambda: GroupByQuery("", (Key("a"),)),
        lambda: GroupByQuery("u", ()),
        lambda: GroupByQuery("u", (Key("a"), Key("a", "b"))),
        lambda: GroupByQuery("u", (Key("a"),), (measure, measure)),
        lambda: GroupByQuery("u", (Key("a"),), where=" "),
        lambda: GroupByQuery("u", (Key("a"),), null_keys="maybe"),  # type: ignore[arg-type]
        lambda: GroupByQuery("u", (Key("a"),), public_keys=pa.table({"b": [1]})),
        lambda: Key(""),
        lambda: Key("a", " "),
    ]
    for build in wrong:
        with pytest.raises(InvalidParameter):
            build()


@pytest.mark.parametrize(
    ("keys", "failed"),
    [
        (["CASE WHEN CAST(text AS INTEGER) > 1 THEN CAST(text AS INTEGER) ELSE 0 END"], [0]),  # null is not above 1
        (["CAST(text AS INTEGER) + 1", "CAST(text AS INTEGER) + 2"], [None, None]),
        (["coalesce(CAST(text AS INTEGER), -1)"], [-1]),
    ],
)
def test_what_expressions_share_fails_on_its_record_and_step_alone(keys: list[str], failed: list[int | None]) -> None:
    """DuckDB would compute the cast once for both, outside of their TRY, and one record would end the run."""
    table = pa.table({"user": [1, 2, 3], "text": ["1", "2", "alice"]})
    query = GroupByQuery("user", tuple(Key(f"k{i}", text) for i, text in enumerate(keys)))
    found = DuckDBEngine().histogram(table, query, ContributionBounds(1))
    assert found.counts.sum() == 3
    assert dict(zip(found.keys.column_names, failed, strict=True)) in found.keys.to_pylist()


PLACES = {
    "amount >": (8, "Expected one SQL expression", "amount >\n        ^"),
    "a b c": (4, "which is none at character 5", "a b c\n    ^"),
    "amount > 50": (0, "write CAST(amount AS DOUBLE)", "amount > 50\n^^^^^^^^^^^"),
    "n > 1 AND\n  50 < amount": (12, "--type amount=double", "  50 < amount\n  ^^^^^^^^^^^"),
    "n > 1 AND amount * 2 > 3": (
        10,
        "* of the type VARCHAR at character 11",
        "n > 1 AND amount * 2 > 3\n          ^^^^^^^^^^",
    ),
    "n BETWEEN amount AND 7": (0, "text beside a number", None),
    "amount IN (1, 2)": (0, "CAST(amount AS DOUBLE)", None),
    "'ä' = amount AND luower(amount) = 'x'": (
        17,
        "did you mean lower",
        "'ä' = amount AND luower(amount) = 'x'\n" + " " * 17 + "^^^^^^",
    ),
    "n = 1 AND amuont = '5'": (10, "did you mean 'amount'", "n = 1 AND amuont = '5'\n          ^^^^^^"),
    "CASE WHEN n > 1 THEN amount ELSE now() END = 'x'": (33, "the function now", None),
}


@every_engine
@pytest.mark.parametrize("text", PLACES)
def test_a_wrong_expression_is_shown_with_its_place(engine: Engine, text: str) -> None:
    place, words, pointer = PLACES[text]
    source = pa.table({"user": [1], "n": [1], "amount": ["7"]})
    with pytest.raises(InvalidParameter) as caught:
        engine.explain(GroupByQuery("user", (Key("n"),), where=text), ContributionBounds(1), source)
    told = str(caught.value)
    assert f"at character {place + 1}." in told or (place == len(text) and "at the end." in told)
    if engine is ENGINES["duckdb"] or "*" not in text:
        assert words in told
    assert pointer in (None, caught.value.pointer)
    assert "Error" not in told


WRONG_TYPES = [
    "CASE WHEN n > 1 THEN d ELSE n END = 1",
    "coalesce(n, d) = 1",
    "d + d > 1",
    "if(n > 1, d, n) = 1",
    "d > 5",
]
WRONG_WORDS = ["n = ANY (1)", "n > ", "d = 'never'", "(n", "n)", "n ? 1", "n -> 'a'", "\x00", "n = 1e", "x'zz' = n"]


@pytest.mark.parametrize("text", [*WRONG_TYPES, *WRONG_WORDS])
def test_no_words_of_the_engine_reach_the_user(text: str) -> None:
    """They may quote what nobody has looked at, and nobody knows them."""
    source = pa.schema([("user", pa.int64()), ("n", pa.int64()), ("d", pa.date32())]).empty_table()
    with pytest.raises(InvalidParameter) as caught:
        DuckDBEngine().explain(GroupByQuery("user", (Key("n"),), where=text), ContributionBounds(1), source)
    assert not [word for word in ("Error", "Candidate", "LINE 1", "Binder", "HINT") if word in str(caught.value)]


def test_a_column_of_a_statistic_has_no_place() -> None:
    """The expression around it is not the user's."""
    with pytest.raises(InvalidParameter, match=r"got 'amuont'. Hint: did you mean 'amount'\?"):
        dp.stat(
            "median", pa.table({"u": [1], "amount": [2.0]}), unit="u", column="amuont", lower=0, upper=1, error=0.1,
            epsilon=1, delta=1e-6,
        )  # fmt: skip
