"""--quiet prints nothing but errors, --json one object and nothing else: in every command that takes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from argument_fuzz import USUAL, commands, prepare

from command_line import dphist
from dphist.cli.output import say

COMMANDS = commands()
TAKES = {
    flag: [name for name, command in COMMANDS.items() if any(flag in one.opts for one in command.params)]
    for flag in ("--quiet", "--json")
}
SLOW = "audit"
"""It takes half a minute; its own tests run it."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", [name for name in TAKES["--quiet"] if name != SLOW])
def test_quiet_prints_nothing(name: str, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    more = ("-o", "top.csv") if name == "top-k" else ()
    done = dphist(*name.split(), *USUAL[name], *more, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "name", [*(name for name in TAKES["--json"] if name not in (SLOW, "verify")), "top-k --dry-run", "stat --dry-run"]
)
def test_json_is_one_object_and_nothing_else(name: str, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    command, _, more = name.partition(" --")
    done = dphist(*command.split(), *USUAL[command], "--json", *([f"--{more}"] if more else []), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


def test_a_quiet_list_that_would_be_lost_is_refused(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    done = dphist("top-k", *USUAL["top-k"], "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dphist: Expected -o FILE or --report FILE beside --quiet, got neither."
        " Hint: the list would be paid for and lost.\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("relese", "Expected a command of dphist, got 'relese'. Hint: did you mean release? dphist --help lists them."),
        ("zzz", "Expected a command of dphist, got 'zzz'. Hint: dphist --help lists them."),
        (
            "ledger creat",
            "Expected a command of dphist ledger, got 'creat'. Hint: did you mean create? dphist ledger --help lists them.",
        ),
    ],
)
def test_a_command_that_does_not_exist_names_the_nearest_one(words: str, message: str) -> None:
    done = dphist(*words.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"dphist: {message}\n")


@pytest.mark.parametrize("words", ["", "ledger", "session", "continual"])
def test_no_command_shows_the_help(words: str) -> None:
    done = dphist(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == dphist(*words.split(), "--help").stdout


def test_an_option_that_does_not_exist_names_the_nearest_one() -> None:
    done = dphist("plan", "--epsilom", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--epsilom" in done.stderr
    assert "--epsilon" in done.stderr
    assert "dphist plan --help" in done.stderr


def test_what_is_said_gives_no_orders_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of files and columns, and whatever an error quotes, were typed by anybody."""
    for err in (False, True):
        say("red\x1b[31m, \u202eback, line\nline, bell\x07", err=err)
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert not set(text) & set("\x1b\u202e\x07")
        assert text.count("\n") == 2
