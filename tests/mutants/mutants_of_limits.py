"""Every limit: twice as large, one unit or group more, a number that is not clamped, a function without its guard.

The list is made from the code: constants of modules whose names say that they are the most, the least or the longest of
something, and every place that names one; in engines also where groups or values of a unit are left out, and where numbers
are clamped. `limits.toml` names the tests that must notice; a new place without tests fails `test_every_limit_has_tests`.
"""

from __future__ import annotations

import ast
import re
from functools import cache, partial
from itertools import chain, pairwise
from typing import Final

from places import Module, modules, numbered

from mutants import Mutant, table

_UP: Final = "MOST|LONGEST|LARGEST|DEEPEST|WIDEST"
_DOWN: Final = "LEAST|SMALLEST"
_NAME: Final = re.compile(rf"_?(?:[A-Z0-9]+_)*(?:(?P<up>{_UP})|{_DOWN})(?:_[A-Z0-9]+)*")

_WORD: Final = re.compile(f"{_UP}|{_DOWN}")

_WORDS: Final = re.compile(
    r"at most |at least |between 1 and |from 2 to |in \[0, |\b1 to |not even |budget that shows "
)
"""In a text with a number in it: the text is read by people."""


_TABLES: Final = table("limits")
TESTS, GUARDS, BOUNDS, CLAMPS = (_TABLES[name] for name in ("uses", "guards", "bounds", "clamps"))
WHOLE, CHECKED = (tuple(_TABLES["whole"][name]) for name in ("tests", "places"))
NO_LIMITS: Final = frozenset(chain.from_iterable(_TABLES["no_limits"].values()))
_NOT_LIMITED: Final = frozenset(chain.from_iterable(_TABLES["not_limited"].values()))

_MOST: Final = {"max_groups", "most_groups", "most", "sparsity", "largest"}
"""How engines call the number of groups or values that a unit is bounded to."""


@cache
def constants() -> frozenset[str]:
    """The limits, by file and name."""
    found = set()
    for module in modules():
        limited = _WORD.search(module.text) and not module.file.startswith("audit/")
        for node in module.tree.body if limited else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [name for target in targets if target is not None for name in ast.walk(target)]
            found |= {f"{module.file}::{_last(name)}" for name in names if _NAME.fullmatch(_last(name))}
    return frozenset(found)


@cache
def uses() -> dict[str, tuple[Module, ast.expr]]:
    """Every place that names a limit, but where it is only told."""
    found: dict[str, tuple[Module, ast.expr]] = {}
    for module in modules():
        if module.file.startswith("audit/") or not _WORD.search(module.text):
            continue
        names = [node for node in module.parents if _is_limit(module, node) and not _is_told(module, node)]
        for key, node in numbered(module, names, _last).items():
            assert isinstance(node, ast.expr)
            found[key] = module, node
    return found


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_limit(module: Module, node: ast.AST) -> bool:
    """Whether this names a limit, of this file or of another."""
    name = _last(node)
    if (
        not _NAME.fullmatch(name)
        or not isinstance(node, ast.Name | ast.Attribute)
        or not isinstance(node.ctx, ast.Load)
    ):
        return False
    own = f"{module.file}::{name}"
    named = {own} & constants() or {one for one in constants() if one.endswith(f"::{name}")}
    return not named <= NO_LIMITS


def _is_told(module: Module, node: ast.AST) -> bool:
    """Whether a limit stands in a text for people, or in an error."""
    for outer in module.around(node):
        if isinstance(outer, ast.Raise) or (isinstance(outer, ast.JoinedStr) and _WORDS.search(ast.unparse(outer))):
            return True
        if isinstance(outer, ast.stmt):
            return False
    return False


def limited() -> set[str]:
    """The uses that must have tests."""
    return uses().keys() - _NOT_LIMITED


def guards() -> dict[str, tuple[Module, ast.expr]]:
    """The guards of the functions that an expression may use, by the function."""
    module = next(one for one in modules() if one.file == "engines/functions.py")
    words = [node for node in module.parents if isinstance(node, ast.keyword) and node.arg == "guard"]
    found = {}
    for word in words:
        call = module.parents[word]
        if isinstance(call, ast.Call) and _last(call.func) == "_with":
            found[f"{ast.literal_eval(call.args[0])} of {len(call.args) - 1}"] = module, word.value
    return found


