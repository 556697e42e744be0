"""Public lists: every spelling of the same list gives the same groups, and what is no list is refused before it is built."""

from __future__ import annotations

import datetime as dt
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dphist as dp
from dphist.cli.app import app
from dphist.run.public_keys import MOST_KEYS, columns_of, public_keys

GROUPS = {("DE", 2020), ("DE", 2021), ("FR", 2020), ("FR", 2021)}
TABLE = pa.table({"country": ["DE", "DE", "FR", "FR", "FR"], "year": [2020, 2021, 2020, 2021, 2021]})


def rows(source: object, *names: str) -> set[tuple[Any, ...]]:
    table = public_keys(source, names or None)
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def test_one_list_in_every_spelling(tmp_path: Path) -> None:
    pq.write_table(TABLE.append_column("other", pa.array(range(5))), tmp_path / "keys.parquet")
    spellings: list[object] = [
        {"country": ["DE", "FR", "DE"], "year": range(2020, 2022)},
        columns_of(["country=DE,FR", "year=2020..2021"]),
        TABLE,
        TABLE.to_pandas(),
        pl.from_arrow(TABLE),
        list(GROUPS),
        GROUPS,
        tmp_path / "keys.parquet",
        str(tmp_path / "keys.parquet"),
        f"SELECT DISTINCT country, year FROM '{tmp_path / 'keys.parquet'}'",
        f"  from '{tmp_path / 'keys.parquet'}' select year, country where other < 4",
    ]
    for spelling in spellings:
        assert rows(spelling, "country", "year") == GROUPS


def test_texts_stay_texts_in_files(tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text('country,year\nDE,2020\n"FR",\nDE,2020\nNA,01\n')
    assert rows(path, "country", "year") == {("DE", "2020"), ("FR", ""), ("NA", "01")}
    assert rows(path, "year") == {("2020",), ("",), ("01",)}
    path = tmp_path / "keys.txt"
    path.write_text("country\nDE\n\nDE\n")
    assert rows(path, "any") == {("country",), ("DE",)}
    (tmp_path / "empty.csv").write_text("country\n")
    with pytest.raises(dp.InvalidParameter, match="at least one public key"):
        public_keys(tmp_path / "empty.csv", ["country"])


def test_a_name_that_is_a_file_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "year=2020..2021").write_text("a\nb\nc\n")
    (tmp_path / "select * from x").write_text("a\n")
    assert len(rows("year=2020..2021")) == 3
    assert len(rows("select * from x")) == 1
    assert len(rows("year=2020..2022")) == 3


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1))
def test_a_product_has_every_combination_once(columns: dict[str, list[int]]) -> None:
    assert rows(columns, *columns) == set(product(*columns.values()))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("DE", ["DE"]),
        ('DE,"Bonn, old", CH', ["DE", "Bonn, old", "CH"]),
        ("7,8", ["7", "8"]),
        ("-2..1", [-2, -1, 0, 1]),
        ("1, 3..4", [1, 3, 4]),
        ("2024-02-28..2024-03-01", [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]),
        ("2023-12-31,2024-01-01..2024-01-01", [dt.date(2023, 12, 31), dt.date(2024, 1, 1)]),
        ("01..12", ["01..12"]),
        ("1.5..2", ["1.5..2"]),
        ("a=b", ["a=b"]),
    ],
)
def test_values_of_a_column(text: str, values: list[object]) -> None:
    assert columns_of([f"key={text}"]) == {"key": values}
    assert columns_of([f' "a ""b""" ={text}']) == {'a "b"': values}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("year=5..1", "from the smaller to the larger"),
        ("year=1..2,x", "whole numbers or days alone"),
        ("year=1..2,2024-01-01", "whole numbers or days alone"),
        ("day=2024-13-01..2024-12-01", "a day as YYYY-MM-DD"),
        ("year=0..99999999999", f"at most {MOST_KEYS:,}"),
        ("day=2024-01-01..2024-01-02,", "whole numbers or days alone"),
        ({"a": range(10**12)}, f"at most {MOST_KEYS:,} public keys, got 1,000,000,000,000"),
        ({name: range(400) for name in "abc"}, "got 64,000,000"),
        ({"a": iter(range(MOST_KEYS + 5))}, "got more"),
        ({"a": "DE"}, "a list of values for a"),
        ({"a": 5}, "a list of values for a"),
        ({1: ["a"]}, "columns with their values"),
        ({}, "columns with their values"),
        ({"a": [1, "x"]}, "of one type for a"),
        ({"a": []}, "at least one public key"),
        ([1, "x"], "of one type"),
        ([(1, 2), 3], "2 values each"),
        ([], "at least one public key"),
        (b"abc", "as a file, a query, a table or a list, got bytes"),
        ("no such file", "a readable list of keys"),
        ("x" * 5000, "a readable list of keys"),
        ("select a from nowhere", "Table with name nowhere does not exist"),
        ("select nonsense", 'Referenced column "nonsense"'),
        ("select ( from", "a query for public keys that can run"),
        ("select cast(x as int) from (values ('secret')) t(x)", "got ConversionException"),
        ("select 1; select 2", "one SELECT as public keys"),
        ("with x as (select 1) insert into y select * from x", "a query for public keys|one SELECT"),
        ("SELECT * FROM range(20000000)", "got more"),
        ("SELECT * FROM hidden", "Table with name hidden does not exist"),
    ],
)
def test_what_is_no_list_is_refused(source: object, message: str) -> None:
    hidden = TABLE  # a query sees tables of its own, never variables of the process
    assert hidden is TABLE
    with pytest.raises(dp.InvalidParameter, match=message) as caught:
        public_keys(source)
    assert "secret" not in str(caught.value)


