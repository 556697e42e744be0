"""All attacks on all claims, and on the broken mechanisms: the audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dphist.audit import attacks, broken, claims
from dphist.audit.attacks import ImplementationAttack
from dphist.audit.broken import Broken
from dphist.audit.judge import BITS_ALPHA, FAMILY_ALPHA, Claim, Finding, attack
from dphist.engines.base import Engine
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.spark.engine import SparkEngine
from dphist.errors import InvalidParameter
from dphist.planning import Plan
from dphist.version import __version__

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Caught:
    """What the auditor says about a mechanism that is broken on purpose."""

    name: str
    wrong: str
    finding: Finding

    @property
    def caught(self) -> bool:
        """Whether the break was seen."""
        return not self.finding.holds


@dataclass(frozen=True, slots=True)
class Audit:
    """Findings about the product, and about broken copies of it. `power`: errors of other sizes, caught or not."""

    thorough: bool
    findings: tuple[Finding, ...]
    caught: tuple[Caught, ...]
    power: tuple[Caught, ...] = ()
    on_spark: bool = False

    @property
    def passed(self) -> bool:
        """Every claim holds, and every broken mechanism was caught."""
        return all(finding.holds for finding in self.findings) and all(one.caught for one in self.caught)

    @property
    def confidence(self) -> float:
        """That no claim was called broken by chance: all sampled bounds hold together."""
        return 1 - FAMILY_ALPHA

    def to_data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "format": "dphist-audit",
            "version": 1,
            "dphist": __version__,
            "thorough": self.thorough,
            "engine": "spark" if self.on_spark else "duckdb",
            "passed": self.passed,
            "confidence": self.confidence,
            "findings": [finding.to_data() for finding in self.findings],
            "broken": [_caught_data(one) for one in self.caught],
            "power": [_caught_data(one) for one in self.power],
        }


def _caught_data(one: Caught) -> dict[str, Any]:
    return {"name": one.name, "wrong": one.wrong, "caught": one.caught, **one.finding.to_data()}


def audit(
    *,
    thorough: bool = False,
    mechanism: str | None = None,
    plan: Plan | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Attack everything, one mechanism, a plan, or an engine. The auditor is audited in the same run.

    With a plan its own parameters are attacked and the parts that all releases share; the broken mechanisms are always the
    same. With `mechanism` only claims and broken mechanisms of that name are looked at. With `engine` what Spark does is
    attacked: releases and exact tables of that session, and copies of them that are broken in ways of a cluster.
    """
    tell = progress or (lambda _: None)
    if plan is not None and engine is not None:
        raise InvalidParameter("a plan or an engine to attack", "both", "ask for one after the other.")
    asked, parts, wrong = what_is_attacked(engine, plan, thorough=thorough)
    if mechanism is not None:
        names = sorted({claim.mechanism for claim in asked})
        if mechanism not in names:
            raise InvalidParameter(f"a mechanism out of {', '.join(names)}", mechanism)
        asked = [claim for claim in asked if claim.mechanism == mechanism]
        wrong = [one for one in wrong if one.claim is not None and one.claim.mechanism == mechanism]
        parts = []
    alpha = (FAMILY_ALPHA - BITS_ALPHA) / max(1, sum(claim.trials is not None for claim in asked))
    findings = []
    for claim in asked:
        tell(f"{claim.name}: {claim.setting}")
        findings.append(attack(claim, alpha, thorough=thorough))
    for part in parts:
        tell(part.name)
        findings.append(attack_part(part))
    caught = []
    for one in wrong:
        tell(f"broken: {one.name}")
        caught.append(Caught(one.name, one.wrong, judge(one, alpha, thorough=thorough)))
    power = []
    if thorough and mechanism is None and plan is None and engine is None:
        for one in broken.sizes():
            tell(f"power: {one.name}")
            power.append(Caught(one.name, one.wrong, judge(one, alpha, thorough=True)))
    return Audit(thorough, tuple(findings), tuple(caught), tuple(power), engine is not None)


def what_is_attacked(
    engine: Engine | None, plan: Plan | None, *, thorough: bool
) -> tuple[Sequence[Claim], list[ImplementationAttack], list[Broken]]:
    """Claims, parts of the implementation and broken copies: of an engine, or of everything on this machine."""
    if engine is not None:
        assert isinstance(engine, SparkEngine)  # the only cluster so far: some attacks look at its files
        parts = [*attacks.attacks_on(engine, claims.FEWER[0], attacks.KINDS), *attacks.attacks_on_cluster(engine)]
        return list(claims.releases(engine, claims.FEWER)), parts, broken.broken_on_cluster(engine)
    asked = claims.of_plan(plan) if plan is not None else claims.claims(thorough=thorough)
    here = DuckDBEngine()
    return asked, [*attacks.attacks_on(here), *attacks.attacks_here(here)], broken.broken()


def attack_part(part: ImplementationAttack) -> Finding:
    """An attack on the implementation as a finding."""
    holds, detail = part.run()
    return Finding(part.name, "implementation", part.about, holds, detail)


def judge(one: Broken, alpha: float, *, thorough: bool) -> Finding:
    """A broken mechanism, judged by the code that judges the product."""
    if one.claim is not None:
        return attack(one.claim, alpha, thorough=thorough)
    assert one.attack is not None
    return attack_part(ImplementationAttack(one.name, one.wrong, one.attack))
