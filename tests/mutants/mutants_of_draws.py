"""Every number that is drawn: without noise, with 0.9 of it, and with twice the sensitivity.

The list of draws is made from the code: every call of a function that draws and takes the size of the noise, from the
samplers of `dphist.noise`, which read words of a source, up to those that call them. `draws.toml` names the tests that must
notice; a draw without tests fails `test_every_draw_has_tests`.
"""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain
from typing import Final

from places import Module, modules, numbered

from mutants import Mutant, table

TESTS: Final[dict[str, list[str]]] = table("draws")

_SIZES: Final = ("law", "scale", "independent_std", "epsilon", "coefficient", "gamma", "probabilities")
"""How a function calls the size of the noise that it draws."""

_VALUES: Final = ("values", "counts", "exact", "utilities", "choice")
"""How it calls what the noise is for; a sampler without gives the noise alone."""

_LESS: Final = {
    "law": '__import__("drawn_laws").weaker({})',
    "scale": "0.9 * ({})",
    "independent_std": "0.9 * ({})",
    "epsilon": "({}) / 0.9",
    "coefficient": "({}) * 10 / 9",
    "gamma": "({}) * 9 / 10",
    "probabilities": "[2**128 - (2**128 - k) * 9 // 10 for k in {}]",
}
_HALF: Final = {"law": '__import__("drawn_laws").weaker({}, 0.5)', "independent_std": "0.5 * ({})", "gamma": "2 * ({})"}
_SILENT: Final = {
    "toss": "({choice}) > 0",
    "exponential_top_k": 'np.argsort(-({utilities}), kind="stable")[:{k}]',
    "add_exactly": "np.asarray({values})",
}


@cache
def samplers() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The functions that draw noise of a size that they are given, with their files and the names of their parameters.

    A function draws if it reads words itself, or if it uses a function or a private class that draws.
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    drawing, before = {"current_source", "next_word"}, 0
    while len(drawing) > before:
        before = len(drawing)
        for file, node, names in _parts():
            given = tuple(arg.arg for arg in node.args.args) if isinstance(node, ast.FunctionDef) else ()
            if names & drawing and (set(_SIZES) & set(given) or isinstance(node, ast.ClassDef)):
                drawing.add(node.name)
                found |= {node.name: (file, given)} if given else {}
    return found


def _parts() -> list[tuple[str, ast.FunctionDef | ast.ClassDef, set[str]]]:
    """The functions and private classes of the package outside the audit, with their files and the names they use."""
    return [
        (module.file, node, {name.id for part in node.body for name in ast.walk(part) if isinstance(name, ast.Name)})
        for module in modules()
        for node in module.tree.body
        if not module.file.startswith("audit/")
        and (isinstance(node, ast.FunctionDef) or (isinstance(node, ast.ClassDef) and node.name.startswith("_")))
    ]


@cache
def draws() -> dict[str, tuple[Module, ast.Call]]:
    """Every draw by file, function and sampler."""
    found: dict[str, tuple[Module, ast.Call]] = {}
    for module in modules():
        if module.file.startswith("audit/") or not any(name in module.text for name in samplers()):
            continue  # the audit breaks what it attacks
        here = {alias.asname or alias.name: alias.name for alias in _imported(module)}
        here |= {name: name for name, (file, _) in samplers().items() if file == module.file}
        names = [node for node in module.parents if here.get(_name(node), "") in samplers()]
        for key, name in numbered(module, names, _name).items():
            call = module.parents[name]
            if not isinstance(call, ast.Call) or call.func is not name:
                raise ValueError(f"{key}: a sampler is called where it is named, or the list of draws is not complete")
            found[key] = module, call
    return found


def _imported(module: Module) -> list[ast.alias]:
    """What a file has from other files of the package, by name."""
    imports = (node for node in module.parents if isinstance(node, ast.ImportFrom))
    return [alias for node in imports if (node.module or "").startswith("dphist") for alias in node.names]


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _bugs(module: Module, call: ast.Call) -> dict[str, tuple[ast.AST, str]]:
    """What is exchanged for what: the noise left out, made less, and set against twice the sensitivity."""
    sampler = _name(call.func)
    given = dict(zip(samplers()[sampler][1], call.args, strict=False)) | {
        word.arg: word.value for word in call.keywords
    }
    size = next(name for name in _SIZES if name in given)
    values = next((name for name in _VALUES if name in given), None)
    texts = {name: module.of(node) for name, node in given.items() if name}
    bugs: dict[str, tuple[ast.AST, str]] = {"less": (given[size], _LESS[size].format(texts[size]))}
    if sampler in _SILENT:
        bugs["silent"] = call, _SILENT[sampler].format(**texts)
    elif sampler in ("sample", "sample_exactly"):
        bugs["silent"] = call, f"(0 * {module.of(call)})"
    if sampler == "toss":
        bugs["twice"] = given["choice"], "np.minimum(2 * ({choice}), len({probabilities}) - 1)".format(**texts)
    elif values is not None:
        bugs["twice"] = given[values], f"2 * ({texts[values]})"
    elif (other := _added_to(module, call)) is not None:
        bugs["twice"] = other, f"2 * ({module.of(other)})"
    else:
        bugs["twice"] = given[size], _HALF[size].format(texts[size])
    return bugs


def _added_to(module: Module, call: ast.Call) -> ast.expr | None:
    """What the noise is added to in the same expression."""
    inner: ast.AST = call
    for outer in module.around(call):
        if isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add):
            return outer.left if outer.right is inner else outer.right
        if isinstance(outer, ast.stmt):
            return None
        inner = outer
    return None


_BREAKS: Final = {
    "silent": "every number has its noise",
    "less": "the noise that is drawn is that which is paid for",
    "twice": "one unit moves a number by no more than its noise is for",
}


def _mutants(key: str) -> tuple[Mutant, ...]:
    module, call = draws()[key]
    name = key.replace("/", "-").replace("::", "-").removesuffix(".py").replace(".py-", "-")
    return tuple(
        module.mutant(f"draw-{name}-{kind}", node, new, _BREAKS[kind], tuple(TESTS.get(key, ())))
        for kind, (node, new) in _bugs(module, call).items()
    )


MUTANTS: Final[tuple[Mutant, ...]] = tuple(chain.from_iterable(map(_mutants, draws())))
