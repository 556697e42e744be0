"""What takes longer than most tests that need it, and is the same each time: plans, and commands with their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest import mock

PURE = {
    "dphist.planning.plan": "choose",
    "dphist.run.continual": "calibrate",
    "dphist.run.session": "calibrate",
}
"""Functions of public parameters, where they are looked up. What they return is fixed."""

OF_LISTS = ("correlated_top_k", "from_top", "ranked")
"""Modules whose `calibrate` a plan of a list calls; tests that call it themselves get what it finds."""


@contextmanager
def made_once() -> Iterator[None]:
    """Each is called once in this process for the same arguments; what is refused is refused anew."""
    with ExitStack() as stack:
        for module, name in PURE.items():
            stack.enter_context(mock.patch(f"{module}.{name}", _remembering(module, name)))
        for name in OF_LISTS:
            known = SimpleNamespace(calibrate=_remembering(f"dphist.mechanisms.{name}", "calibrate"))
            stack.enter_context(mock.patch(f"dphist.planning.top_k.{name}", known))
        yield


@cache
def _remembering(module: str, name: str) -> Callable[..., Any]:
    call: Callable[..., Any] = getattr(import_module(module), name)
    known: dict[str, Any] = {}

    @wraps(call)
    def find(*arguments: Any, **options: Any) -> Any:
        key = repr(([_plain(one) for one in arguments], sorted(options.items())))  # 1 and 1.0 are printed differently
        if key not in known:
            known[key] = call(*arguments, **options)
        return known[key]

    return find


def _plain(argument: object) -> object:
    """Its fields with the name of its class: two kinds of aggregates may have equal fields."""
    if isinstance(argument, tuple):
        return [_plain(one) for one in argument]
    if not is_dataclass(argument) or isinstance(argument, type):
        return argument
    return type(argument).__name__, *(_plain(getattr(argument, one.name)) for one in fields(argument))
