"""Commands with our help, that take each option once: of two values one would be ignored, and nobody would be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from dphist.cli.help import HELP, Row, first_sentence, help_of
from dphist.cli.options import option
from dphist.cli.output import say
from dphist.cli.registry import COMMANDS
from dphist.errors import InvalidParameter


class StrictCommand(TyperCommand):
    """Refuses a second value of an option that holds one. A flag that is set twice says nothing new."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{**settings, "add_help_option": False})
        self.params.extend(_help_options())

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the words of a call, in which only options that add up may be repeated."""
        try:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
        except typer.TyperException as problem:
            if getattr(problem, "ctx", ctx) is None:  # some errors do not say of which command they are
                problem.ctx = ctx  # type: ignore[attr-defined]
            raise
        if not ctx.resilient_parsing:
            _check_once([one for one in given if isinstance(one, TyperOption)])
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what `-h` shows."""
        formatter.write(help_of(ctx))


class Group(TyperGroup):
    """Some commands under a name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "add_help_option": False, "no_args_is_help": True})
        self.params.extend(_help_options())

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write what `-h` shows."""
        formatter.write(help_of(ctx))

    def listed(self) -> dict[str, list[Row]]:
        """The commands for the help, in parts."""
        return {"Commands": [Row(name, first_sentence(one.help or "")) for name, one in self.commands.items()]}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names."""
        if args[0] not in self.commands and not ctx.resilient_parsing and not args[0].startswith("-"):
            hint = f"{near(args[0], self.commands)}{ctx.command_path} --help lists them."
            raise InvalidParameter(f"a command of {ctx.command_path}", repr(args[0]), hint)
        return super().resolve_command(ctx, args)


class Registered(Group):
    """All commands of the registry, each loaded when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names."""
        return list(self.commands)

    def listed(self) -> dict[str, list[Row]]:
        """The commands for the help, in parts, without loading one."""
        return {
            panel: [Row(name, entry.words) for name, entry in entries.items()] for panel, entries in COMMANDS.items()
        }


class Commands(typer.Typer):
    """An application, or a part of one, whose commands are strict."""

    def __init__(self, **settings: Any) -> None:
        usual: dict[str, Any] = {"cls": Group, "add_completion": False}
        super().__init__(**{**usual, **settings}, rich_markup_mode=None, pretty_exceptions_enable=False)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command."""
        return super().command(name, cls=StrictCommand, **settings)


class _Loaded(Mapping[str, Any]):
    def __init__(self) -> None:
        self._entries = {name: entry for entries in COMMANDS.values() for name, entry in entries.items()}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, _, attribute = self._entries[name].place.partition(":")
            self._loaded[name] = _built(name, getattr(import_module(f"dphist.cli.{module}"), attribute))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _built(name: str, what: Any) -> Any:
    if isinstance(what, Commands):
        return get_command(what)
    alone = Commands()
    alone.command(name)(what)
    return get_command(alone)


def near(word: str, words: Iterator[str] | Mapping[str, Any] | Sequence[str]) -> str:
    """A suggestion for a word that is none of these, if one is near."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(words), 1)
    return f"did you mean {found[0]}? " if found else ""


def _show(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        say(help_of(context))
        raise typer.Exit


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        say(help_of(context, everything=True))
        raise typer.Exit


def _helped(
    help: Annotated[  # noqa: A002 - its name in calls
        bool, option("-h --help", "Show this help.", HELP, callback=_show, is_eager=True, expose_value=False)
    ] = False,
    help_all: Annotated[
        bool, option("--help-all", "Show all options.", HELP, callback=_show_all, is_eager=True, expose_value=False)
    ] = False,
) -> None:
    """The options that every command has."""


@cache
def _help_options() -> list[Any]:
    """As typer makes them."""
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(_helped)
    return get_command(app).params


def _check_once(given: Sequence[TyperOption]) -> None:
    seen = set()
    for one in given:
        holds_one = not one.multiple and (not one.is_flag or bool(one.secondary_opts))
        if holds_one and one.name in seen:
            flags = "/".join((*one.opts[-1:], *one.secondary_opts[-1:]))
            raise InvalidParameter(f"{flags} once", "it more than once", "leave all but one of them out.")
        seen.add(one.name)
