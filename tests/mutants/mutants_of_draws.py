"""Every number that is drawn: without noise, with 0.9 of it, and with twice the sensitivity.

The list of draws is made from the code: every call of a function that draws and takes the size of the noise, from the
samplers of `dphist.noise`, which read words of a source, up to those that call them. `TESTS` says which tests must notice;
a draw without tests fails `test_every_draw_has_tests`.
"""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain
from typing import Final

from mutants_of_mathematics import (
    BUDGET,
    CHOICE,
    COSTS_OF_ROUNDS,
    COUNTED,
    FROM_TOP,
    FROM_TOP_COSTS,
    PUBLISHED,
    RANKED,
    ROUNDS,
    STREAM,
    TOP_K,
    TOP_K_COSTS,
)
from places import Module, modules, numbered

from mutants import Mutant

_BOTH: Final = (PUBLISHED, BUDGET)
_OF_ROUNDS: Final = (COUNTED, COSTS_OF_ROUNDS)
_EXACT: Final = "tests/noise/test_noise_exact.py::"
_TREES: Final = "tests/publish/test_quantile_release.py::"
_VOTING: Final = "tests/mechanisms/test_voting_mechanism.py::"
_LOOK: Final = "tests/voting/test_voting_engines.py::test_the_look_noises_every_share_with_the_law_that_is_paid_for"
_BOUNDS: Final = "tests/publish/test_drawn_bounds.py::"
_BARS: Final = (
    "tests/mechanisms/test_truncated_laplace_mechanism.py::test_counts_are_drawn_with_the_law_that_is_paid_for"
)

_OF_LISTS: Final = (TOP_K, TOP_K_COSTS)
_SAMPLED: Final = "tests/noise/test_noise_sampling.py::test_a_close_call_of_a_discrete_law_is_decided_by_further_words"
_COINS: Final = "tests/noise/test_noise_bernoulli.py::test_a_tie_is_decided_by_further_words"
_SIZED_BY_NOISE: Final = "tests/publish/test_withheld.py::test_sizes_follow_from_the_noise_of_the_tree"
_PAID_TREES: Final = _TREES + "test_the_trees_that_are_drawn_are_those_that_are_paid_for"
_SELECTED_TREES: Final = _TREES + "test_trees_of_selected_groups_have_noise_for_all_the_groups_of_a_unit"
_QUANTILES: Final = "tests/quantiles/test_quantiles.py::"
_TREE: Final = (
    _QUANTILES + "test_every_draw_is_of_the_law_and_each_node_has_one",
    _QUANTILES + "test_noise_is_added_to_the_steps_of_every_node",
)
_RECORDS: Final = "tests/unknown_domain/test_drawn_lists.py::test_counts_of_records_have_the_noise_they_cost"
_SIZED: Final = _BOUNDS + "test_every_histogram_of_a_release_is_paid_for"
_FOUND: Final = _BOUNDS + "test_bounds_by_themselves_draw_what_they_charge"
_TOLD: Final = _BOUNDS + "test_what_is_told_follows_from_the_noisy_histogram_alone"

