"""What takes longer than most tests that need it, and is the same each time: plans, and commands with their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, is_dataclass
from functools import cache, wraps
from importlib import import_module
from typing import Any
from unittest import mock

PURE = (
    "dphist.planning.plan.choose",
    "dphist.mechanisms.correlated_top_k.calibrate",
    "dphist.mechanisms.from_top.calibrate",
    "dphist.mechanisms.ranked.calibrate",
    "dphist.lists.continual.calibrate",
    "dphist.lists.session.calibrate",
    "typer.main.get_command",
    "typer.testing._get_command",
)
"""Functions of public parameters, or of an application that stays, where they are looked up. Nobody changes what they return."""


@contextmanager
def made_once() -> Iterator[None]:
    """Each is called once in this process for the same arguments; what is refused is refused anew."""
    with ExitStack() as stack:
        for name in PURE:
            module, _, function = name.rpartition(".")
            stack.enter_context(mock.patch.object(import_module(module), function, _remembering(name)))
        yield


@cache
def _remembering(name: str) -> Callable[..., Any]:
    module, _, function = name.rpartition(".")
    call: Callable[..., Any] = getattr(import_module(module), function)
    known: dict[str, Any] = {}

    @wraps(call)
    def find(*arguments: Any, **options: Any) -> Any:
        key = repr(([_plain(one) for one in arguments], sorted(options.items())))  # 1 and 1.0 are printed differently
        if key not in known:
            known[key] = call(*arguments, **options)
        return known[key]

    return find


def _plain(argument: object) -> object:
    return astuple(argument) if is_dataclass(argument) and not isinstance(argument, type) else argument
