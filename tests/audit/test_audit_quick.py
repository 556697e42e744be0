"""The quick audit: every mechanism of the product holds, everything broken on purpose is caught.

Here with fewer runs of what is sampled: noise left out shows in all of them, noise a fifth too small where one release holds
many runs. `make test-statistical` has as many as `dphist audit`.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dphist.audit.attacks import ImplementationAttack
from dphist.audit.broken import Broken, broken, sizes
from dphist.audit.claims import claims
from dphist.audit.judge import FAMILY_ALPHA, Claim, attack
from dphist.audit.run import attack_part, judge, what_is_attacked

ROOT = Path(__file__).parents[2]
CLAIMS, PARTS, _ = what_is_attacked(None, None, thorough=False)
ALPHA = FAMILY_ALPHA / sum(claim.trials is not None for claim in CLAIMS)

MECHANISMS = {
    "sparse-gaussian", "laplace", "correlated-gaussian", "known-groups", "known-laplace", "known-discrete", "discrete-gaussian",
    "discrete-correlated-gaussian", "adaptive", "automatic choice", "from-top", "ranked", "correlated-top-k", "session",
    "continual", "truncated-laplace", "sketch", "voting",
}  # fmt: skip

SAMPLED = [claim for claim in CLAIMS if claim.trials is not None]

LEAST_RUNS = 150
"""With half of them an event that is certain on one side alone is still above every claim."""

NEEDED = {
    "covered once per group": 2,
    "noise 10 % too small": 1,
    "a tree for the price of a sum": 1,
    "a size for every group": 1,
}
"""Breaks that a sixth of the runs may miss, and the part of them that sees each."""

SEEN_ELSEWHERE = {"adaptive weights not normalised"}
"""Breaks that need all runs, seconds of them. This one has a shorter attack of its own in tests/adaptive."""


def in_fewer_runs(claim: Claim, part: int = 6) -> Claim:
    return replace(claim, quick=max(claim.quick // part, min(claim.quick, LEAST_RUNS)))


def in_words(claim: Claim) -> str:
    return f"{claim.name}: {claim.setting}"


@pytest.mark.parametrize("claim", CLAIMS, ids=in_words)
def test_the_claim_holds(claim: Claim) -> None:
    found = attack(in_fewer_runs(claim), ALPHA, thorough=False)
    assert found.holds, found
    if found.attack == "exact":
        assert found.ratio is not None
        assert found.ratio > 0.4  # the attack is not blind


@pytest.mark.statistical
@pytest.mark.parametrize("claim", SAMPLED, ids=in_words)
def test_the_claim_holds_in_all_runs(claim: Claim) -> None:
    found = attack(claim, ALPHA, thorough=False)
    assert found.holds, found


ELSEWHERE = {"noise on every number", "contribution bounds", "bounds, pairs written", "sketches", "locality"}
"""Each opens the engine dozens of times. The same is tested in tests/publish/test_drawn_laws.py,
tests/engines/test_engine_bounding.py, tests/adaptive, tests/histogram and tests/locality."""


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=pytest.mark.long) if part.name in ELSEWHERE else part for part in PARTS],
    ids=lambda part: part.name,
)
def test_the_implementation_withstands(part: ImplementationAttack) -> None:
    found = attack_part(part)
    assert found.holds, found.detail


BROKEN = broken()


@pytest.mark.parametrize("one", [one for one in BROKEN if one.name not in SEEN_ELSEWHERE], ids=lambda one: one.name)
def test_what_is_broken_is_caught(one: Broken) -> None:
    fewer = one if one.claim is None else replace(one, attacked=in_fewer_runs(one.claim, NEEDED.get(one.name, 6)))
    assert not judge(fewer, ALPHA, thorough=False).holds


@pytest.mark.statistical
@pytest.mark.parametrize("one", [one for one in BROKEN if one.claim and one.claim.trials], ids=lambda one: one.name)
def test_what_is_broken_is_caught_in_all_runs(one: Broken) -> None:
    assert not judge(one, ALPHA, thorough=False).holds


def test_every_mechanism_has_a_tightness_ratio_and_runs_of_its_own() -> None:
    assert {claim.mechanism for claim in CLAIMS if claim.pairs is not None} == MECHANISMS
    assert {claim.mechanism for claim in CLAIMS if claim.trials is not None} == MECHANISMS


def test_every_mechanism_of_the_package_is_audited() -> None:
    import dphist.mechanisms

    named = {getattr(kind, "name", None) for kind in vars(dphist.mechanisms).values() if isinstance(kind, type)}
    assert {name for name in named if isinstance(name, str)} <= MECHANISMS


def test_every_claim_can_be_attacked_in_one_way() -> None:
    for claim in claims(thorough=True):
        assert (claim.pairs is None) != (claim.trials is None)
        assert claim.trials is None or 0 < claim.quick < claim.thorough


def test_the_readme_says_how_many_broken_copies_are_caught() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"must catch all of {len(BROKEN)} copies that are broken on purpose" in readme


def test_the_documentation_names_every_mechanism_and_every_break() -> None:
    words = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert all(name in words for name in MECHANISMS)
    assert all(one.name in words for one in broken())
    assert all(part.name in words.lower() for part in PARTS)
    tables = words.partition("<!-- audit: begin -->")[2].partition("<!-- audit: end -->")[0]
    rows = {line.split(" | ")[0].removeprefix("| ") for line in tables.splitlines() if line.startswith("| ")}
    assert rows >= {*(one.name for one in (*BROKEN, *sizes())), *(part.name for part in PARTS)}, "run make audit"
    assert rows >= {claim.name for claim in claims(thorough=True)}, "run make audit"
    assert re.search(rf"at commit `[0-9a-f]+`.* {len(BROKEN)} of {len(BROKEN)} broken mechanisms were caught", tables)
    assert "NOT CAUGHT:" not in words
    assert "BROKEN:" not in words
