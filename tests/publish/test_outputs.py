"""Outputs destroy nothing: what stands at an output's name is there afterwards, byte for byte, unless it may be replaced."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dphist as dp
from command_line import every_command
from dphist.cli.app import app
from dphist.engines import files_of
from dphist.files.formats import check_folder, check_table, write_table
from dphist.files.outputs import check_outputs, write_text
from dphist.ledger import DataSet, Ledger

EVENTS = pa.table({"user": list(range(600)), "item": [f"i{n % 3}" for n in range(600)]})
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
RECORDS = ["--unit", "user", "--by", "item", *BUDGET]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of everything that must not get lost."""
    made = tmp_path_factory.mktemp("everything")
    pq.write_table(EVENTS, made / "events.parquet")
    with Ledger(made / "l.db", create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
    dp.plan(epsilon=1, delta=1e-6, max_groups=1).save(made / "plan.json")
    dp.Session.start(made / "s.json", unit="user", epsilon=1, delta=1e-6, results=5, queries=3)
    stream = dp.Continual.start(made / "stream", unit="user", by="item", rounds=4, max_groups=1, epsilon=1, delta=1e-6)
    stream.add(EVENTS, "first")
    (made / "keys.txt").write_text("i0\ni1\n")
    (made / "old.json").write_text("old\n")
    (made / "inner").mkdir()
    return made


@pytest.fixture
def folder(everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it for each test, with links and things that are no files."""
    shutil.copytree(everything, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    os.symlink("events.parquet", "link.parquet")
    os.link("events.parquet", "hard.parquet")
    os.symlink("l.db", "link.db")
    os.symlink("old.json", "link.json")
    os.symlink("nowhere", "dangling.json")
    os.symlink("/dev/null", "null.json")
    os.mkfifo("fifo.json")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.json")
        yield tmp_path


def tree(folder: Path) -> dict[str, object]:
    """Everything below a folder: the kind of each thing, its content, where a link goes."""

    def content(path: Path) -> object:
        if path.is_symlink():
            return os.readlink(path)
        return path.read_bytes() if path.is_file() else path.lstat().st_mode

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


INPUTS = ("events.parquet", "plan.json", "keys.txt")
NEVER = [
    "events.parquet", "inner/../events.parquet", "link.parquet", "hard.parquet", "plan.json", "keys.txt",
    "l.db", "link.db", "l.db-journal", "s.json", "s.json.lock", "stream", "stream/state.arrow", "stream/new.json",
    "stream/rounds/0000001.arrow", "inner", "link.json", "dangling.json", "null.json", "fifo.json", "socket.json",
    "missing/new.json", "/dev/null", "/proc/new.json", "x" * 245 + ".json",
]  # fmt: skip


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", NEVER)
def test_what_is_precious_is_never_replaced(name: str, overwrite: bool, folder: Path) -> None:
    before = tree(folder)
    with pytest.raises(dp.InvalidParameter):
        write_text("new", Path(name), inputs=files_of(*INPUTS), overwrite=overwrite)
    assert tree(folder) == before


def test_a_file_is_replaced_on_request_alone(folder: Path) -> None:
    before = tree(folder)
    with pytest.raises(dp.InvalidParameter, match=r"which exists\. Hint: choose another name, or add --overwrite"):
        write_text("new", Path("old.json"))
    assert tree(folder) == before
    write_text("new", Path("old.json"), overwrite=True)
    write_text("new", Path("new.json"))
    assert tree(folder) == {**before, "old.json": b"new", "new.json": b"new"}


def test_a_file_that_appears_in_the_meantime_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphist.files.outputs.check_outputs", lambda *_, **__: None)
    with pytest.raises(dp.InvalidParameter, match="which exists"):
        write_text("new", Path("old.json"))
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(1, "no hard links here")))
    with pytest.raises(dp.InvalidParameter, match="which exists"):
        write_text("new", Path("old.json"))
    write_text("new", Path("new.json"))
    assert (Path("old.json").read_text(), Path("new.json").read_text()) == ("old\n", "new")


def test_a_table_is_refused_with_its_metadata(folder: Path) -> None:
    Path("out.csv.dphist.json").write_text("someone's")
    before = tree(folder)
    with pytest.raises(dp.InvalidParameter, match="which exists"):
        check_table(Path("out.csv"), None)
    with pytest.raises(dp.InvalidParameter, match="which exists"):
        write_table(EVENTS, {}, Path("out.csv"))
    assert tree(folder) == before


@pytest.mark.parametrize("other", ["a.json", "inner/../a.json", "A.json", "a.json.dphist.json"])
def test_outputs_of_one_command_are_different_files(other: str, folder: Path) -> None:
    done = CliRunner().invoke(
        app, ["release", "events.parquet", *RECORDS, "--max-groups", "1", "-o", "a.json", "--report", other]
    )
    assert "a different name for every output" in str(done.exception)
    assert not Path("a.json").exists()


@pytest.mark.parametrize("name", ["other", "events.parquet", "link.parquet", "new/below/out.parquet", "stream", "mine"])
def test_spark_replaces_only_a_folder_of_dphist(name: str, folder: Path) -> None:
    for made in ("mine/_dphist", "source.parquet/_dphist", "other"):
        Path(made).mkdir(parents=True)
    Path("mine.parquet").symlink_to("mine")
    before = tree(folder)
    path = Path(name).with_suffix(".parquet") if name in ("other", "mine") else Path(name)
    if name in ("other", "mine"):
        path = Path(name).rename(path.with_name(f"{name}-folder.parquet"))
        before = tree(folder)
    for overwrite in (False, True):
        if name == "new/below/out.parquet" or (name == "mine" and overwrite):
            check_folder(path, None, overwrite=overwrite)
        else:
            with pytest.raises(dp.InvalidParameter):
                check_folder(path, None, inputs=files_of("events.parquet"), overwrite=overwrite)
    for inside in (
        "source.parquet",
        "source.parquet/part-0.parquet",
    ):  # what is read is never replaced, nor is what is around it
        Path("source.parquet/part-0.parquet").touch()
        with pytest.raises(dp.InvalidParameter, match="not read by the same command"):
            check_folder("source.parquet", None, inputs=files_of(inside), overwrite=True)
    Path("source.parquet/part-0.parquet").unlink()
    assert tree(folder) == before


WRITERS: dict[str, Callable[[str], list[str]]] = {
    "release": lambda out: ["release", "events.parquet", *RECORDS, "--max-groups", "1", "-o", out],
    "release report": lambda out: ["release", "events.parquet", *RECORDS, "--max-groups", "1", "--report", out],
    "top-k": lambda out: ["top-k", "events.parquet", *RECORDS, "--k", "1", "--method", "ranked", "-o", out],
    "top-k report": lambda out: ["top-k", "events.parquet", *RECORDS, "--k", "1", "--method", "ranked", "--report", out],
    "continual add": lambda out: ["continual", "add", "stream", "events.parquet", "--batch", out, "-o", out],
    "continual show": lambda out: ["continual", "show", "stream", "--report", out],
    "plan": lambda out: ["plan", *BUDGET, "--max-groups", "1", "--save", out],
    "plan picture": lambda out: ["plan", *BUDGET, "--max-groups", "1", "--plot", out],
    "profile": lambda out: ["profile", "--noise-std", "9", "--gap", "50", "--max-groups", "1", "--epsilon", "1", "--plot", out],
    "ledger export": lambda out: ["ledger", "export", "--ledger", "l.db", "--dataset", "people", "-o", out],
    "audit": lambda out: ["audit", "--report", out],
}  # fmt: skip
SLOW = {"audit"}


@pytest.mark.parametrize("command", WRITERS)
def test_every_command_keeps_the_rules(command: str, folder: Path) -> None:
    words = WRITERS[command]
    existing = "old.svg" if words("").count("--plot") else "old.json"
    Path(existing).write_text("old\n")
    reads = "events.parquet" in words("")
    before = tree(folder)
    ledger = "l.db" if "--plot" not in words("") else "l.svg"
    if ledger == "l.svg":
        os.rename("l.db", ledger)
        before = tree(folder)
    refused = [(existing, []), ("null.json", ["--overwrite"]), ("stream/new.json", ["--overwrite"])]
    refused += [("link.parquet", ["--overwrite"]), ("hard.parquet", ["--overwrite"])] if reads else []
    refused += [] if "-o" in words("") and command != "ledger export" else [(ledger, ["--overwrite"])]
    for out, more in refused:
        done = CliRunner().invoke(app, [*words(out), *more])
        assert isinstance(done.exception, dp.InvalidParameter), (out, done.output)
        assert ("or add --overwrite" in str(done.exception)) == (more == [])
        assert tree(folder) == before
    if command not in SLOW:
        done = CliRunner().invoke(app, [*words(existing), "--overwrite"])
        assert done.exception is None, (done.output, done.exception)
        assert Path(existing).read_bytes() != b"old\n"


def test_every_command_that_writes_can_be_told_to_overwrite() -> None:
    for words, command in every_command().items():
        flags = {flag for option in command.params for flag in option.opts}
        if flags & {"-o", "--output", "--report", "--save", "--plot"}:
            assert "--overwrite" in flags, words


def test_results_know_what_they_were_made_from(folder: Path) -> None:
    made: list[dp.Release | dp.TopK | dp.RunningCounts] = [
        dp.release("events.parquet", unit="user", by="item", plan="plan.json"),
        dp.release(["events.parquet"], unit="user", by="item", epsilon=1, delta=1e-6, keys=Path("keys.txt")),
        dp.top_k("ev*.parquet", unit="user", by="item", k=1, epsilon=1, delta=1e-6, method="ranked"),
        dp.Continual("stream").add(dp.Files(("events.parquet",)), "second"),
    ]
    kept = [["events.parquet", "plan.json"], ["events.parquet", "keys.txt"], ["events.parquet"], ["events.parquet"]]
    before = tree(folder)
    for found, names in zip(made, kept, strict=True):
        for name in names:
            with pytest.raises(dp.InvalidParameter, match="not read by the same command"):
                found.report(name, overwrite=True)
        with pytest.raises(dp.InvalidParameter, match="not read by the same command"):
            found.write("hard.parquet", overwrite=True)
    assert tree(folder) == before
    for found in made:
        for _ in range(2):
            found.write("out.parquet", overwrite=True)
            found.report("out.html", overwrite=True)
    assert all(check.passed for check in dp.verify("out.parquet"))


def test_public_keys_in_a_list_are_no_files(folder: Path) -> None:
    found = dp.release("events.parquet", unit="user", by="item", epsilon=1, delta=1e-6, keys=["old.json", "i1", "**"])
    found.report("old.json", overwrite=True)


def test_a_check_leaves_nothing_behind(folder: Path) -> None:
    before = tree(folder)
    check_outputs(Path("new.json"), None, Path("inner/new.html"))
    assert tree(folder) == before
