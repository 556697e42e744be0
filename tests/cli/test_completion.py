"""Completion as a shell asks for it: commands, options, and the words that an option takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from argument_fuzz import commands

from command_line import dphist
from dphist.cli.app import COMMANDS
from dphist.planning import choices

NAMES = [name for entries in COMMANDS.values() for name in entries]


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Complete:
    def ask(*words: str) -> list[str]:
        """What bash offers for the last of the words."""
        monkeypatch.setenv("_DPHIST_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["dphist", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        done = dphist()
        assert (done.returncode, done.stderr) == (0, "")
        return [line.removeprefix("plain,") for line in done.stdout.split() if line.startswith("plain,")]

    return ask


def test_commands_complete(complete: Complete) -> None:
    assert complete("") == NAMES
    assert complete("s") == [name for name in NAMES if name.startswith("s")]
    assert complete("ledger", "") == ["create", "show", "history", "verify", "export", "record"]


@pytest.mark.parametrize("name", commands())
def test_every_option_completes(name: str, complete: Complete) -> None:
    offered = complete(*name.split(), "--")
    flags = {flag for one in commands()[name].params for flag in (*one.opts, *one.secondary_opts) if flag[:2] == "--"}
    assert set(offered) == flags


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("release x --mechanism", choices.MECHANISMS),
        ("select x --mechanism", choices.OF_SELECTIONS),
        ("profile --mechanism", ("sparse-gaussian", "correlated-gaussian", "laplace", "gaussian")),
        ("plan --analysis", choices.ANALYSES),
        ("plan --objective", choices.OBJECTIVES),
        ("plan --noise", choices.NOISES),
        ("plan --emphasis", ("groups", "balanced", "counts")),
        ("release x --null-keys", ("group", "drop")),
        ("release x --order", ("count", "key")),
        ("release x --engine", ("duckdb", "spark")),
        ("top-k x --method", choices.METHODS),
        ("bounds x --of", choices.BOUNDS),
        ("stat max x --as", ("number", "text")),
        ("ledger create --accountant", choices.ACCOUNTANTS),
        ("ledger record --protects", choices.PROTECTS),
        ("stat", choices.STATISTICS),
        ("sql x --table events.parquet --table urls=u.csv --public", ("events", "urls")),
        ("sql x --table events.parquet --unit", ("events",)),
        ("sql x --engine", ("duckdb", "spark")),
        ("release x --epsilon", ()),
        ("release x --where", ()),
    ],
)
def test_the_words_of_an_option_complete(words: str, offered: tuple[str, ...], complete: Complete) -> None:
    assert complete(*words.split(), "") == list(offered)
    for one in offered:
        assert one in complete(*words.split(), one[:2])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_after_it_is_installed(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "dphist"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dphist "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "SHELL": "bash",
    }

    def bash(script: str) -> str:
        words = ["bash", "--norc", "-c", script]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout

    assert "bash completion installed in" in bash("dphist --install-completion; true")
    shown = bash("dphist --show-completion; true")
    assert "complete -o nosort -F _dphist_completion dphist" in shown
    assert shown.split() == (tmp_path / ".bash_completions" / "dphist.sh").read_text().split()
    asked = 'COMP_WORDS=(dphist release --engine ""); COMP_CWORD=3; _dphist_completion dphist; echo "${COMPREPLY[@]}"'
    assert bash(f"source ~/.bash_completions/dphist.sh; {asked}") == "duckdb spark\n"
