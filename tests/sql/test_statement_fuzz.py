"""Nothing of a statement reaches an engine unchecked: names, texts, comments and numbers are filled with hostile texts.

What DuckDB gets is one statement each, over tables of ours, with files of the tables alone. A text arrives as the value that it
has in GoogleSQL; an expression has the columns that sqlglot sees in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from small_tables import plans_made_once
from sqlglot import exp
from watched import NotOurs, Watch, nodes_of, tree_of, watched

import dphist as dp
from dphist.engines.query import PerformanceSettings
from dphist.errors import InvalidParameter
from dphist.run.strategies import bounds_of
from dphist.sql.from_clause import Relating
from dphist.sql.names import Table
from dphist.sql.parse import parse

HOSTILE = (
    "'", '"', "`", "\\", "\\'", '\\"', "''", '""', "'''", '"""', "a'b", 'a"b', "a`b", "a\\", "\\\\'",
    "'; DROP TABLE events; --", "' OR 1=1 --", "') UNION ALL SELECT * FROM events --", "/* */", "*/ ; /*", "--", "# x",
    "$$", "$$; $$", "$a$", "{{ x }}", "@x", "?", ":x", "\\x27", "\\u0027", "\\047", "\\n", "\n", "\t", "\r\n", ";", "%", "_",
    "read_csv('/etc/passwd')", "SELECT", "from", "null", "events", "source", "‘", "’", "＇", "\u02bc", "é", "é",
    "\u202e", "\u200b", "😀", "a" * 3000, "x' || (SELECT 1) || '", "0x27", "E'\\''", "r'", "b'", "U&'\\0027'",
)  # fmt: skip
texts = st.sampled_from(HOSTILE) | st.text(st.sampled_from("'\"`\\;-/*$#ab \n%xun0"), min_size=1, max_size=8)
EXAMPLES = int(os.environ.get("DPHIST_FUZZ_EXAMPLES", "2"))
few = settings(max_examples=EXAMPLES, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1) "


@pytest.fixture(scope="module", autouse=True)
def quick() -> Any:
    with plans_made_once():
        yield


def escaped(value: str, quote: str) -> str:
    """A text of GoogleSQL with backslashes before what would end it."""
    signs = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", quote[0]: f"\\{quote[0]}"}
    return f"{quote}{''.join(signs.get(letter, letter) for letter in value)}{quote}"


def raw(value: str, quote: str) -> str:
    """A raw text, if it can be one."""
    possible = quote[0] not in value and not value.endswith("\\") and "\n" not in value and "\r" not in value
    return f"r{quote}{value}{quote}" if possible else escaped(value, quote)


SPELLINGS = [(escaped, "'"), (escaped, '"""'), (raw, '"'), (raw, "'''")]
spellings = st.sampled_from(SPELLINGS)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n").replace("\r", "\\r") + "`"


def counted(tables: dict[str, Any], statement: str) -> dict[tuple[Any, ...], int]:
    """The groups of a statement without noise, and how many units each has."""
    connection = dp.connect(tables=tables, unit="user_id", settings=PerformanceSettings(threads=1))
    (job,) = connection.prepare(statement).jobs
    found = job.engine.histogram(job.source, job.query, bounds_of(job.plan), seed=3)
    return dict(
        zip(zip(*(one.to_pylist() for one in found.keys.columns), strict=True), found.counts.tolist(), strict=True)
    )


def events(*urls: str) -> pa.Table:
    return pa.table({"user_id": pa.array(range(len(urls)), pa.int64()), "url": pa.array(urls, pa.string())})


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda one: f"{one[0].__name__} {one[1]}")
def test_every_hostile_text_arrives_as_the_value_that_it_is(spelling: Any) -> None:
    form, quote = spelling
    values = list(dict.fromkeys(HOSTILE))
    decoys = {f"{value}{more}" for value in values for more in ("x", "'", "\\", " ")} - set(values)
    listed = ", ".join(form(value, quote) for value in values)
    statement = f"{CLAUSE} url, COUNT(*) AS n FROM events WHERE url IN ({listed}) GROUP BY url"
    with watched():
        found = counted({"events": events(*values, *decoys)}, statement)
    assert found == {(value,): 1 for value in values}


ESCAPES = {
    r"'\x27'": "'", r"'\u0027'": "'", r"'\047'": "'", r"'\U0001F600'": "😀", r"'\a'": "\a", r"'\?'": "?", r"'\\x27'": "\\x27",
    r"r'\x27'": "\\x27", "'''a\nb'''": "a\nb", r"'\''": "'", r"'\`'": "`", r'"\""': '"', r"'\t'": "\t",
}  # fmt: skip


