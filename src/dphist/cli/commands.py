"""Commands that take each option once: of two values one would be ignored, and nobody would be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from dphist.errors import InvalidParameter


class StrictCommand(TyperCommand):
    """Refuses a second value of an option that holds one. A flag that is set twice says nothing new."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the words of a call, in which only options that add up may be repeated."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        if not ctx.resilient_parsing:
            _check_once([one for one in given if isinstance(one, TyperOption)])
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """An application, or a part of one, whose commands are strict."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command."""
        return super().command(name, cls=StrictCommand, **settings)


def _check_once(given: Sequence[TyperOption]) -> None:
    seen = set()
    for one in given:
        holds_one = not one.multiple and (not one.is_flag or bool(one.secondary_opts))
        if holds_one and one.name in seen:
            flags = "/".join((*one.opts[-1:], *one.secondary_opts[-1:]))
            raise InvalidParameter(f"{flags} once", "it more than once", "leave all but one of them out.")
        seen.add(one.name)