def test_columns_are_named_once_and_fit_the_keys() -> None:
    for texts, message in ((["a=1", "a=2"], "a twice"), (["a=1", "keys.txt"], "one file or query, or several")):
        with pytest.raises(dp.InvalidParameter, match=message):
            columns_of(texts)
    for source in (TABLE, {"country": ["DE"]}, "country=DE"):
        with pytest.raises(dp.InvalidParameter, match=r"with the columns \['country', 'month'\]"):
            public_keys(source, ["country", "month"])


def test_plans_count_the_groups_of_a_list() -> None:
    lists: list[object] = [2, {"a": [1, 1], "b": (1, 2)}, ["x", "y", "y"], [(1, 2), (1, 3)], {"a", "b"}]
    for keys in lists:
        assert dp.plan(epsilon=1, delta=0, keys=keys).request.keys == 2
    for keys in (TABLE, TABLE.to_pandas(), pl.from_arrow(TABLE), "keys.csv", Path("keys.csv"), b"ab", 2.5):
        with pytest.raises(dp.InvalidParameter, match="as a list, a mapping or their number"):
            dp.plan(epsilon=1, delta=0, keys=keys)
    assert dp.plan(epsilon=1, delta=0, no_groups=True).request.keys == 1
    with pytest.raises(dp.InvalidParameter, match="no public list of keys without groups"):
        dp.plan(epsilon=1, delta=0, no_groups=True, keys=2)


def test_the_command_line_takes_lists_and_products(tmp_path: Path) -> None:
    """The header of a CSV file is no key."""
    (tmp_path / "keys.csv").write_text("country\nDE\nFR\n")
    for options, listed in (
        (["--keys", str(tmp_path / "keys.csv")], 2),
        (["--keys", "country=DE,FR", "--keys", "year=2020..2024"], 10),
        (["--keys", "VALUES (1), (2), (2)"], 2),
        (["--no-groups"], 1),
    ):
        ran = CliRunner().invoke(
            app, ["plan", "--epsilon", "1", "--delta", "0", *options, "--save", str(tmp_path / "p.json")]
        )
        assert ran.exit_code == 0, ran.output
        assert dp.Plan.load(tmp_path / "p.json").request.keys == listed
        (tmp_path / "p.json").unlink()