def test_escapes_are_those_of_googlesql() -> None:
    table = events(*{*ESCAPES.values(), "x27", "u0027", "\\u0027", "047", "\\a", "a", "t", "\\t", "\\"})
    for text, value in ESCAPES.items():
        (node,) = parse(f"SELECT {text} AS k")
        assert node.expressions[0].this.this == value, text
    statement = f"{CLAUSE} url, COUNT(*) AS n FROM events WHERE url IN ({', '.join(ESCAPES)}) GROUP BY url"
    with watched():
        assert counted({"events": table}, statement) == {(value,): 1 for value in ESCAPES.values()}


@few
@given(texts, spellings)
def test_a_text_arrives_as_the_value_that_it_is(value: str, spelling: Any) -> None:
    form, quote = spelling
    others = ["other", f"{value}x", f"x{value}", value.replace("\\", ""), value.replace("'", "")]
    table = events(value, *[one for one in others if one != value])
    with watched() as watch:
        found = counted(
            {"events": table}, f"{CLAUSE} url, COUNT(*) AS n FROM events WHERE url = {form(value, quote)} GROUP BY url"
        )
    assert found == {(value,): 1}
    assert watch.texts


@few
@given(texts)
def test_a_text_in_a_subquery_a_list_and_an_answer_arrives_as_it_is(value: str) -> None:
    text = escaped(value, "'")
    pattern = escaped(value.replace("\\", "_"), "'")  # a backslash means more in a pattern than in a text
    inner = f"SELECT user_id, CONCAT({text}, url) AS k FROM events WHERE url IN ({text}, 'a') OR url LIKE {pattern}"
    with watched():
        found = counted({"events": events(value, "a", "b")}, f"{CLAUSE} k, COUNT(*) AS n FROM ({inner}) GROUP BY k")
    assert {(value + value,), (f"{value}a",)} <= set(found)
    with watched():
        connection = dp.connect(tables={"events": events("a")}, unit="user_id")
        script = connection.prepare(f"SELECT {text} AS t, n FROM ({CLAUSE} COUNT(DISTINCT user_id) AS n FROM events)")
        (answer,) = script.run()
    assert answer.table.column("t").to_pylist() == [value]


@few
@given(
    st.lists(
        texts.filter(lambda name: "\0" not in name and name.strip()), min_size=2, max_size=2, unique_by=str.casefold
    )
)
def test_a_name_is_the_column_of_that_name_or_is_refused(names: list[str]) -> None:
    one, other = (name[:200] for name in names)
    if one.casefold() == other.casefold() or "user_id" in (one, other):
        return
    table = pa.table({"user_id": [1, 2], one: ["x", "x"], other: ["y", "z"]})
    statement = f"{CLAUSE} {quoted(one)} AS k, COUNT(*) AS n FROM events AS e WHERE e.{quoted(other)} = 'y' GROUP BY k"
    inner = f"SELECT user_id, {quoted(one)} AS k FROM events WHERE {quoted(other)} = 'y'"
    nested = f"{CLAUSE} k, COUNT(*) AS n FROM ({inner}) GROUP BY k"
    for text in (statement, nested):
        with watched():
            try:
                found = counted({"events": table}, text)
            except InvalidParameter:
                continue
        assert found == {("x",): 1}


@few
@given(texts, texts)
def test_an_alias_and_a_comment_change_nothing(alias: str, comment: str) -> None:
    inside = comment.replace("*/", "* /").replace("\n", " ").replace("\r", " ")
    plain = f"{CLAUSE} url AS k, COUNT(*) AS n FROM events GROUP BY k"
    noted = (
        f"{CLAUSE} url AS {quoted(alias)}, /* {inside} */ COUNT(*) AS n -- {inside}\nFROM events # {inside}\nGROUP BY 1"
    )
    table = {"events": events("a", "b", "a")}
    with watched():
        try:
            found = counted(table, noted)
        except InvalidParameter:
            return
    assert found == counted(table, plain)


