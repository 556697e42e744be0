"""`dphist stat` as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import Done, dphist

AGE = ["--column", "age", "--unit", "person", "--lower", "0", "--upper", "120", "--error", "1", "--epsilon", "0.5"]


Stat = Callable[..., Done]


@pytest.fixture
def stat(folder: Path) -> Stat:
    return lambda *arguments: dphist("stat", *arguments, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"person": list(range(30_000)), "age": [float(i % 91) for i in range(30_000)]})
    pq.write_table(table, tmp_path / "ages.parquet")
    return tmp_path


def test_the_command_of_the_help(folder: Path) -> None:
    done = dphist("stat", "max", "ages.parquet", *AGE, "--drop", "0.005", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    value, promise = done.stdout.splitlines()[0].split(": ", 1)
    assert 80 <= float(value) <= 91
    assert promise.startswith(
        "within 1 of the true maximum of the bounded records, clamped to [0, 120], after dropping"
    )
    assert "chosen at random" in done.stdout
    assert "Guarantee: adding or removing all records of one unit" in done.stdout


def test_json_and_other_statistics(stat: Stat) -> None:
    done = stat("median", "ages.parquet", *AGE, "--drop", "0.2", "--min-records", "20000", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert abs(found["value"] - 45) <= 12
    assert found["most_dropped"] == 60 * found["q"]
    assert "after dropping at most 20 % of them, provided that there are at least 20,000" in found["accuracy"]
    assert found["conditions"] == ["there are at least 20,000 of them"]
    assert found["min_records"] == 20_000
    assert done.stderr == ""
    done = stat("is-empty", "ages.parquet", "--unit", "person", "--epsilon", "1")
    assert done.stdout.startswith("not empty")


def test_infeasible_is_said_before_anything_is_read(stat: Stat) -> None:
    done = stat("max", "nowhere.parquet", *AGE, "--drop", "0.005", "--min-records", "1000")
    assert done.returncode == 2
    assert "Expected at least 600,000 records" in done.stderr


def test_table_and_dry_run_read_nothing(stat: Stat) -> None:
    done = stat("max", "--table", "--dry-run", *AGE, "--drop", "0.005")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["0.5", "9.6e-07", "50", "3,000", "30", "%", "0.3", "%", "600,000"] in rows
    assert ["0.5", "1e-06", "50", "3,000", "30", "%", "0.3", "%", "600,000", "(yours)"] in rows
    assert "Promise: within 1 of the true maximum" in done.stdout
    facts = json.loads(stat("max", "--table", "--dry-run", "--json", *AGE, "--drop", "0.005").stdout)
    own = {"epsilon": 0.5, "delta": 1e-06, "q": 50, "dropped": 3_000, "records_needed": 600_000}
    assert own in facts["trade_offs"]
    assert facts["promise"].startswith("within 1 of the true maximum")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mode", "--table", "--epsilon", "1"], "--max-values"),
        (["max"], "Expected --epsilon"),
        (["is-empty", "--epsilon", "1"], "FILE and --unit"),
        (["variance", "--dry-run", "--epsilon", "1"], "one of max"),
        (["mode", "--drop", "0.1", "--dry-run", "--epsilon", "1"], "--max-values with drop"),
        (["is-empty", "x.parquet", "--unit", "u", "--column", "c", "--epsilon", "1"], "no column for is-empty"),
        (["mode", "--as", "dates", "--dry-run", "--epsilon", "1"], "one of number, text"),
    ],
)
def test_refusals(arguments: list[str], words: str, stat: Stat) -> None:
    """Before any file is opened."""
    failed = stat(*arguments)
    assert failed.returncode == 2
    assert words in failed.stderr


def test_max_k_of_a_text_file(folder: Path, stat: Stat) -> None:
    (folder / "values.csv").write_text("person,v\n" + "".join(f"{i},{(9, 10)[i % 2]}\n" for i in range(2000)))
    arguments = ["max-k", "values.csv", "--unit", "person", "--column", "v", "--k", "500", "--epsilon", "1"]
    failed = stat(*arguments)
    assert failed.returncode == 2
    assert "--as number" in failed.stderr
    done = stat(*arguments, "--as", "number")
    assert done.stdout.startswith("10: exactly the true largest value with 500 records"), done.stderr


def test_help_has_an_example(stat: Stat) -> None:
    shown = stat("--help").stdout
    assert "Example:\n    dphist stat max ages.parquet" in shown
    shown = " ".join(shown.split())
    assert "lower one (rank ⌈n/2⌉)" in shown
    assert "population standard deviation" in shown
