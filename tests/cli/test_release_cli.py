"""`dphist release` and `dphist verify` as a user meets them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from terminals import on_terminal

from command_line import dphist, dphist_process
from dphist.cli.app import app

BUDGET = ["--epsilon", "1", "--delta", "1e-6", "--max-groups", "3"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "user_id": [i % 400 for i in range(4000)],
            "url": [f"u{(i * i) % 7}" for i in range(4000)],
            "country": ["de", "fr"] * 2000,
            "likes": [i % 2 for i in range(4000)],
            "minutes": [float(i % 50) for i in range(4000)],
        }
    )
    pq.write_table(table, tmp_path / "events.parquet")
    return tmp_path


def test_the_command_of_the_readme(folder: Path) -> None:
    done = dphist_process(
        "release", "events.parquet", "--unit", "user_id", "--by", "url", "--by", "country", *BUDGET, "--sum", "likes:0:1",
        "--mean", "minutes:0:60", "-o", "out.parquet", "--report", "out.html", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Guarantee: adding or removing" in done.stdout
    assert "Table written to out.parquet" in done.stdout
    assert "\nSpent at most ε = 1, δ = 1e-06.\nNothing was recorded" in done.stdout
    table = pq.read_table(folder / "out.parquet")
    assert table.column_names[:4] == ["url", "country", "count", "count_std_error"]
    assert (folder / "out.html").read_text().startswith("<!doctype html>")
    checked = dphist("verify", "out.parquet", cwd=folder)
    assert checked.returncode == 0
    assert "FAIL" not in checked.stdout


def test_the_console_says_what_was_done(folder: Path) -> None:
    """In the words of the metadata, for bounded releases and for those that select first."""
    for bound in ([], ["--max-groups", "2"]):
        budget = ["--epsilon", "1", "--delta", "1e-6", *bound]
        written = ["-o", "out.parquet", "--overwrite"]
        done = dphist("release", "events.parquet", "--unit", "user_id", "--by", "url", *budget, *written, cwd=folder)
        told = json.loads((folder / "out.parquet.dphist.json").read_text())
        assert done.stdout.count(f"\n{told['summary']}\n") == 1
        assert told["summary"].startswith("Selected ")


def test_verify_fails_on_a_changed_file(folder: Path) -> None:
    dphist("release", "events.parquet", "--unit", "user_id", "--by", "url", *BUDGET, "-o", "out.csv", cwd=folder)
    path = folder / "out.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    done = dphist("verify", "out.csv", "--json", cwd=folder)
    assert done.returncode == 1
    assert {check["check"] for check in json.loads(done.stdout) if check["state"] == "failed"} == {
        "file",
        "keys",
        "order",
    }


def test_saved_plans_json_and_quiet(folder: Path) -> None:
    dphist("plan", *BUDGET, "--save", "plan.json", cwd=folder)
    done = dphist(
        "release", "events.parquet", "--unit", "user_id", "--by", "url", "--plan", "plan.json", "-o", "out.json", "--json",
        cwd=folder,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert found["released_groups"] == len((folder / "out.json").read_text().splitlines())
    quiet = dphist(
        "release", "events.parquet", "--unit", "user_id", "--by", "url", "--plan", "plan.json", "-o", "out.csv", "--quiet",
        "--integers", "--order", "key", "--intervals", "0.9", cwd=folder,
    )  # fmt: skip
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert (folder / "out.csv").read_text().startswith("url,count,count_std_error,count_low,count_high,count_noisy\n")


def test_explain_and_dry_run_write_nothing(folder: Path) -> None:
    done = dphist(
        "release", "events.parquet", "--unit", "user_id", "--by", "url", *BUDGET, "--explain", "--dry-run", "-o", "out.csv",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in ("1. Plan", "2. Bound and count", "SELECT", "3. Noise", "4. Threshold", "5. Publish", "Dry run"):
        assert words in done.stdout
    assert not (folder / "out.csv").exists()
    for extra in (["--keys", "keys.txt"], ["--sketch", "10"]):
        (folder / "keys.txt").write_text("u0\nu1\n")
        alone = dphist(
            "release", "events.parquet", "--unit", "user_id", "--by", "url", "--epsilon", "1", "--delta", "1e-6", "--explain",
            *extra, cwd=folder,
        )  # fmt: skip
        assert alone.returncode == 0, alone.stderr


def test_nothing_derived_from_data_is_printed_unless_asked(folder: Path) -> None:
    command = [
        "release",
        "events.parquet",
        "--unit",
        "user_id",
        "--by",
        "url",
        *BUDGET,
        "-o",
        "out.parquet",
        "--overwrite",
        "--show",
        "0",
    ]
    shown = dphist(*command, cwd=folder)
    assert "4000" not in shown.stderr
    assert "more groups" in shown.stdout
    unsafe = dphist(*command, "--unsafe-diagnostics", cwd=folder)
    assert "UNSAFE, private, do not publish: non-empty groups" in unsafe.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "url", *BUDGET], "-o FILE or --report FILE"),
        (["--by", "url", "--delta", "1e-6", "-o", "o.csv"], "--epsilon"),
        (["--by", "urll", *BUDGET, "-o", "o.csv"], "url"),
        (["--by", "url", *BUDGET, "-o", "missing/o.csv"], "existing folder"),
        (["--by", "url", *BUDGET, "-o", "o.xlsx"], "a name ending in"),
        (["--by", "url", *BUDGET, "-o", "."], "a name ending in"),
        (["--by", "url", *BUDGET, "--report", "."], "a regular file as the output"),
        (["--by", "url", *BUDGET, "--sum", "country:0:1", "-o", "o.csv"], "country"),
        (["--by", "url", *BUDGET, "--where", "likes = (select 1)", "-o", "o.csv"], "Expected"),
        (["--by", "url", *BUDGET, "--where", "likes >", "-o", "o.csv"], "Expected"),
        (["--by", "url", *BUDGET, "--plan", "none.json", "-o", "o.csv"], "a plan or a budget"),
        (["--by", "url", "--plan", "none.json", "-o", "o.csv"], "a plan at none.json, got nothing"),
    ],
)
def test_bad_input_is_one_line_and_code_2(folder: Path, arguments: list[str], message: str) -> None:
    done = dphist("release", "events.parquet", "--unit", "user_id", *arguments, cwd=folder)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert not (folder / "o.csv").exists()


def test_a_missing_file_is_named(folder: Path) -> None:
    done = dphist("release", "nothing.parquet", "--unit", "u", "--by", "k", *BUDGET, "-o", "o.csv", cwd=folder)
    assert done.returncode == 2
    assert "nothing.parquet" in done.stderr


def test_true_numbers_are_printed_to_whoever_asked_for_them_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command = ["release", "events.parquet", "--unit", "user_id", "--by", "url", "--overwrite", "-o", "out.csv"]
    command += BUDGET[:4]
    for more in (BUDGET[4:], ["--mechanism", "adaptive"], ["--quiet"], ["--json"]):
        done = CliRunner().invoke(app, [*command, *more])
        assert done.exit_code == 0, done.output
        assert "UNSAFE" not in done.output
        assert "private" not in done.stderr
    assert "UNSAFE, private, do not publish" in CliRunner().invoke(app, [*command, "--unsafe-diagnostics"]).stderr


@pytest.mark.parametrize("command", ["release", "select"])
def test_a_terminal_shows_all_of_a_table_that_no_file_gets(command: str, folder: Path) -> None:
    """It is charged all the same, and says that nothing keeps it; what nobody would see is refused before the charge."""
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    ledger = ["--ledger", "ledger.db", "--dataset", "events"]
    dphist("ledger", "create", *ledger, *budget, "--unit", "user_id", "--accountant", "basic", cwd=folder)
    words = [command, "wide.parquet", "--unit", "user_id", "--by", "url", *budget, *ledger]
    wide = pa.table({"user_id": [i % 400 for i in range(12000)], "url": [f"u{i // 400}" for i in range(12000)]})
    pq.write_table(wide, folder / "wide.parquet")
    for more in ([], ["--quiet"], ["--json"], ["--show", "0"]):  # the first without a terminal
        code, out, told = on_terminal(*words, *more, cwd=folder, out=bool(more))
        assert (code, out) == (2, "")
        assert "Expected -o FILE or --report FILE, got neither." in told
    code, _, shown = on_terminal(*words, cwd=folder, out=True)
    assert code == 0, shown
    assert all(f"u{i} " in shown or f"u{i}\r" in shown for i in range(30))
    assert "No file has this table: it is gone when this window is closed" in shown
    assert "entry 1" in shown
    assert [*folder.glob("*.dphist.json")] == []