PLACES = (
    "{} AS k, COUNT(*) AS n FROM events GROUP BY k",
    "url, COUNT(*) AS n FROM events WHERE {} GROUP BY url",
    "url, COUNT(*) AS n FROM {} GROUP BY url",
    "url, SUM({}) AS n FROM events GROUP BY url",
    "url, COUNT(*) AS n FROM events GROUP BY {}",
    "url, COUNT(*) AS n FROM events GROUP BY url LIMIT {}",
    "url, SUM(user_id, contribution_bounds_per_group => ({}, 1)) AS n FROM events GROUP BY url",
    "url, COUNT(*) AS n FROM events AS {} GROUP BY url",
    "url, COUNT(*) AS n FROM events GROUP BY url {}",
    "{}",
)


@settings(few, max_examples=8 * EXAMPLES)
@given(texts, st.sampled_from(PLACES))
def test_a_hostile_text_in_any_place_is_refused_or_runs_as_one_statement_over_our_tables(text: str, place: str) -> None:
    with watched():
        try:
            script = dp.connect(tables={"events": events("a", "b")}, unit="user_id").prepare(
                CLAUSE + place.format(text)
            )
            script.check()
        except InvalidParameter:
            return
        script.run()


@pytest.mark.parametrize("number", ["1e5", ".5", "0x1F", "9" * 300, "1_000", "1e400", "1.e3"])
def test_a_number_is_refused_or_read_as_it_is(number: str) -> None:
    table = pa.table({"user_id": [1, 2, 3], "x": [1.0, 31.0, 1e6]})
    expected = {"1e5": 1, ".5": 3, "0x1F": 1, "1.e3": 1}
    with watched():
        try:
            found = counted(
                {"events": table}, f"{CLAUSE} 'all' AS k, COUNT(*) AS n FROM events WHERE x > {number} GROUP BY k"
            )
        except InvalidParameter:
            return
    assert sum(found.values()) == expected.get(number, 0)


def test_only_the_files_of_the_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s; -- "a" file.parquet'
    pq.write_table(events("a", "b"), path)
    statement = (
        f"{CLAUSE} a.url, COUNT(*) AS n FROM events AS a JOIN events AS b ON a.user_id = b.user_id GROUP BY a.url"
    )
    with watched(frozenset({str(path)})) as watch:
        assert counted({"events": str(path)}, statement) == {("a",): 1, ("b",): 1}
    assert any("read_parquet" in text for text in watch.texts)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('x')",
        "SELECT * FROM 'x.parquet'",
        "SELECT * FROM other",
        "ATTACH 'x'",
    ],
)
def test_the_watch_notices_what_must_not_run(text: str) -> None:
    with pytest.raises(NotOurs):
        Watch().see(text)


COLUMNS = ("a", "b", "A b", "select", "x;y", "'q'", 'd"q')
leaf = st.sampled_from([*(quoted(name) for name in COLUMNS), "1", "'a'", "NULL", "'\\'b'", '"c"'])
operators = st.sampled_from(
    [
        "({} + {})", "({} = {})", "CONCAT({}, {})", "COALESCE({}, {})", "IF({} IS NULL, {}, 'z')", "(NOT {} AND {})",
        "({} IN ({}, 2))", "CASE {} WHEN {} THEN 1 END", "SUBSTR({}, 1, LENGTH({}))", "(CAST({} AS STRING) || {})",
        "({} BETWEEN {} AND 3)", "STARTS_WITH({}, {})", "(DATE_TRUNC({}, MONTH) = {})", "(SAFE_CAST({} AS INT64) > {})",
        "({} LIKE {})", "(EXTRACT(YEAR FROM {}) = {})", "[{}, {}][OFFSET(0)]",
    ]
)  # fmt: skip
expressions = st.recursive(
    leaf,
    lambda inner: st.builds(lambda form, one, other: form.format(one, other), operators, inner, inner),
    max_leaves=6,
)


@settings(few, max_examples=30 * EXAMPLES)
@given(expressions)
def test_sqlglot_and_duckdb_see_the_same_columns_in_an_expression(text: str) -> None:
    statement = f"SELECT {text} AS k FROM t"
    tables = {"t": Table("t", None, public=True)}
    relating = Relating(statement, tables, columns_of=lambda _: COLUMNS)
    try:
        select = parse(statement)[0]
        assert isinstance(select, exp.Select)
        written = relating.expression(select.expressions[0].this, relating.rows_of(select, {})).text
    except InvalidParameter:
        return
    named = {one.name.casefold() for one in select.expressions[0].this.find_all(exp.Column)}
    nodes = nodes_of(tree_of(f"SELECT {written}"))
    assert {one["column_names"][-1].casefold() for one in nodes if one.get("class") == "COLUMN_REF"} == named
    event("compared")