@cache
def bounds() -> dict[str, tuple[Module, ast.expr]]:
    """Where an engine leaves out what a unit has beyond so many groups or values, or more groups than there may be."""
    found: dict[str, tuple[Module, ast.expr]] = {}
    for module in (one for one in modules() if one.file.startswith(("engines/", "aggregates/"))):
        places: list[ast.AST] = []
        for text in (node for node in module.parents if isinstance(node, ast.JoinedStr)):
            for before, value in pairwise(text.values):
                if isinstance(before, ast.Constant) and isinstance(value, ast.FormattedValue):
                    after = re.search(r"(<=|>|LIMIT) $|GREATEST\($", str(before.value))
                    if after and _MOST & {_last(node) for node in ast.walk(value.value)}:
                        places.append(value.value)
        for key, node in numbered(module, places, module.of).items():
            if isinstance(node, ast.expr) and key not in _NOT_LIMITED:
                found[key] = module, node
    return found


@cache
def clamps() -> dict[str, tuple[Module, ast.Call]]:
    """Where an engine clamps numbers, by the first argument."""
    found: dict[str, tuple[Module, ast.Call]] = {}
    for module in (
        one for one in modules() if one.file.startswith(("engines/", "aggregates/")) and "clamped(" in one.text
    ):
        calls = [node for node in module.parents if isinstance(node, ast.Call) and _last(node.func) == "clamped"]
        for key, node in numbered(module, list(calls), lambda _: "clamped").items():
            if isinstance(node, ast.Call) and key not in _NOT_LIMITED:
                found[key] = module, node
    return found


def _first_argument(module: Module, call: ast.AST) -> str:
    return module.of(call.args[0]) if isinstance(call, ast.Call) else ""


@cache
def checked() -> dict[str, tuple[Module, ast.expr]]:
    """Where a whole number is checked, by the words for it."""
    found: dict[str, tuple[Module, ast.expr]] = {}
    for module in modules():
        if module.file.startswith("audit/") or "check_whole(" not in module.text:
            continue
        calls = [node for node in module.parents if isinstance(node, ast.Call) and _last(node.func) == "check_whole"]
        for key, node in numbered(module, list(calls), partial(_first_argument, module)).items():
            assert isinstance(node, ast.expr)
            found[key] = module, node
    return found


def _named(key: str) -> str:
    return key.replace("/", "-").replace("::", "-").replace(".py-", "-").replace(" ", "")


def _mutant(key: str) -> Mutant:
    module, node = uses()[key]
    found = _NAME.fullmatch(_last(node))
    assert found is not None
    new = f"(2 * {module.of(node)})" if found["up"] else f"({module.of(node)} / 2)"
    return module.mutant(
        f"limit-{_named(key)}", node, new, "a limit is what it is said to be", tuple(TESTS.get(key, ()))
    )


def _without(name: str) -> Mutant:
    module, guard = guards()[name]
    breaks = "no value of a record ends a run or asks for all the memory"
    return module.mutant(f"guard-{name.replace(' ', '-')}", guard, "None", breaks, tuple(GUARDS.get(name, ())))


def _one_more(key: str) -> Mutant:
    module, node = bounds()[key]
    breaks = "a unit has no more groups or values than it is bounded to"
    return module.mutant(f"bound-{_named(key)}", node, f"{module.of(node)} + 1", breaks, tuple(BOUNDS.get(key, ())))


def _not_clamped(key: str) -> Mutant:
    module, call = clamps()[key]
    breaks = "no number is outside of its bounds"
    return module.mutant(f"clamp-{_named(key)}", call, module.of(call.args[0]), breaks, tuple(CLAMPS.get(key, ())))


def _not_checked(key: str) -> Mutant:
    module, call = checked()[key]
    name = re.sub(r"[\"' ]", "", _named(key))
    return module.mutant(f"whole-{name}", call, "None", "what is no whole number in its limits is refused", WHOLE)


MUTANTS: Final[tuple[Mutant, ...]] = (
    *map(_mutant, sorted(limited())),
    *map(_without, guards()),
    *map(_one_more, bounds()),
    *map(_not_clamped, clamps()),
    *map(_not_checked, checked()),
)
