"""The commands of the program and the options of each, as the program itself has them."""

from __future__ import annotations

from functools import cache
from typing import Any

import click

from dphist.cli.app import app


@cache
def options(*path: str) -> frozenset[str] | None:
    """The options of the command that these words call; None if there is none."""
    command = _command(path)
    if command is None:
        return None
    return frozenset(
        flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("-")
    )


@cache
def every_option() -> frozenset[str]:
    return frozenset().union(*(options(*path) or () for path in paths()))


@cache
def paths(*path: str) -> tuple[tuple[str, ...], ...]:
    """The words of every command, that of the program itself first: nothing."""
    command = _command(path)
    names = command.list_commands(click.Context(command)) if hasattr(command, "list_commands") else []
    return (path, *(below for name in names for below in paths(*path, name)))


def split(words: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """The words that name a command, and those that it gets."""
    path: tuple[str, ...] = ()
    for word in words:
        if (*path, word) not in paths():
            break
        path = (*path, word)
    return path, list(words[len(path) :])


def parse(words: tuple[str, ...], place: str) -> None:
    """Fail unless a call has the form that the program takes. Nothing is run."""
    path, rest = split(words[1:])
    assert path or not rest or rest[0].startswith("-"), f"{place}: no such command: {rest[0]}"
    unknown = [word for word in flags(rest) if word not in (options(*path) or ())]
    assert not unknown, f"{place}: no such option: {', '.join(unknown)}"
    command = _command(path)
    if hasattr(command, "list_commands"):
        return
    try:
        command.make_context(" ".join(path), rest)
    except click.ClickException as problem:
        raise AssertionError(f"{place}: {problem}") from problem


def flags(words: list[str]) -> list[str]:
    """The options among some words."""
    return [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2]


def _command(path: tuple[str, ...]) -> Any:
    command: Any = app
    for word in path:
        command = command.get_command(click.Context(command), word) if hasattr(command, "get_command") else None
        if command is None:
            return None
    return command
