"""The command line as a user meets it: real words, real files, real processes where a new interpreter could matter."""

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from argument_fuzz import commands
from click.testing import CliRunner

from command_line import dphist, dphist_process, examples_of
from dphist.cli.app import app

AUDIT = "dphist audit --mechanism truncated-laplace --report audit.html"
BUDGET = ["--epsilon", "1", "--delta", "1e-8", "--max-groups", "10"]


def test_plan_prints_a_calm_table() -> None:
    done = dphist("plan", *BUDGET)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Plan: sparse-gaussian (exact)" in done.stdout
    assert "laplace" in done.stdout


def test_plan_headline_numbers() -> None:
    done = dphist(
        "plan", "--epsilon", "0.35", "--delta", "1e-5", "--max-groups", "51914", "--sparsity", "51914", "--objective", "gap",
        "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["gap"] <= 6990
    fixed = dphist(
        "plan", "--epsilon", "0.349", "--delta", "1e-5", "--max-groups", "51914", "--noise-std", "2396", "--mechanism",
        "sparse-gaussian", "--json",
    )  # fmt: skip
    found = json.loads(fixed.stdout)
    assert round(found["gap"], 2) == 14998.69
    assert [round(o["gap"], 2) for o in found["alternatives"] if o["analysis"] == "add-the-deltas"] == [15148.72]


def test_plan_with_everything(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("a\nb\n\nc\na\n")
    done = dphist(
        "plan", "--epsilon", "1", "--delta", "1e-8", "--keys", "keys.txt", "--max-groups", "2", "--sparse", "--sum", "a:b:0:1",
        "--mean", "age:0:99", "--rows", "3", "--weight", "mean_age=0.5", "--save", "plan.json", "--plot", "plan.png", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mechanism"] in ("correlated-gaussian", "sparse-gaussian", "laplace")
    saved = json.loads((tmp_path / "plan.json").read_text())
    assert saved["request"]["keys"] == 3
    assert saved["request"]["aggregates"][0]["column"] == "a:b"
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert "plan.json" in done.stderr


def test_profile(tmp_path: Path) -> None:
    done = dphist(
        "profile", "--noise-std", "16", "--gap", "98", "--max-groups", "10", "--epsilon", "0.5", "--epsilon", "1", "--delta",
        "1e-6", "--plot", "p.svg", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0.5" in done.stdout
    assert (tmp_path / "p.svg").exists()
    found = json.loads(
        dphist("profile", "--noise-std", "16", "--gap", "98", "--max-groups", "10", "--delta", "1e-6", "--json").stdout
    )
    (point,) = found["profile"]
    assert point["delta"] == 1e-6
    assert 0.5 < point["epsilon"] < 1
    assert found["sparsity"] is None


@pytest.mark.parametrize(
    ("options", "analysis"),
    [
        (["--mechanism", "laplace"], "pure-and-tail"),
        (["--mechanism", "correlated-gaussian", "--sparsity", "50"], "tight"),
        (["--mechanism", "correlated-gaussian", "--sparsity", "50", "--correlation", "0.3"], "tight"),
        (["--analysis", "f-dp"], "f-dp"),
    ],
)
def test_profile_of_every_mechanism(options: list[str], analysis: str) -> None:
    done = dphist(
        "profile", "--noise-std", "30", "--gap", "300", "--max-groups", "10", "--epsilon", "2", "--json", *options
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["analysis"] == analysis
    assert 0 < found["profile"][0]["delta"] < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--epsilon", "0", "--delta", "1e-8", "--max-groups", "1"], "finite --epsilon > 0"),
        (["plan", "--epsilon", "nan", "--delta", "1e-8", "--max-groups", "1"], "finite --epsilon > 0"),
        (["plan", "--epsilon", "1", "--delta", "0", "--max-groups", "1"], "Hint: unknown groups need delta > 0"),
        (["plan", "--epsilon", "1", "--delta", "1e-8", "--mechanism", "laplace"], "Hint: add --max-groups"),
        (["plan", "--epsilon", "1", "--delta", "1e-8", "--max-groups", "ten"], "a whole number for --max-groups, got 'ten'"),
        (["plan", "--epsilon", "1", "--delta", "1e-8", "--max-groups", "0"], "--max-groups of at least 1"),
        (["plan", *BUDGET, "--sparsity", "5"], "--sparsity of at least --max-groups"),
        (["plan", *BUDGET, "--noise-std", "2"], "--noise-std of at least 16.1286"),
        (["plan", *BUDGET, "--sum", "likes"], "--sum column:lower:upper"),
        (["plan", *BUDGET, "--sum", "likes:a:b"], "--sum column:lower:upper"),
        (["plan", *BUDGET, "--weight", "likes"], "--weight name=share"),
        (["plan", *BUDGET, "--plot", "x.jpeg2"], "picture name"),
        (["plan", *BUDGET, "--plot", "/nonexistent/x.png"], "an existing folder for the output, got /nonexistent"),
        (["plan", "--epsilon", "1", "--delta", "1e-8", "--keys", "/nonexistent"], "a readable list of keys at /nonexistent"),
        (["plan", "--epsilon", "one"], "--epsilon"),
        (["plan", "--bogus"], "--bogus"),
        (["plan"], "--epsilon"),
        (["dance"], "dance"),
        (["profile", "--noise-std", "1", "--gap", "1", "--max-groups", "1"], "--epsilon or --delta"),
        (["profile", "--noise-std", "1", "--gap", "1", "--epsilon", "1"], "--max-groups"),
        (["profile", "--noise-std", "-1", "--gap", "1", "--max-groups", "1", "--epsilon", "1"], "--noise-std > 0"),
        (["profile", "--noise-std", "1", "--gap", "-1", "--max-groups", "1", "--epsilon", "1"], "gap >= 0"),
        (["profile", "--noise-std", "1", "--gap", "1", "--max-groups", "1", "--delta", "1e-9"], "raise the gap"),
        (["profile", "--noise-std", "1", "--gap", "1", "--max-groups", "1", "--epsilon", "-1"], "--epsilon >= 0"),
        (["profile", "--noise-std", "1", "--gap", "1", "--max-groups", "1", "--epsilon", "1", "--mechanism", "x"], "one of"),
        (
            ["profile", "--noise-std", "1", "--gap", "1", "--max-groups", "1", "--epsilon", "1", "--mechanism",
             "correlated-gaussian"], "--sparsity",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_code_2(arguments: list[str], message: str) -> None:
    done = dphist(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("dphist: ")


def test_an_error_in_a_process_of_its_own() -> None:
    """As a shell sees it: its code, nothing on stdout, one line on stderr."""
    done = dphist_process("plan", "--epsilon", "0", "--delta", "1e-8", "--max-groups", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dphist: Expected a finite --epsilon > 0")
    assert len(done.stderr.splitlines()) == 1


def test_help_version_and_no_arguments() -> None:
    assert dphist("--version").stdout.startswith("dphist 0.")
    assert dphist("--help").returncode == 0
    bare = dphist_process()
    assert bare.returncode == 2
    assert bare.stderr.startswith("Usage:")


def test_every_command_has_examples_and_they_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the help, in one folder: a ledger is created before it is shown."""
    monkeypatch.chdir(tmp_path)
    events = pa.table({"user_id": list(range(500)) * 2, "url": ["a"] * 500 + ["b"] * 500, "likes": [1] * 1000})
    pq.write_table(events, "events.parquet")
    pq.write_table(events.rename_columns(["user", "item", "likes"]), "monday.parquet")
    pq.write_table(pa.table({"person": list(range(500)), "age": [i % 90 for i in range(500)]}), "ages.parquet")
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8)"
    Path("query.sql").write_text(f"{clause} url, COUNT(DISTINCT user_id) AS people FROM events GROUP BY url;\n")
    for name, command in commands().items():
        if name == "demo":
            continue  # its own tests run it
        examples = examples_of(command)
        assert 1 <= len(examples) <= 3, name
        if name == "audit":
            assert examples == [AUDIT], "as tests/audit runs it, which takes long"
            continue
        for example in examples:
            assert example.startswith(f"dphist {name}")
            if "published" in example and not Path("published").exists():
                Path("published").mkdir()
                paid = (
                    "release monday.parquet --unit user --by item --epsilon 0.1 --delta 1e-8 --max-groups 2"
                    " -o published/items.csv --ledger ledger.db --dataset events"
                )
                CliRunner().invoke(app, shlex.split(paid), catch_exceptions=False)
            done = CliRunner().invoke(app, shlex.split(example)[1:])
            assert done.exit_code == 0, (example, done.output, done.exception)
