"""`dphist select` as a user meets it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import dphist

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
PEOPLE = ["--unit", "user_id", "--by", "url"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table({"user_id": [i % 700 for i in range(7000)], "url": [f"u{(i * i) % 7}" for i in range(7000)]})
    pq.write_table(table, tmp_path / "events.parquet")
    return tmp_path


def test_the_command_of_the_readme(folder: Path) -> None:
    done = dphist("select", "events.parquet", *PEOPLE, *BUDGET, "-o", "keys.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for words in (
        "nothing was counted",
        "Lost: ",
        "Spurious: a group of one unit",
        "Guarantee: adding or",
        "written to",
    ):
        assert words in done.stdout
    assert "±" not in done.stdout
    assert pq.read_table(folder / "keys.parquet").to_pydict() == {"url": ["u0", "u1", "u2", "u4"]}
    checked = dphist("verify", "keys.parquet", cwd=folder)
    assert checked.returncode == 0
    assert "FAIL" not in checked.stdout


def test_json_quiet_and_nothing_to_write(folder: Path) -> None:
    done = dphist("select", "events.parquet", *PEOPLE, *BUDGET, "-o", "keys.json", "--json", cwd=folder)
    found = json.loads(done.stdout)
    assert found["released_groups"] == 4
    assert found["noise_std"] is None
    quiet = dphist("select", "events.parquet", *PEOPLE, *BUDGET, "-o", "keys.csv", "--quiet", cwd=folder)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert (folder / "keys.csv").read_text().split() == ["url", "u0", "u1", "u2", "u4"]
    for arguments, words in (
        ([*BUDGET], "-o FILE"),
        (["--epsilon", "1", "-o", "x.csv"], "a selection needs --epsilon and --delta"),
        ([*BUDGET, "-o", "x.csv", "--max-groups", "3"], "--max-groups"),
        ([*BUDGET, "-o", "x.csv", "--mechanism", "laplace"], "a bound on how many groups"),
    ):
        wrong = dphist("select", "events.parquet", *PEOPLE, *arguments, cwd=folder)
        assert wrong.returncode == 2
        assert words in wrong.stderr


def test_too_little_for_any_key(folder: Path) -> None:
    few = ["--where", "user_id < 3"]
    done = dphist("select", "events.parquet", *PEOPLE, *BUDGET, *few, "-o", "none.parquet", cwd=folder)
    assert "No group was released: none was large enough." in done.stdout
    assert pq.read_table(folder / "none.parquet").num_rows == 0
    assert dphist("verify", "none.parquet", cwd=folder).returncode == 0