TESTS: Final[dict[str, tuple[str, ...]]] = {
    "mechanisms/base.py::GroupMechanism.perturb_sums::sample": _BOTH,
    "mechanisms/base.py::add_noise::sample": _BOTH,
    "mechanisms/base.py::shared_noise::sample": _BOTH,
    "mechanisms/continual.py::ContinualCounts.draw::sample": (STREAM,),
    "mechanisms/correlated_gaussian.py::CorrelatedGaussian.draw_shared::shared_noise": _BOTH,
    "mechanisms/correlated_gaussian.py::CorrelatedGaussian.perturb_part::add_noise": _BOTH,
    "mechanisms/correlated_top_k.py::CorrelatedTopK.perturb::shared_noise-1": _OF_LISTS,
    "mechanisms/correlated_top_k.py::CorrelatedTopK.perturb::shared_noise-2": _OF_LISTS,
    "mechanisms/correlated_top_k.py::CorrelatedTopK.perturb::add_noise": _OF_LISTS,
    "mechanisms/discrete_correlated.py::DiscreteCorrelatedGaussian.draw_shared::sample": _BOTH,
    "mechanisms/discrete_correlated.py::DiscreteCorrelatedGaussian.perturb_part::add_noise": _BOTH,
    "mechanisms/discrete_gaussian.py::DiscreteGaussianThreshold.perturb_part::add_noise": _BOTH,
    "mechanisms/from_top.py::FromTop.perturb::sample": (FROM_TOP, FROM_TOP_COSTS),
    "mechanisms/from_top.py::FromTop.perturb::add_noise": (FROM_TOP, FROM_TOP_COSTS),
    "mechanisms/known_discrete.py::KnownDiscrete.perturb_part::add_noise": _BOTH,
    "mechanisms/known_groups.py::KnownGroups.draw_shared::shared_noise": _BOTH,
    "mechanisms/known_groups.py::KnownGroups.perturb_part::add_noise": _BOTH,
    "mechanisms/known_laplace.py::KnownLaplace.perturb_part::add_exactly": _BOTH,
    "mechanisms/known_laplace.py::KnownLaplace.perturb_sums::add_exactly": _BOTH,
    "mechanisms/laplace.py::LaplaceThreshold.perturb_part::add_noise": _BOTH,
    "mechanisms/ranked.py::Ranked.choose::exponential_top_k": (RANKED,),
    "mechanisms/records.py::_released::add_noise": (_RECORDS,),
    "mechanisms/records.py::LaplaceRecords.perturb::_released": (_RECORDS,),
    "mechanisms/records.py::GaussianRecords.perturb::_released": (_RECORDS,),
    "mechanisms/sparse_gaussian.py::SparseGaussian.perturb_part::add_noise": _BOTH,
    "mechanisms/truncated_laplace.py::TruncatedLaplace.perturb::add_noise": (_BARS,),
    "mechanisms/voting.py::Voting.perturb_part::toss": (_VOTING + "test_coins_have_the_rule_as_their_chance",),
    "noise/enclosure.py::bernoulli_exp::below_exp": (_COINS,),
    "noise/exact.py::add_exactly::sample_exactly": (_EXACT + "test_noise_is_added_to_the_values_as_they_are",),
    "noise/sampling.py::BlockSampler.accepts_exactly::below_exp": (_SAMPLED,),
    "planning/sizes.py::_error::noisy_quantiles": (_SIZED_BY_NOISE,),
    "publish/bounds.py::bounds.run::noise_sizes": (_FOUND, _TOLD),
    "publish/sizing.py::settle_bounds::noise_sizes": (_SIZED, _TOLD),
    "publish/table.py::noisy_trees::noisy_quantiles": (_PAID_TREES,),
    "publish/totals.py::noisy_units::add_exactly": _BOTH,
    "quantiles.py::_Noise.add::_draw": _TREE,
    "quantiles.py::_draw::sample": _TREE,
    "selection/bounds.py::noise_sizes::add_exactly": (_FOUND, _TOLD),
    "selection/choice.py::noisy_degrees::sample": (CHOICE,),
    "selection/choice.py::decide::noisy_degrees": (CHOICE,),
    "selection/counting.py::noise_trees::noisy_quantiles": (_SELECTED_TREES,),
    "selection/counting.py::noise_norms::sample": _OF_ROUNDS,
    "selection/counting.py::noise_classes.add_noise_to_counts::sample-1": _OF_ROUNDS,
    "selection/counting.py::noise_classes.add_noise_to_counts::sample-2": _OF_ROUNDS,
    "selection/counting.py::noise_classes.add_noise_to_counts::sample-3": _OF_ROUNDS,
    "selection/rounds.py::noise_sums::sample": (ROUNDS,),
    "selection/voting.py::noise_shares.add_noise_to_shares::sample": (_LOOK,),
}

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
        module.mutant(f"draw-{name}-{kind}", node, new, _BREAKS[kind], TESTS.get(key, ()))
        for kind, (node, new) in _bugs(module, call).items()
    )


MUTANTS: Final[tuple[Mutant, ...]] = tuple(chain.from_iterable(map(_mutants, draws())))
