"""Help: what it shows is recorded; every option has its place; one flag means one thing in all commands."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import Any

import pytest
from argument_fuzz import commands
from record_help import FOLDER, WIDTH, texts

from command_line import dphist, examples_of
from dphist.cli.command import PANELS, Option

MOST_LINES = 80
TEXTS = texts()
COMMANDS = commands()
OPTIONS = [
    (name, one) for name, command in COMMANDS.items() for one in command.params if one.param_type_name == "option"
]
TYPES = re.compile(r"<\w|\blist\[|\bTEXT\b.*\bTEXT\b|\bINTEGER\b|\bFLOAT\b")

MEANS_SOMETHING_ELSE = {
    "--unit": "sql has one for each table",
    "--table": "sql names one, stat prints one",
    "--mechanism": "profile describes one that is chosen, audit attacks one",
    "--max-groups": "a bound on one batch, or of one method, is another bound",
    "--epsilon": "profile prints it, ledger record was told it, statements share it",
    "--delta": "profile prints it, ledger record was told it, statements share it",
    "--noise-std": "profile is told the noise that a plan would choose",
    "--lower": "stat clamps to it; bounds only searches above it",
    "--upper": "stat clamps to it; bounds only searches below it",
    "--k": "a number of groups, or of records in stat max-k",
    "--shortlist": "of one list, or of every query of a session",
    "--output": "ledger export writes JSON, all others a table",
}
NOTHING_ELSE_HAPPENS = {
    "demo",
    "profile",
    "stat",
    "bounds",
    "explain",
    "ledger show",
    "ledger history",
    "session query",
    "session show",
}
"""Commands that only print: told to be quiet they would do nothing, or lose what was paid for."""
PRINTS_TEXT = {"demo": "a first look", "explain": "pages to read", "ledger export": "JSON, always"}


@pytest.mark.parametrize("name", TEXTS)
def test_help_is_as_recorded(name: str) -> None:
    assert TEXTS[name] == (FOLDER / name).read_text(), "python tests/cli/record_help.py records it anew"


def test_nothing_else_is_recorded() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_help_is_short_narrow_and_says_no_types(name: str) -> None:
    lines = TEXTS[name].splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert name.endswith("-all.txt") or len(lines) <= MOST_LINES
    assert not TYPES.search(TEXTS[name])
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [60, 100])
def test_help_says_the_same_at_every_width(width: int) -> None:
    """Lines break elsewhere, and that is all."""
    for name, text in texts(width).items():
        assert "".join(text.split()) == "".join(TEXTS[name].split())


@pytest.mark.parametrize("words", ["", *COMMANDS, "ledger", "session", "continual"])
@pytest.mark.parametrize(("flag", "suffix"), [("-h", ""), ("--help", ""), ("--help-all", "-all")])
def test_every_command_takes_every_flag_of_help(
    words: str, flag: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    done = dphist(*words.split(), flag)
    name = "-".join(["dphist", *words.split()])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TEXTS.get(f"{name}{suffix}.txt", TEXTS[f"{name}.txt"])


def test_help_all_shows_every_option_and_help_the_common_ones() -> None:
    for name, command in COMMANDS.items():
        file = "-".join(["dphist", *name.split()])
        short, full = TEXTS[f"{file}.txt"], TEXTS.get(f"{file}-all.txt", TEXTS[f"{file}.txt"])
        for one in command.params:
            said = one.opts[-1] if one.param_type_name == "option" else one.metavar or one.opts[0].upper()
            assert re.search(rf"^  .*{re.escape(said)}(?![\w-])", full, re.MULTILINE), (name, said)
            shown = re.search(rf"^  .*{re.escape(said)}(?![\w-])", short, re.MULTILINE) is not None
            assert shown or (one.param_type_name == "option" and not one.common), (name, said)
        if short != full:
            assert f"Show all options: {_hidden(command)} more." in short


def _hidden(command: Any) -> int:
    return sum(not one.common for one in command.params if one.param_type_name == "option")


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=[f"{name} {one.opts[-1]}" for name, one in OPTIONS])
def test_every_option_has_a_panel_help_and_a_metavar(name: str, option: Any) -> None:
    assert isinstance(option, Option)
    assert option.panel in PANELS
    assert option.help
    assert option.help.endswith((".", "?"))
    assert option.is_flag or re.fullmatch(r"[A-Z]+([:=][A-Z]+)*", option.metavar or ""), option.metavar
    assert option.is_flag or option.multiple == ("epeat" in option.help), "an option that adds up says so"


def test_one_flag_has_one_meaning() -> None:
    said: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, one in OPTIONS:
        words = one.help.split(" One of ")[0]
        said[one.opts[-1]][f"{words} {one.metavar} {one.panel} {one.opts}"].append(name)
    several = {flag: dict(texts) for flag, texts in said.items() if len(texts) > 1}
    assert several.keys() == MEANS_SOMETHING_ELSE.keys(), several


def test_one_meaning_has_one_flag() -> None:
    said: dict[str, set[str]] = defaultdict(set)
    for _, one in OPTIONS:
        said[one.help].add(one.opts[-1])
    assert all(len(flags) == 1 for flags in said.values()), said


def test_results_can_be_silenced_and_read_by_programs() -> None:
    flags = {name: {flag for one in command.params for flag in one.opts} for name, command in COMMANDS.items()}
    assert {name for name in COMMANDS if "--quiet" not in flags[name]} == NOTHING_ELSE_HAPPENS
    assert {name for name in COMMANDS if "--json" not in flags[name]} == set(PRINTS_TEXT)


def test_examples_can_be_copied_from_the_help() -> None:
    """Broken lines, put together by a shell, are the example as it was written."""
    for name, command in COMMANDS.items():
        shown = TEXTS[f"{'-'.join(['dphist', *name.split()])}.txt"].replace("\\\n", "")
        copied = [shlex.split(line) for line in shown.splitlines() if line.startswith("    dphist ")]
        assert copied == [shlex.split(one) for one in examples_of(command)]
