"""`dphist demo`: a first look without data, and the tables of the examples."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from command_line import dphist
from dphist import demo
from dphist.cli import demo as command


def test_the_demo_shows_released_counts_beside_true_ones_and_writes_a_report(tmp_path: Path) -> None:
    done = dphist("demo", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = re.findall(r"^  (/\S*) +(-?[\d,]+) ± (\d+) +([\d,]+) +[+-]\d+%$", done.stdout, re.MULTILINE)
    assert len(rows) == 12
    truth = demo.events().group_by("url").aggregate([("user_id", "count_distinct")]).to_pydict()
    units = dict(zip(truth["url"], truth["user_id_count_distinct"], strict=True))
    for url, released, error, true in rows:
        assert int(true.replace(",", "")) == units[url]
        assert abs(int(released.replace(",", "")) - units[url]) < 8 * int(error)
    assert done.stdout.splitlines()[-1] == f"Report: {(tmp_path / command.REPORT).resolve()}"
    assert "<html" in (tmp_path / command.REPORT).read_text(encoding="utf-8")
    assert "made up" in done.stdout  # why truth may be shown


def test_a_second_demo_replaces_its_own_report_but_no_named_one(tmp_path: Path) -> None:
    (tmp_path / command.REPORT).write_text("old")
    assert dphist("demo", cwd=tmp_path).returncode == 0
    assert (tmp_path / command.REPORT).read_text(encoding="utf-8") != "old"
    (tmp_path / "mine.html").write_text("mine")
    refused = dphist("demo", "--report", "mine.html", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_the_tables_are_written_whole_and_are_not_replaced_by_themselves(tmp_path: Path) -> None:
    done = dphist("demo", "--data", "new/examples", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "new" / "examples"
    assert {path.name for path in folder.iterdir()} == set(demo.TABLES)
    assert parquet.read_table(folder / "events.parquet").equals(demo.events())
    assert csv.read_csv(folder / "events.csv").column_names == demo.events().column_names
    assert dphist("demo", "--data", "new/examples", cwd=tmp_path).returncode == 2
    assert dphist("demo", "--data", "new/examples", "--overwrite", cwd=tmp_path).returncode == 0
    for wrong in (("--data", "new/examples/events.csv"), ("--data", "other", "--report", "report.html")):
        refused = dphist("demo", *wrong, cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("dphist: Expected ")


def test_the_tables_are_the_same_in_every_run_and_look_like_real_ones() -> None:
    events = demo.events()
    assert demo.events.__wrapped__().equals(events)
    assert len(set(events.column("user_id").to_pylist())) == 30_000
    of_page = np.sort([n.as_py() for n in events.column("url").value_counts().field("counts")])[::-1]
    assert of_page[0] > 500 * of_page[-1]  # a long tail
    assert demo.ages().num_rows >= 600_000  # what the examples of docs state
    assert demo.ages().column("age").to_numpy().max() == 111


def test_the_university_has_enough_people_in_every_group_and_one_office_for_each_professor() -> None:
    """What docs/sql.md joins: groups are large enough to be shown, and no public item is missing."""
    professors, students, offices, items = demo.professors(), demo.students(), demo.offices(), demo.items()
    assert sorted(offices.column("id").to_pylist()) == sorted(set(professors.column("id").to_pylist()))
    for requests in (professors, students):
        people = requests.group_by("item").aggregate([("id", "count_distinct")])
        assert set(people.column("item").to_pylist()) == set(items.column("item").to_pylist())
        assert min(people.column("id_count_distinct").to_pylist()) > 100
        assert 0 < requests.column("quantity").null_count < requests.num_rows / 10


def test_uniform_numbers_are_uniform_and_differ_by_name() -> None:
    one, other = demo.uniform("visits", 100_000), demo.uniform("visitors", 100_000)
    for values in (one, other):
        assert 0 < values.min() < values.max() < 1
        counts = np.bincount((values * 20).astype(int), minlength=20)
        assert abs(counts - 5_000).max() < 6 * np.sqrt(5_000)  # six standard deviations
    assert abs(np.corrcoef(one, other)[0, 1]) < 6 / np.sqrt(100_000)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 6 / np.sqrt(100_000)


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("platform", "variables", "opened"),
    [
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {}, False),
        ("darwin", {}, True),
        ("win32", {}, True),
        ("darwin", {"CI": "true"}, False),
    ],
)
def test_a_browser_is_opened_on_a_desktop_alone(
    platform: str, variables: dict[str, str], opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert not command._on_desktop()  # no terminal
    monkeypatch.setattr(sys, "stdout", _Terminal())
    assert command._on_desktop() is opened


def test_every_named_table_has_the_columns_of_its_examples() -> None:
    columns = {name: set(make().column_names) for name, make in demo.TABLES.items()}
    assert columns["events.parquet"] >= {"user_id", "url", "country", "likes", "amount", "age", "year", "time", "day"}
    assert columns["ages.parquet"] == {"person", "age"}
    assert columns["orders.parquet"] == {"customer", "product", "amount", "hours"}
    assert columns["visits.parquet"] == {"person", "page", "time"}
    assert columns["monday.parquet"] == {"user", "item"}
    assert all(isinstance(make(), pa.Table) for make in demo.TABLES.values())
