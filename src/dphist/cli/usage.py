"""Errors of click in our words: what is expected, what was given, what to do."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from typing import Any, Final

import click

from dphist.cli.command import first_sentence
from dphist.planning.options import BudgetOptions, PlanOptions, ReleaseOptions, StatisticOptions, declarations

_OTHERS: Final = {
    "--group-by": "--by", "--groupby": "--by", "--key": "--by", "--id": "--unit", "--user": "--unit", "--person": "--unit",
    "--privacy-unit": "--unit", "--eps": "--epsilon", "--filter": "--where", "--out": "--output", "--average": "--mean",
    "--force": "--overwrite", "--confidence": "--intervals", "--percentile": "--quantile", "-u": "--unit", "-b": "--by",
    "-e": "--epsilon", "-d": "--delta", "-f": "--overwrite", "-q": "--quiet",
}  # fmt: skip
"""Names that other tools have for an option of ours."""


def usage(problem: click.ClickException) -> str:
    """The message of an error of click. A call without words shows the help."""
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        return problem.format_message()
    expected, got, hint = _told(problem)
    return f"Expected {expected}, got {got}. Hint: {hint}"


def _told(problem: Any) -> tuple[str, str, str]:
    """What click expected, what the call has, and what to do."""
    context: click.Context | None = getattr(problem, "ctx", None)
    path = "dphist" if context is None else context.command_path
    parameters = [] if context is None else context.command.params
    help_ = f"{path} --help shows the options"
    match problem:
        case click.NoSuchOption():
            return (
                f"an option of {path}",
                problem.option_name,
                f"{_near_option(problem.option_name, parameters)}{help_}.",
            )
        case click.exceptions.NoSuchCommand():
            names = (
                context.command.list_commands(context) if context and isinstance(context.command, click.Group) else []
            )
            near = "".join(f"did you mean {name}? " for name in get_close_matches(problem.command_name, names, 1))
            return f"a command of {path}", repr(problem.command_name), f"{near}{path} --help lists them."
        case click.MissingParameter(param=click.Parameter() as parameter):
            words = first_sentence(getattr(parameter, "help", None) or "").strip().rstrip(".")
            words = f"it is {words[:1].lower()}{words[1:]}" if words.startswith(("A ", "The ")) else words
            flag = max(parameter.opts, key=len)
            shown = f"{flag} {parameter.metavar}" if isinstance(parameter, click.Option) else flag.upper()
            return shown, "none", f"{words}; {help_}."
        case click.BadOptionUsage(option_name=flag) if "requires" in problem.message:
            example = next((one.metavar for one in parameters if flag in one.opts and one.metavar), "VALUE")
            return f"a value behind {flag}", "none", f"write one, as in {flag} {example}; {help_}."
        case click.BadOptionUsage(option_name=flag):
            return f"{flag} without a value", "one", f"it is on or off: write {flag} alone, or leave it out."
    words = problem.format_message().partition("(")[2].rstrip(").")
    return (
        f"no further words for {path}",
        words or problem.format_message(),
        f"options begin with two dashes, texts with blanks need quotes; {help_}.",
    )


def _near_option(name: str, parameters: list[click.Parameter]) -> str:
    """The option that the user may mean: by another tool's name for it, with one dash too few, or with a typing error."""
    flags = [flag for one in parameters for flag in (*one.opts, *one.secondary_opts)]
    whole = next((word for word in sys.argv[1:] if word.startswith(name) and f"-{word}" in flags), None)
    close = [f"-{whole}"] if whole else [_OTHERS[name]] if _OTHERS.get(name) in flags else []
    close = close or [flag for flag in get_close_matches(name, flags, n=1, cutoff=0.7) if flag != name]
    return f"did you mean {close[0]}? " if close else ""


def with_flags(message: str) -> str:
    """An error of the library with flags in the place of parameters.

    Only the words before the refused value change: the value may be the name of a column.
    """
    expected, got, rest = message.partition(", got ")
    return _PARAMETER.sub(lambda found: _FLAGS[found[0]], expected) + got + rest


_FLAGS: Final = {
    name: one.option.flag or f"--{name.replace('_', '-')}"
    for kind in (PlanOptions, BudgetOptions, ReleaseOptions, StatisticOptions)
    for name, one in declarations(kind).items()
} | {name: f"--{name}" for name in ("k", "method", "of", "queries", "results", "rounds", "shortlist", "threads")}
_PARAMETER: Final = re.compile(
    rf"(?<![-\w])(?:{'|'.join(name for name in _FLAGS if '_' in name)})\b"
    rf"|(?<![-\w])(?:{'|'.join(_FLAGS)})\b(?= to be | of at | in \(| in \[| > 0| >= 0| from \d)"
)
