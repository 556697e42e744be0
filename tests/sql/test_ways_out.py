"""What a refusal tells to write instead, written: it runs. And what no longer needs another way."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.ledger import DataSet, Ledger

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 5, delta = 1e-6)"
BOUNDED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 5, delta = 1e-6, max_groups_contributed = 1)"
LONG = 2**53
PEOPLE = 600


def refusal(con: dp.Connection, statement: str) -> dp.InvalidParameter:
    with pytest.raises(dp.InvalidParameter) as caught:
        con.prepare(statement).check()
    return caught.value


def units(first: pa.DataType, second: pa.DataType) -> dict[str, pa.Table]:
    """Two tables of the same people, whose numbers have other types."""
    people = list(range(PEOPLE))
    return {
        "a": pa.table({"u": pa.array(people, pa.int64()).cast(first), "k": ["x"] * PEOPLE}),
        "b": pa.table({"u": pa.array(people, pa.int64()).cast(second), "k": ["x"] * PEOPLE}),
    }


@pytest.mark.parametrize("kinds", [(pa.int32(), pa.int64()), (pa.int64(), pa.uint16()), (pa.uint32(), pa.int16())])
@pytest.mark.parametrize(
    "rows",
    [
        "a JOIN b USING (u)",
        "a, b WHERE a.u = b.u",
        "a WHERE u IN (SELECT u FROM b)",
        "(SELECT u FROM a UNION DISTINCT SELECT u FROM b)",
    ],
)
def test_units_of_two_whole_types_are_one(rows: str, kinds: tuple[pa.DataType, pa.DataType]) -> None:
    answer = dp.connect(units(*kinds), unit="u").sql(f"{CLAUSE} COUNT(*) AS n FROM {rows}")
    (n,) = answer.table.column("n").to_pylist()
    assert n == pytest.approx(PEOPLE, abs=30)


def test_long_units_of_two_types_stay_apart() -> None:
    """As doubles, two of three whole numbers beyond 2^53 would be one."""
    tables = {
        "a": pa.table({"u": pa.array(range(LONG, LONG + PEOPLE), pa.int64())}),
        "b": pa.table({"u": pa.array(range(PEOPLE), pa.int32())}),
    }
    union = "SELECT u FROM a UNION DISTINCT SELECT u FROM b"
    (n,) = dp.connect(tables, unit="u").sql(f"{CLAUSE} COUNT(*) AS n FROM ({union})").table.column("n").to_pylist()
    assert n == pytest.approx(2 * PEOPLE, abs=30)


def test_units_of_other_types_are_declared_as_text() -> None:
    tables = units(pa.int64(), pa.string())
    joined = f"{CLAUSE} COUNT(*) AS n FROM a JOIN b USING ({{}})"
    problem = refusal(dp.connect(tables, unit="u"), joined.format("u"))
    found = re.search(r"(person)=CAST\(u AS VARCHAR\); and compare that: USING \(person\)", problem.hint)
    assert found, problem.hint
    declared = dict.fromkeys(tables, "person=CAST(u AS VARCHAR)")
    (n,) = dp.connect(tables, unit=declared).sql(joined.format("person")).table.column("n").to_pylist()
    assert n == pytest.approx(PEOPLE, abs=30)


def test_columns_that_differ_in_case_are_named(tmp_path: Path) -> None:
    table = pa.table({"u": [1, 2], "Key": ["a", "b"], "key": ["a", "b"]})
    with pytest.raises(dp.InvalidParameter, match=r"differ in more than case, got Key, key\. Hint: rename one"):
        dp.release(table, unit="u", by="key", epsilon=1, delta=1e-6)
    pq.write_table(table, tmp_path / "t.parquet")
    problem = refusal(
        dp.connect({"t": tmp_path / "t.parquet"}, unit="u"), f"{CLAUSE} key, COUNT(*) AS n FROM t GROUP BY key"
    )
    assert "two columns differ in case at most" in problem.hint


@pytest.mark.parametrize("name", ["a.b", "`a.b`", "t.`a.b`", "t.a.b"])
def test_a_column_may_have_a_dot_in_its_name(name: str) -> None:
    con = dp.connect({"t": pa.table({"p.u": list(range(PEOPLE)), "a.b": ["x"] * PEOPLE})})
    clause = CLAUSE.replace(")", ", privacy_unit_column = `p.u`)")
    answer = con.sql(f"{clause} {name} AS key, COUNT(DISTINCT p.u) AS n FROM t GROUP BY key")
    assert answer.table.column("key").to_pylist() == ["x"]
    assert answer.releases[0].selection.unit == "p.u"


def test_a_field_comes_before_a_name_with_a_dot() -> None:
    """Both are there: the unit is the field, as everywhere in the statement."""
    people = [{"u": number % 7} for number in range(PEOPLE)]
    con = dp.connect({"t": pa.table({"p": people, "p.u": list(range(PEOPLE))})})
    script = con.prepare(f"{CLAUSE.replace(')', ', privacy_unit_column = p.u)')} COUNT(DISTINCT p.u) AS n FROM t")
    assert script.jobs[0].selection.unit == '"p.u"="p"."u"'


def test_what_last_day_tells_to_write_runs() -> None:
    con = dp.connect(
        {"t": pa.table({"u": list(range(PEOPLE)), "d": pa.array([19_000] * PEOPLE, pa.date32())})}, unit="u"
    )
    for unit in ("WEEK", "WEEK(MONDAY)", "ISOWEEK", "QUARTER", "YEAR"):
        statement = f"{BOUNDED} {{}} AS day, COUNT(*) AS n FROM t GROUP BY day"
        found = re.search(
            r"write (DATE_SUB.*), with your date", refusal(con, statement.format(f"LAST_DAY(d, {unit})")).hint
        )
        assert found
        assert con.sql(statement.format(found[1])).table.num_rows == 1


@pytest.mark.parametrize(
    ("condition", "marked"),
    [
        ("d > DATE '2001-01-01' AND u LIKE '1%'", "u LIKE '1%'"),
        ("NOT (LOWER(k) LIKE 'x' OR d LIKE '2022%')", "NOT (LOWER(k) LIKE 'x' OR d LIKE '2022%')"),
        ("k = 'y' OR LAST_DAY(k) > d", "k = 'y' OR LAST_DAY(k) > d"),
    ],
)
@pytest.mark.parametrize("rows", ["t WHERE {}", "(SELECT u FROM t WHERE {})"])
def test_a_function_of_another_type_is_shown_in_the_statement_with_its_cast(
    rows: str, condition: str, marked: str
) -> None:
    people = {"u": list(range(PEOPLE)), "d": pa.array([19_000] * PEOPLE, pa.date32()), "k": ["x"] * PEOPLE}
    con = dp.connect({"t": pa.table(people)}, unit="u")
    statement = f"{CLAUSE} COUNT(*) AS n\nFROM {rows.format(condition)}"
    problem = refusal(con, statement)
    place, text, carets = problem.pointer.splitlines()
    assert place.startswith("line 2, column")
    assert text[carets.index("^") : carets.rindex("^") + 1] == marked
    assert not re.search("~~|character", str(problem))
    cast = re.search(r"write (CAST\((\w) AS \w+\))", problem.hint)
    assert cast, problem.hint
    spelled = re.sub(rf"\b{cast[2]}( LIKE|\) >)", rf"{cast[1]}\1", statement)
    assert con.sql(spelled).table.num_rows == 1


def test_a_failed_outer_query_says_where_the_private_tables_are(tmp_path: Path) -> None:
    """In Python at the error; a command has printed them by then. Neither says that nothing was published."""
    pq.write_table(pa.table({"u": list(range(PEOPLE)), "k": ["x"] * PEOPLE}), tmp_path / "t.parquet")
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("d", 20, 1e-3, "u", "basic"))
    statement = f"SELECT CAST(k AS INT64) AS k FROM ({BOUNDED} k, COUNT(*) AS n FROM t GROUP BY k)"
    con = dp.connect({"t": tmp_path / "t.parquet"}, unit="u", ledger=tmp_path / "l.db", dataset="d")
    with pytest.raises(
        dp.InvalidParameter, match=r"the error has them as `releases`.*may be published; another"
    ) as caught:
        con.sql(statement)
    assert "Nothing was published" not in str(caught.value)
    ledger = ["--ledger", "l.db", "--dataset", "d"]
    done = dphist("sql", statement, "--table", "t.parquet", "--unit", "u", *ledger, cwd=tmp_path)
    assert "which is paid for and may be published" in done.stdout
    assert "not lost: they are printed." in done.stderr
    assert "What was printed may be published" in done.stderr
    assert "releases" not in done.stderr


def test_one_file_that_is_private_and_public_is_doubtful(tmp_path: Path) -> None:
    pq.write_table(table := pa.table({"u": [1], "k": ["x"]}), tmp_path / "t.parquet")
    (tmp_path / "also.parquet").symlink_to(tmp_path / "t.parquet")
    twice = [
        {"a": tmp_path / "t.parquet", "b": dp.public(tmp_path / "also.parquet")},
        {"a": str(tmp_path / "*.parquet"), "b": dp.public(tmp_path / "t.parquet")},
        {"a": tmp_path, "b": dp.public(dp.Files((tmp_path / "t.parquet",)))},
        {"a": table, "b": dp.public(table)},
    ]
    for tables in twice:
        with pytest.warns(UserWarning, match="'b' is public, and 'a' reads the same records as private"):
            dp.connect(tables, unit="u")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp.connect({"a": tmp_path / "t.parquet", "b": dp.public(table), "c": tmp_path / "also.parquet"}, unit="u")
    words = [
        f"{CLAUSE} COUNT(*) AS n FROM t",
        "--table",
        "t.parquet",
        "--public",
        "b=also.parquet",
        "--unit",
        "u",
        "--dry-run",
    ]
    assert dphist("sql", *words, cwd=tmp_path).stderr.startswith(
        "Warning: 'b' is public, and 't' reads the same records"
    )


def test_one_file_with_two_units_of_one_name_is_doubtful(tmp_path: Path) -> None:
    """The second protects an item: what it costs is no person's."""
    pq.write_table(table := pa.table({"id": [1], "item": [7], "k": ["x"]}), tmp_path / "t.parquet")
    (tmp_path / "also.parquet").symlink_to(tmp_path / "t.parquet")
    units = {"a": "id", "b": "id=CAST(item AS VARCHAR)"}
    for tables in ({"a": tmp_path / "t.parquet", "b": tmp_path / "also.parquet"}, {"a": table, "b": table}):
        with pytest.warns(UserWarning, match="'a' and 'b' read the same records, whose unit is 'id' here and 'id=CAST"):
            dp.connect(tables, unit=units)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dp.connect({"a": table, "b": table}, unit={"a": "id", "b": "id"})
        dp.connect({"a": table, "b": table}, unit={"a": "id", "b": "item"})  # names that differ are told apart
        dp.connect({"a": table, "b": pa.table(table)}, unit=units)
    words = [
        "--table",
        "a=t.parquet",
        "--table",
        "b=also.parquet",
        "--unit",
        "a=id",
        "--unit",
        f"b={units['b']}",
        "--dry-run",
    ]
    done = dphist("sql", f"{CLAUSE} COUNT(*) AS n FROM a", *words, cwd=tmp_path)
    assert done.stderr.startswith("Warning: 'a' and 'b' read the same records"), done.stderr
