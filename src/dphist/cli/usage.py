"""What is wrong with the words of a call, in our words: what is expected, what was given, what to do."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from typing import Any, Final

import typer
from typer.core import TyperOption

from dphist.cli.help import first_sentence
from dphist.planning.options import BudgetOptions, PlanOptions, ReleaseOptions, StatisticOptions, declarations

_OTHERS: Final = {
    "--group-by": "--by", "--groupby": "--by", "--key": "--by", "--id": "--unit", "--user": "--unit", "--person": "--unit",
    "--privacy-unit": "--unit", "--eps": "--epsilon", "--filter": "--where", "--out": "--output", "--average": "--mean",
    "--force": "--overwrite", "--confidence": "--intervals", "--percentile": "--quantile", "-u": "--unit", "-b": "--by",
    "-e": "--epsilon", "-d": "--delta", "-f": "--overwrite", "-q": "--quiet",
}  # fmt: skip
"""Names that other tools have for an option of ours."""


def usage(problem: typer.TyperException) -> str:
    """The message of an error of typer; a call without words shows the help."""
    context: Any = getattr(problem, "ctx", None)
    message = problem.format_message()
    if message.startswith("Usage:"):
        return message
    path = "dphist" if context is None else context.command_path
    told = _told(problem, context, path)
    return message if told is None else f"Expected {told[0]}, got {told[1]}. Hint: {told[2]}"


def _told(problem: Any, context: Any, path: str) -> tuple[str, str, str] | None:
    """What was expected, what came, and what to do."""
    kind, help_ = type(problem).__name__, f"{path} --help shows the options"
    if kind == "NoSuchOption":
        return f"an option of {path}", problem.option_name, f"{_near_option(problem.option_name, context)}{help_}."
    parameter = getattr(problem, "param", None)
    if kind == "MissingParameter" and parameter is not None:
        words = first_sentence(parameter.help or "").strip().rstrip(".")
        words = f"it is {words[:1].lower()}{words[1:]}" if words.startswith(("A ", "The ")) else words
        return _shown(parameter), "none", f"{words}; {help_}."
    if kind == "BadParameter" and parameter is not None:
        wanted, given = _refused(problem)
        return f"{wanted} for {_shown(parameter).split()[0]}", given, _advice(given, wanted, help_)
    if kind == "BadOptionUsage":
        flag = problem.option_name
        if "requires" in problem.message:
            return f"a value behind {flag}", "none", f"write one, as in {flag} {_example(flag, context)}; {help_}."
        return f"{flag} without a value", "one", f"it is on or off: write {flag} alone, or leave it out."
    if "unexpected extra argument" in problem.format_message():
        words = problem.format_message().partition("(")[2].partition("(")[2].rstrip(")")
        return (
            f"no further words for {path}",
            words,
            f"options begin with two dashes, texts with blanks need quotes; {help_}.",
        )
    return None


def _shown(parameter: Any) -> str:
    flag = max(parameter.opts, key=len) if isinstance(parameter, TyperOption) else ""
    return f"{flag} {parameter.metavar or ''}".strip() if flag else str(parameter.metavar or parameter.name).upper()


def _refused(problem: Any) -> tuple[str, str]:
    """What an option wants and what it got, from the error that typer wraps."""
    (first, *_) = problem.__cause__.errors() if hasattr(problem.__cause__, "errors") else [{"type": "", "input": ""}]
    wanted = {"float": "a number", "int": "a whole number"}.get(first["type"].partition("_")[0], "another value")
    return wanted, repr(first["input"])


def _advice(given: str, wanted: str, help_: str) -> str:
    text = given.strip("'")
    if "number" in wanted and text.count(",") == 1 and text.replace(",", "").isdigit():
        return f"write a point: {text.replace(',', '.')}."
    if "number" in wanted and text.endswith("%"):
        return "write a share, such as 0.05 for 5 %."
    if wanted == "a number":
        return "write it in digits, such as 0.5 or 1e-8."
    return (
        "leave the fraction out, as in 10." if text.replace(".", "", 1).isdigit() else "write it in digits, such as 10."
    )


def _example(flag: str, context: Any) -> str:
    parameters = [] if context is None else context.command.params
    return next((str(one.metavar) for one in parameters if flag in one.opts and one.metavar), "VALUE")


def _near_option(name: str, context: Any) -> str:
    """The option that may be meant: another tool's name for it, one dash too few, or a typing error."""
    flags = [flag for one in context.command.params for flag in (*one.opts, *one.secondary_opts)]
    whole = next((word for word in sys.argv[1:] if word.startswith(name) and f"-{word}" in flags), None)
    close = [f"-{whole}"] if whole else [_OTHERS[name]] if _OTHERS.get(name) in flags else []
    close = close or [flag for flag in get_close_matches(name, flags, n=1, cutoff=0.7) if flag != name]
    return f"did you mean {close[0]}? " if close else ""


def with_flags(message: str) -> str:
    """An error of the library as one of the command line: what it expects of a parameter, it expects of an option.

    Only what stands before the value that was given, which may be the name of a column.
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
