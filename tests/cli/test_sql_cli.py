"""`dphist sql` with a statement: where it comes from, which tables it names, what is printed, written, charged and refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import Done, dphist
from dphist.cli.sql import read_query
from dphist.cli.tables import tables_of, units_of
from dphist.engines.source import Files
from dphist.errors import InvalidParameter
from dphist.ledger import DataSet, Ledger

PEOPLE = 600
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1)"
COUNT = f"{CLAUSE} item, COUNT(DISTINCT user) AS people FROM events GROUP BY item"
SHARED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1)"
    " item, COUNT(DISTINCT user) AS people FROM events GROUP BY item"
)
EVENTS = ["--table", "events.parquet", "--unit", "user"]
LEDGER = ["--ledger", "ledger.db", "--dataset", "people"]
NOT_READ: dict[str, Any] = {"delimiter": None, "encoding": "utf-8", "types": [], "nulls": [], "no_header": None}


def paths(found: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: getattr(one, "source", one).paths for name, one in found.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    users = list(range(PEOPLE))
    pq.write_table(pa.table({"user": users, "item": [f"item {n % 3}" for n in users]}), tmp_path / "events.parquet")
    (tmp_path / "items.csv").write_text("item;price\nitem 0;5\nitem 1;7\n")
    with Ledger(tmp_path / "ledger.db", create=True) as opened:
        opened.create(DataSet("people", 3.0, 1e-4, "user", "basic"))
    return tmp_path


def entries(folder: Path) -> int:
    with Ledger(folder / "ledger.db") as opened:
        return sum(entry.kind == "reserve" for entry in opened.entries("people"))


def answered(done: Done) -> list[str]:
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def refused(done: Done) -> str:
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1
    return done.stderr


# Where statements come from


def test_a_text_is_a_statement_a_file_or_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("query.sql").write_text("\ufeffSELECT 1", encoding="utf-8")
    Path("other words").write_text("SELECT 2")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 3")))
    assert read_query("SELECT 0") == ("SELECT 0", "")
    assert read_query("query.sql") == ("SELECT 1", "query.sql")
    assert read_query("./query.sql") == ("SELECT 1", "query.sql")
    assert read_query("other words") == ("SELECT 2", "other words")
    assert read_query("-") == ("SELECT 3", "standard input")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("gone.sql", "a file of statements at gone.sql, got nothing"),
        ("select 1 from gone.sql", "a file of statements at select 1 from gone.sql, got nothing"),
        ("gone.txt", "a statement, a .sql file, or -, got 'gone.txt'. Hint: no file has this name"),
        ("latin.sql", "statements in UTF-8 in latin.sql, got another encoding"),
        ("long.sql", "a file of statements of at most 1,048,576 bytes at long.sql"),
        (".sql", "a file of statements at .sql, got"),
        ("folder.sql", "a file of statements at folder.sql, got something else"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    query: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    Path("long.sql").write_bytes(b" " * (2**20 + 1))
    Path("folder.sql").mkdir()
    with pytest.raises(InvalidParameter) as caught:
        read_query(query)
    assert words in str(caught.value)


# Which tables it names


def test_tables_have_names_and_paths_of_one_name_add_up() -> None:
    found = tables_of(["a=1.csv", "a=2.csv", "./x=1/b.csv.gz", "data/c/", "e=x=y.csv"], [], NOT_READ)
    assert paths(found) == {
        "a": ("1.csv", "2.csv"),
        "b": ("./x=1/b.csv.gz",),
        "c": ("data/c/",),
        "e": ("x=y.csv",),
    }


def test_public_marks_a_table_or_names_one() -> None:
    found = tables_of(["a.csv", "b=b.csv"], ["b", "c=d.csv", "e.csv"], NOT_READ)
    assert paths(found) == {"a": ("a.csv",), "b": ("b.csv",), "c": ("d.csv",), "e": ("e.csv",)}
    assert [name for name, one in found.items() if type(one) is type(dp.public(""))] == ["b", "c", "e"]


def test_options_of_text_files_are_for_the_tables_that_are_text() -> None:
    reading = {**NOT_READ, "delimiter": ";", "types": ["n=integer", "b.m=double", "x.y=date"], "nulls": ["NA"]}
    found = tables_of(["a.parquet", "b.csv", "c.jsonl"], ["d.csv"], reading)
    assert found["a"] == Files(("a.parquet",))
    csv, lines = found["b"], found["c"]
    assert isinstance(csv, Files)
    assert isinstance(lines, Files)
    assert (csv.delimiter, csv.nulls) == (";", ("NA",))
    assert csv.types == {"n": "INTEGER", "m": "DOUBLE", "x.y": "DATE"}
    assert (lines.delimiter, lines.nulls, lines.types) == (None, (), {"n": "INTEGER", "x.y": "DATE"})
    assert isinstance(found["d"].source, Files)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tables", "public", "words"),
    [
        ([], [], "Expected --table, got none"),
        (["a="], [], "--table NAME=PATH, got 'a='"),
        (["*.csv"], [], "the path does not say what the table is called"),
        ([""], [], "--table NAME=PATH, got ''"),
        (["/"], [], "the path does not say"),
        (["a.csv"], ["b"], "--public with the name of a table, got 'b'. Hint: add --table b=PATH"),
        (["events.csv"], ["event"], "did you mean 'events'?"),
        (["a.csv"], ["a=b.csv"], "'a' from --table or from --public, got both"),
    ],
)
def test_tables_that_are_not_clear_are_refused(tables: list[str], public: list[str], words: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        tables_of(tables, public, NOT_READ)
    assert words in str(caught.value)


def test_units_of_all_tables_or_of_each() -> None:
    assert units_of([], ["a", "b"]) is None
    assert units_of(["user_id"], ["a", "b"]) == "user_id"
    assert units_of(["lower(email)"], ["a"]) == "lower(email)"
    assert units_of(["coalesce(a == b, c)"], ["a"]) == "coalesce(a == b, c)"
    assert units_of(["a=x", "b=person=lower(mail)"], ["a", "b"]) == {"a": "x", "b": "person=lower(mail)"}


@pytest.mark.parametrize(
    ("units", "words"),
    [
        (["x", "y"], "one --unit for all tables, got 'x' beside another"),
        (["a=x", "y"], "one --unit for all tables, got 'y' beside another"),
        (["a=x", "a=y"], "one --unit for 'a', got it more than once"),
        (["aa=x"], "--unit TABLE=COLUMN of a table, got 'aa=x'. Hint: did you mean 'a'"),
        (["a="], "a column of 'a' behind --unit a=, got nothing"),
    ],
)
def test_units_that_are_not_clear_are_refused(units: list[str], words: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        units_of(units, ["a", "b"])
    assert words in str(caught.value)


# What is printed, written and charged


def test_the_whole_answer_is_printed_with_its_errors_its_guarantee_and_its_price(folder: Path) -> None:
    lines = answered(dphist("sql", COUNT, *EVENTS, *LEDGER, cwd=folder))
    assert lines[0].split() == ["item", "people"]
    assert sorted(line.split()[1] for line in lines[2:5]) == ["0", "1", "2"]
    assert all("±" in line for line in lines[2:5])
    text = "\n".join(lines)
    assert "± is one standard error of the noise." in text
    assert text.count("Guarantee: adding or removing all records of one unit") == 1
    assert "Spent at most ε = 1, δ = 1e-06; ε 2 of 3" in text
    assert "Charged to 'people', entry 1" in text
    assert entries(folder) == 1


def test_files_are_written_verified_and_never_replaced_unasked(folder: Path) -> None:
    words = ["sql", COUNT, *EVENTS, "-o", "out.parquet", "--report", "out.html", "--show", "1"]
    lines = answered(dphist(*words, cwd=folder))
    assert "  … and 2 more rows" in lines
    assert "Table written to out.parquet" in lines
    assert "Report written to out.html" in lines
    assert pq.read_table(folder / "out.parquet").num_rows == 3
    assert dphist("verify", "out.parquet", cwd=folder).returncode == 0
    assert "which exists" in refused(dphist(*words, *LEDGER, cwd=folder))
    assert "not read by the same command" in refused(
        dphist("sql", COUNT, *EVENTS, "-o", "events.parquet", "--overwrite", *LEDGER, cwd=folder)
    )
    assert entries(folder) == 0
    assert answered(dphist(*words, "--overwrite", "--quiet", *LEDGER, cwd=folder)) == []


def test_json_has_the_rows_unless_a_file_has_them(folder: Path) -> None:
    (answer,) = json.loads(dphist("sql", COUNT, *EVENTS, "--json", cwd=folder).stdout)["answers"]
    assert answer["row_count"] == len(answer["rows"]) == 3
    assert {"item", "people", "people_std_error"} <= answer["rows"][0].keys()
    roots = f"SELECT SQRT(people - 1e6) AS root FROM ({COUNT}) LIMIT 1"
    (answer,) = json.loads(dphist("sql", roots, *EVENTS, "--json", cwd=folder).stdout)["answers"]
    assert answer["rows"] == [{"root": "nan"}], "JSON has no word for it"
    done = dphist("sql", COUNT, *EVENTS, "--json", "-o", "out.csv", cwd=folder)
    (answer,) = json.loads(done.stdout)["answers"]
    assert "rows" not in answer
    assert answer["row_count"] == 3


def test_several_statements_have_several_files(folder: Path) -> None:
    script = f"{SHARED};\n{SHARED} HAVING people > 1e9;"
    (folder / "query.sql").write_text(script)
    words = ["sql", "query.sql", *EVENTS, "--epsilon", "1", "--delta", "1e-6", *LEDGER]
    assert "{n} in -o for 2 statements, got out.csv. Hint: for example -o out-{n}.csv" in refused(
        dphist(*words, "-o", "out.csv", cwd=folder)
    )
    assert entries(folder) == 0
    lines = answered(dphist(*words, "-o", "out-{n}.csv", cwd=folder))
    assert lines[0] == "Statement 1 of 2"
    assert "Statement 2 of 2" in lines
    assert "No row was released." in lines
    assert any(line.startswith("Spent at most ε = 1, δ = 1e-06; ε 2 of 3") for line in lines)
    assert len((folder / "out-1.csv").read_text().splitlines()) == 4
    assert len((folder / "out-2.csv").read_text().splitlines()) == 1
    assert entries(folder) == 2


def test_explain_and_dry_run_spend_nothing(folder: Path) -> None:
    explained = "\n".join(answered(dphist("sql", COUNT, *EVENTS, *LEDGER, "--explain", cwd=folder)))
    assert "dphist release" in explained
    assert "Spent" not in explained
    checked = answered(dphist("sql", COUNT, *EVENTS, *LEDGER, "--dry-run", cwd=folder))
    assert checked[0].startswith("Plan: ")
    assert checked[-1].endswith("It fits into what is left of 'people'. Nothing was charged.")
    (plan,) = json.loads(dphist("sql", COUNT, *EVENTS, "--dry-run", "--json", cwd=folder).stdout)["plans"]
    assert plan["max_groups"] == 1
    assert entries(folder) == 0
    too_much = COUNT.replace("epsilon = 1", "epsilon = 9")
    assert "left of 'people'" in refused(dphist("sql", too_much, *EVENTS, *LEDGER, "--dry-run", cwd=folder))


def test_a_public_table_is_read_as_the_options_of_text_files_say(folder: Path) -> None:
    joined = COUNT.replace("FROM events", "FROM events JOIN items USING (item)")
    done = dphist("sql", joined, *EVENTS, "--public", "items.csv", "--delimiter", ";", cwd=folder)
    assert sorted(line.split()[1] for line in answered(done)[2:4]) == ["0", "1"]
    assert "leave it out" in refused(dphist("sql", COUNT, *EVENTS, "--delimiter", ";", cwd=folder))


def test_a_refusal_says_where_also_without_a_terminal(folder: Path) -> None:
    (folder / "query.sql").write_text(f"{CLAUSE}\n  item, COUNT(DISTINCT usr)\nFROM events GROUP BY item")
    words = refused(dphist("sql", "query.sql", *EVENTS, *LEDGER, cwd=folder))
    assert words.endswith("See line 2, column 24 of query.sql.\n")
    assert entries(folder) == 0


def test_names_in_a_statement_are_not_called_options(folder: Path) -> None:
    wrong = COUNT.replace("epsilon = 1", "epsilon = -1")
    assert "Expected a finite epsilon > 0, got -1." in refused(dphist("sql", wrong, *EVENTS, cwd=folder))
    assert "Expected a finite --epsilon > 0" in refused(dphist("sql", SHARED, *EVENTS, "--epsilon", "-1", cwd=folder))


def test_what_is_paid_for_is_shown_where_the_outer_query_fails(folder: Path) -> None:
    done = dphist("sql", f"SELECT CAST(item AS INT64) AS n FROM ({COUNT})", *EVENTS, *LEDGER, cwd=folder)
    assert done.returncode == 2
    assert sorted(line.split()[1] for line in done.stdout.splitlines()[3:6]) == ["0", "1", "2"]
    assert "Charged to 'people', entry 1" in done.stderr
    assert "What was printed may be published" in done.stderr
    assert entries(folder) == 1


def test_nothing_would_be_seen(folder: Path) -> None:
    assert "-o FILE or --report FILE with --quiet" in refused(dphist("sql", COUNT, *EVENTS, "--quiet", cwd=folder))


def test_without_a_statement_and_a_terminal_there_is_an_error(folder: Path) -> None:
    words = refused(dphist("sql", *EVENTS, cwd=folder))
    assert "standard input is read with -" in words


WITHOUT = """
import sys
from dphist.cli import main
query, *words = sys.argv[1:]
sys.stdin.isatty = sys.stdout.isatty = lambda: True
for missing, words in (("sqlglot", [query, *words]), ("prompt_toolkit", words)):
    sys.modules[missing] = None
    sys.argv = ["dphist", "sql", *words]
    try:
        main()
    except SystemExit as end:
        print(missing, end.code)
    del sys.modules[missing]
"""


def test_a_missing_extra_is_named(folder: Path) -> None:
    words = [sys.executable, "-c", WITHOUT, COUNT, *EVENTS]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["sqlglot 2", "prompt_toolkit 2"], done.stderr
    assert [line.partition(". ")[2] for line in done.stderr.splitlines()] == ["Hint: pip install 'dphist[sql]'"] * 2
