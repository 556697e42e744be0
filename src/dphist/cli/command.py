"""Commands on click: options in panels, examples first, each option at most once, and options that reach a command in groups.

click reads the words of a call, lays out the help and completes words. This module adds what click has no setting for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import click
from click.core import ParameterSource

from dphist.cli.output import say
from dphist.errors import InvalidParameter
from dphist.planning.options import BudgetOptions, Panel, PlanOptions, ReleaseOptions, StatisticOptions, declarations

HELP: Final = "Help"
PANELS: Final = (*get_args(Panel), HELP)
MOST_OPTIONS: Final = 28
"""Of a command with more options `--help` shows the common ones, and `--help-all` shows all."""

_ALL: Final = "dphist.cli: whether help shows all options"
_SETTINGS: Final = {"max_content_width": 100, "show_default": True}

FILE: Final = click.Path(path_type=Path, readable=False)

_OTHERS: Final = {
    "--group-by": "--by", "--groupby": "--by", "--key": "--by", "--id": "--unit", "--user": "--unit", "--person": "--unit",
    "--privacy-unit": "--unit", "--eps": "--epsilon", "--filter": "--where", "--out": "--output", "--average": "--mean",
    "--force": "--overwrite", "--confidence": "--intervals", "--percentile": "--quantile", "-u": "--unit", "-b": "--by",
    "-e": "--epsilon", "-d": "--delta", "-f": "--overwrite", "-q": "--quiet",
}  # fmt: skip
"""Names that other tools have for an option of ours."""


class _Number(click.ParamType[float]):
    """The type of options for numbers. Its error says how to write a number."""

    name = "number"
    read: Callable[[str], float] = float
    hint = "write it in digits, such as 0.5 or 1e-8."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that a word stands for."""
        try:
            return type(self).read(value)
        except ValueError:
            flag = max(param.opts, key=len) if param else self.name
            raise InvalidParameter(f"a {self.name} for {flag}", repr(value), self._advice(value)) from None

    def _advice(self, text: str) -> str:
        if text.count(",") == 1 and text.replace(",", "").isdigit():
            return f"write a point: {text.replace(',', '.')}."
        return "write a share, such as 0.05 for 5 %." if text.endswith("%") else self.hint


class _Whole(_Number):
    """A whole number."""

    name = "whole number"
    read = int

    def _advice(self, text: str) -> str:
        fraction = text.replace(".", "", 1).isdigit()
        return "leave the fraction out, as in 10." if fraction else super()._advice(text)

    hint = "write it in digits, such as 10."


NUMBER: Final = _Number()
WHOLE: Final = _Whole()


