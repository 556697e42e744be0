"""Every mechanism and every accounting function names what proves it, and what it names is there."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

import pytest

import dphist.mechanisms
import dphist.privacy
from dphist.explanations import pages, references
from dphist.ledger.accountant import price
from dphist.mechanisms.base import Mechanism
from dphist.mechanisms.counts import CountNoise
from dphist.privacy.events import Event
from dphist.run.totals import noisy_units

SEARCHES = {"dphist.privacy.search", "dphist.privacy.correlated_design"}
"""Modules that invert forward maps: what they return was evaluated with a function that names its proof."""

NO_ACCOUNTING = {
    "adaptive": {"Rule", "smallest_bars", "smallest_threshold"},
    "composition": {"PrivacyCost", "epsilon_from_rho", "smallest_std"},
    "events": {kind.__name__ for kind in get_args(Event)} | {"from_data"},
    "filters": {"Amount", "largest_rho", "value"},
    "gaussian": {"largest_mu", "quantile_for_infinity", "raise_for_rounding", "theta"},
    "ranked": {"smallest_threshold", "threshold", "threshold_paper"},
    "special": {"hurry"},
    "sparse_gaussian": {"best_pair", "smallest_gap", "smallest_noise"},
    "truncated_laplace": {"Calibrated", "LossOfOneBar", "calibrate", "check_bars", "smallest_q"},
    "unknown_domain": {"levels", "rounds_by_popcount", "smallest_gap_laplace"},
    "voting": {"capacity", "votes_for"},
    "weaker": {"paper_gap_for_infinity"},
}
"""Searches for a point where a forward map holds, records of numbers, rounding and counting: they prove nothing themselves."""


def public(module: Any) -> Iterator[tuple[str, Any]]:
    """The functions and classes that a module defines for others."""
    for name, thing in vars(module).items():
        defined = getattr(inspect.unwrap(thing) if callable(thing) else thing, "__module__", None)
        if not name.startswith("_") and defined == module.__name__ and callable(thing):
            yield name, thing


def accounting() -> Iterator[tuple[str, Any]]:
    """The accounting functions of privacy/, with the exceptions that are not there any more."""
    for found in pkgutil.iter_modules(dphist.privacy.__path__, "dphist.privacy."):
        if found.name not in SEARCHES:
            names = dict(public(import_module(found.name)))
            left_out = NO_ACCOUNTING.get(found.name.rpartition(".")[2], set())
            assert left_out <= set(names), found.name
            yield from ((f"{found.name}.{name}", thing) for name, thing in names.items() if name not in left_out)


def mechanisms() -> Iterator[tuple[str, Any]]:
    """The mechanisms of all files of the room: frozen dataclasses; what several share is none."""
    for found in pkgutil.iter_modules(dphist.mechanisms.__path__, "dphist.mechanisms."):
        for name, thing in public(import_module(found.name)):
            if inspect.isclass(thing) and issubclass(thing, Mechanism) and "__dataclass_params__" in vars(thing):
                yield name, thing


PROVED = dict(
    [*accounting(), *mechanisms(), ("CountNoise", CountNoise), ("noisy_units", noisy_units), ("price", price)]
)


def anchors(page: str) -> set[str]:
    """The headings of a page, and the bold names of its statements: Theorem 1 (in words) is theorem-1."""
    text = pages()[page].read_text("utf-8")
    names = re.findall(r"^#+ (.+)$|^\*\*(.+?)\*\*", text, re.MULTILINE)
    short = [re.sub(r"^((?:Theorem|Lemma) \d+)\b.*", r"\1", heading or bold) for heading, bold in names]
    return {"-".join(re.findall(r"\w+", name.lower())) for name in short}


def test_each_mechanism_has_a_proof_of_its_own() -> None:
    """What a class inherits is said about another law."""
    found = dict(mechanisms())
    assert set(dphist.mechanisms.GROUP_MECHANISMS) <= set(found.values())
    assert len(found) == 15
    assert all("proof" in vars(kind) for kind in found.values())


@pytest.mark.parametrize("name", PROVED)
def test_what_is_named_is_there(name: str) -> None:
    proof = getattr(PROVED[name], "proof", None)
    assert proof is not None, f"{name} needs @proved, or is listed in NO_ACCOUNTING"
    if "#" in proof:
        page, anchor = proof.split("#")
        assert anchor in anchors(page.removesuffix(".md")), proof
        return
    key, theorem = re.fullmatch(r"\[(\w+)\] (.+)", proof).groups()  # type: ignore[union-attr]
    kind, number = theorem.split(" ")
    assert re.search(rf"{kind[:-1]}[^:]*?(?<![\d.]){re.escape(number)}(?!\.?\d)", references()[key]), proof


def test_an_anchor_that_is_not_there_is_noticed() -> None:
    assert {"theorem-1", "lemma-2", "the-guarantee"} <= anchors("adaptive")
    assert "theorem-2" not in anchors("adaptive")
    assert {"theorem-lists", "theorem-streams"} <= anchors("unknown-domain")
