"""Options are read strictly: each once, zero and nothing like any other value, and the same in every command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from argument_fuzz import USUAL, commands, usual

from command_line import dphist
from dphist.errors import InvalidParameter
from dphist.planning.options import BudgetOptions, PlanOptions, declarations

COMMANDS = commands()
HOLDS_ONE = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if not parameter.multiple
    and (not getattr(parameter, "is_flag", True) or getattr(parameter, "secondary_opts", None))
]
SHARED = {
    name
    for name in set(declarations(PlanOptions))
    & set(declarations(BudgetOptions)) - {"keys", "count_of"}  # read, or a column
    if declarations(PlanOptions)[name].option.default is not False
}
NASTY = (
    "0",
    "",
    "-1",
    "-0",
    " ",
    "0.0",
    "nan",
    "inf",
    "1e-308",
    "5e-324",
    "1e308",
    "9223372036854775808",
    "true",
    "[]",
    "a:0:1e308",
)


def _twice(parameter: object) -> list[str]:
    flag, others = parameter.opts[-1], parameter.secondary_opts  # type: ignore[attr-defined]
    return [flag, *others] if others else [f"{flag}=1", f"{flag}=1"]


@pytest.mark.parametrize("name", sorted({name for name, _ in HOLDS_ONE}))
def test_a_second_value_is_refused_in_every_command(name: str) -> None:
    """It was ignored, or the first one was."""
    parameters = [parameter for owner, parameter in HOLDS_ONE if owner == name]
    assert parameters
    for parameter in parameters:
        words = [*usual(name, parameter.opts), *_twice(parameter)]
        with pytest.raises(InvalidParameter, match=f"{parameter.opts[-1]}(/--quick)? once, got it more than once"):
            COMMANDS[name].make_context(name, words)


def test_a_second_condition_is_one_line_and_code_2() -> None:
    done = dphist("release", *USUAL["release"], "--where", "a > 1", "--where", "a > 2")
    assert done.returncode == 2
    assert done.stderr == "dphist: Expected --where once, got it more than once. Hint: leave all but one of them out.\n"


def test_what_adds_up_may_be_repeated() -> None:
    repeated = {flag for command in COMMANDS.values() for one in command.params if one.multiple for flag in one.opts}
    assert repeated == {
        "--against",
        "--table",
        "--public",
        "--unit",
        "--by",
        "--keys",
        "--sum",
        "--mean",
        "--variance",
        "--quantile",
        "--median",
        "--distinct",
        "--std",
        "--count-of",
        "--weight",
        "--type",
        "--null",
        "--epsilon",
    }
    done = dphist("plan", *USUAL["plan"], "--sum", "a:0:1", "--sum", "b:0:1")
    assert done.returncode == 0
    assert "sum_b" in done.stdout


def test_a_flag_may_be_set_twice() -> None:
    assert dphist("plan", *USUAL["plan"], "--json", "--json").returncode == 0


@pytest.mark.parametrize("values", [NASTY[:2], pytest.param(NASTY[2:], marks=pytest.mark.fuzz)], ids=["few", "many"])
@pytest.mark.parametrize("name", [name for name in declarations(PlanOptions) if name in SHARED])
def test_release_refuses_what_plan_refuses_and_in_the_same_words(
    name: str, values: Sequence[str], tmp_path: Path
) -> None:
    (tmp_path / "events.csv").write_text("user,url,n\na,b,1\n")
    option = declarations(PlanOptions)[name].option
    flag = option.flag or f"--{name.replace('_', '-')}"
    for value in values:
        planned = dphist("plan", *usual("plan", [flag]), f"{flag}={value}", cwd=tmp_path)
        released = dphist("release", *usual("release", [flag]), f"{flag}={value}", "--dry-run", cwd=tmp_path)
        assert planned.returncode == released.returncode, (value, planned.stderr, released.stderr)
        assert planned.stderr.replace("plan --help", "") == released.stderr.replace("release --help", ""), value


def test_an_option_beside_a_plan_is_refused_also_where_it_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,url\na,b\n")
    assert dphist("plan", *USUAL["plan"], "--low-threshold", "5", "--save", "plan.json", cwd=tmp_path).returncode == 0
    words = ("release", "events.csv", "--unit", "user", "--by", "url", "--plan", "plan.json", "--dry-run")
    assert dphist(*words, cwd=tmp_path).returncode == 0
    for default in (("--low-threshold", "1"), ("--mechanism", "best"), ("--objective", "release95")):
        done = dphist(*words, *default, cwd=tmp_path)
        assert done.returncode == 2
        assert "the plan says it" in done.stderr


@pytest.mark.parametrize(
    "option", ["--master", "--remote", "--staging", "--where", "--unit", "--by", "--dataset", "--accountant"]
)
def test_nothing_is_no_value(option: str, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("user,url\na,b\n")
    name = "ledger create" if option in ("--dataset", "--accountant") else "release"
    done = dphist(*name.split(), *usual(name, [option]), f"{option}=", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") <= 2