class Option(click.Option):
    """An option. flags: may begin with another name for Python. choices: the words that it takes.

    Without a metavar, a type and choices it takes no value. common: whether `--help` shows it among many others.
    """

    def __init__(
        self,
        flags: str,
        help: str,  # noqa: A002 - click's name
        panel: Panel | Literal["Help"] = "Advanced",
        *,
        common: bool = False,
        choices: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        self.panel = panel
        metavars: dict[Any, str] = {NUMBER: "NUMBER", WHOLE: "NUMBER", FILE: "FILE"}
        kind = "NAME" if choices else metavars.get(settings.get("type"))
        settings.setdefault("metavar", kind)
        if settings["metavar"] is None:  # is_flag=False would let click take an option without its value
            settings["is_flag"] = True
        listed = any(re.search(rf"\b{word}\b", help) is None for word in choices)
        words = f"{help} One of {', '.join(choices)}." if listed else help
        if choices:
            settings["shell_complete"] = completed(choices)
        super().__init__(flags.split(), help=words, show_envvar=True, **settings)
        self.common = common or self.required


def completed(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """The words that a shell offers behind the first letters of one."""
    return lambda context, parameter, begun: [word for word in words if word.startswith(begun)]


@dataclass(frozen=True, slots=True)
class Options:
    """Options that are declared once and reach a command as one value.

    name: the parameter of the command. value: makes its value from the values of the options. named: leave out the options
    that a call does not name.
    """

    name: str
    options: tuple[Option | click.Argument, ...]
    value: Callable[..., Any] = dict
    named: bool = False

    def only(self, *names: str) -> Options:
        """The group with these options alone."""
        return replace(self, options=tuple(one for one in self.options if one.name in names))

    def without(self, *names: str) -> Options:
        """The group without these options."""
        return replace(self, options=tuple(one for one in self.options if one.name not in names))

    def take(self, context: click.Context, given: dict[str, Any]) -> Any:
        """The value of the group. Its options are taken out of `given`."""
        values = {str(one.name): given.pop(str(one.name)) for one in self.options}
        if self.named:
            named = (name for name in values if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
            values = {name: values[name] for name in named}
        return self.value(**values)


class Command(click.Command):
    """A command. Its options are in panels, and only options that add up may be repeated."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a call. click would ignore the first of two values of one option without a word."""
        if not ctx.resilient_parsing:
            try:
                _, _, given = self.make_parser(ctx).parse_args(list(args))
            except click.UsageError as problem:
                problem.ctx = problem.ctx or ctx  # some errors of click lack the command
                raise
            _check_once([one for one in given if isinstance(one, click.Option)])
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels."""
        options = [one for one in self.params if isinstance(one, Option)]
        everything = ctx.meta.get(_ALL, False) or len(options) <= MOST_OPTIONS
        shown = [one for one in options if everything or one.common]
        rows: dict[str, tuple[str, str] | None] = {one.name: one.get_help_record(ctx) for one in shown}
        if hidden := len(options) - len(shown):
            rows["help_all"] = ("--help-all", f"Show all options: {hidden} more.")
        for panel in PANELS:
            _write_panel(formatter, panel, [rows[one.name] for one in shown if one.panel == panel])


class Group(click.Group):
    """Some commands under a name."""

    def __init__(self, name: str, help: str, *options: click.Parameter) -> None:  # noqa: A002
        super().__init__(
            name,
            params=[*options, *_help_options()],
            help=help,
            add_help_option=False,
            no_args_is_help=True,
            context_settings=_SETTINGS,
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order in which they are declared."""
        return list(self.commands)

    def panels(self) -> dict[str, list[tuple[str, str]]]:
        """The commands for the help, with a sentence each."""
        return {"Commands": [(name, first_sentence(one.help or "")) for name, one in self.commands.items()]}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the panels: commands, and the options of the group."""
        for panel, commands in self.panels().items():
            _write_panel(formatter, panel, commands)
        _write_panel(formatter, HELP, [one.get_help_record(ctx) for one in self.params])


Part = Option | click.Argument | Options | Iterable[Option | click.Argument]


def command(*parts: Part, group: Group | None = None, name: str = "") -> Callable[[Callable[..., None]], Command]:
    """Make a function a command that takes these options and groups of options."""
    groups = [part for part in parts if isinstance(part, Options)]

    def build(function: Callable[..., None]) -> Command:
        def run(**given: Any) -> None:
            values = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
            context = click.get_current_context()
            taken = {one.name: one.take(context, values) for one in groups}
            function(**values, **taken)

        built = Command(
            name or function.__name__,
            params=[*_parameters(parts), *_help_options()],
            callback=run,
            help=function.__doc__,
            add_help_option=False,
            context_settings=_SETTINGS,
        )
        if group is not None:
            group.add_command(built)
        return built

    return build


def _parameters(parts: Iterable[Part]) -> Iterator[click.Parameter]:
    for part in parts:
        if isinstance(part, Options):
            yield from part.options
        elif isinstance(part, click.Parameter):
            yield part
        else:
            yield from part


def first_sentence(text: str) -> str:
    """The first sentence of a help, for a list of commands or keys.

    >>> first_sentence("Begin a stream. Touches no data.")
    'Begin a stream.'
    """
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def _write_panel(formatter: click.HelpFormatter, name: str, rows: Sequence[tuple[str, str] | None]) -> None:
    if rows:
        with formatter.section(name):
            formatter.write_dl([row for row in rows if row is not None], col_max=25)


def _help_options() -> tuple[Option, Option]:
    once: dict[str, Any] = {"is_eager": True, "expose_value": False, "callback": _show_help}
    return (
        Option("-h --help", "Show this help.", HELP, common=True, **once),
        Option("--help-all", "Show all options.", HELP, common=True, **once),
    )


def _show_help(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = option.name == "help_all"
        say(context.get_help())
        context.exit()


def _check_once(given: Sequence[click.Option]) -> None:
    seen = set()
    for one in given:
        holds_one = not one.multiple and (not one.is_flag or bool(one.secondary_opts))
        if holds_one and one.name in seen:
            flags = "/".join((*one.opts[-1:], *one.secondary_opts[-1:]))
            raise InvalidParameter(f"{flags} once", "it more than once", "leave all but one of them out.")
        seen.add(one.name)


def usage(problem: click.ClickException) -> str:
    """The message of an error of click. A call without words shows the help."""
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        return problem.format_message()
    expected, got, hint = _told(problem)
    return f"Expected {expected}, got {got}. Hint: {hint}"


def _told(problem: Any) -> tuple[str, str, str]:
    """What click expected, what the call has, and what to do."""
    context: click.Context | None = getattr(problem, "ctx", None)
    from difflib import get_close_matches

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
    from difflib import get_close_matches

    flags = [flag for one in parameters for flag in (*one.opts, *one.secondary_opts)]
    whole = next((word for word in sys.argv[1:] if word.startswith(name) and f"-{word}" in flags), None)
    close = [f"-{whole}"] if whole else [_OTHERS[name]] if _OTHERS.get(name) in flags else []
    close = close or [flag for flag in get_close_matches(name, flags, n=1, cutoff=0.7) if flag != name]
    return f"did you mean {close[0]}? " if close else ""


def with_flags(message: str) -> str:
    """An error of the library with flags in the place of parameters.

    Only the words before the refused value change: the value may be the name of a column.
    """
    flags = {
        name: one.option.flag or f"--{name.replace('_', '-')}"
        for kind in (PlanOptions, BudgetOptions, ReleaseOptions, StatisticOptions)
        for name, one in declarations(kind).items()
    } | {name: f"--{name}" for name in ("k", "method", "of", "queries", "results", "rounds", "shortlist", "threads")}
    parameter = (
        rf"(?<![-\w])(?:{'|'.join(name for name in flags if '_' in name)})\b"
        rf"|(?<![-\w])(?:{'|'.join(flags)})\b(?= to be | of at | in \(| in \[| > 0| >= 0| from \d)"
    )
    expected, got, rest = message.partition(", got ")
    return re.sub(parameter, lambda found: flags[found[0]], expected) + got + rest
