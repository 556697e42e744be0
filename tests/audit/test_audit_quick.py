"""The quick audit: every mechanism of the product holds, everything broken on purpose is caught."""

from pathlib import Path

import pytest

from dphist.audit.attacks import ImplementationAttack
from dphist.audit.broken import Broken, broken
from dphist.audit.claims import claims
from dphist.audit.judge import FAMILY_ALPHA, Claim, attack
from dphist.audit.run import attack_part, judge, what_is_attacked

CLAIMS, PARTS, _ = what_is_attacked(None, None, thorough=False)
ALPHA = FAMILY_ALPHA / sum(claim.trials is not None for claim in CLAIMS)

MECHANISMS = {
    "sparse-gaussian", "laplace", "correlated-gaussian", "known-groups", "known-laplace", "known-discrete", "discrete-gaussian",
    "discrete-correlated-gaussian", "adaptive", "automatic choice", "from-top", "ranked", "correlated-top-k", "session",
    "continual", "truncated-laplace", "laplace-records", "gaussian-records", "sketch", "voting",
}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.name}: {claim.setting}")
def test_the_claim_holds(claim: Claim) -> None:
    found = attack(claim, ALPHA, thorough=False)
    assert found.holds, found
    if found.attack == "exact":
        assert found.ratio is not None
        assert found.ratio > 0.4  # the attack is not blind


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_implementation_withstands(part: ImplementationAttack) -> None:
    found = attack_part(part)
    assert found.holds, found.detail


@pytest.mark.parametrize("one", broken(), ids=lambda one: one.name)
def test_what_is_broken_is_caught(one: Broken) -> None:
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


def test_the_documentation_names_every_mechanism_and_every_break() -> None:
    words = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    assert all(name in words for name in MECHANISMS)
    assert all(one.name in words for one in broken())
    assert all(part.name in words.lower() for part in PARTS)
    assert "NOT CAUGHT:" not in words
    assert "BROKEN:" not in words
