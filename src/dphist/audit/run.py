"""All attacks on all claims, and on the broken mechanisms: the audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dphist.audit import broken_on_spark, on_spark
from dphist.audit.attacks import ATTACKS, ImplementationAttack
from dphist.audit.broken import Broken, broken, low_threshold, quiet_noise
from dphist.audit.claims import claims
from dphist.audit.claims_of_plans import of_plan
from dphist.audit.exact import exact
from dphist.audit.findings import Claim, Finding
from dphist.audit.sampled import BITS_ALPHA, FAMILY_ALPHA, sampled
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
    engine: SparkEngine | None = None,
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
    asked: Sequence[Claim]
    if engine is not None:
        asked, wrong, attacks = (
            list(on_spark.claims(engine)),
            broken_on_spark.broken(engine),
            on_spark.attacks_on(engine),
        )
    else:
        asked = of_plan(plan) if plan is not None else claims(thorough=thorough)
        wrong, attacks = broken(), ATTACKS
    if mechanism is not None:
        names = sorted({claim.mechanism for claim in asked})
        if mechanism not in names:
            raise InvalidParameter(f"a mechanism out of {', '.join(names)}", mechanism)
        asked = [claim for claim in asked if claim.mechanism == mechanism]
        wrong = [one for one in wrong if one.claim is not None and one.claim.mechanism == mechanism]
        attacks = ()
    alpha = (FAMILY_ALPHA - BITS_ALPHA) / max(1, sum(claim.trials is not None for claim in asked))
    findings = []
    for claim in asked:
        tell(f"{claim.name}: {claim.setting}")
        findings.append(attacked(claim, alpha, thorough=thorough))
    for attack in attacks:
        tell(attack.name)
        findings.append(implementation(attack))
    caught = []
    for one in wrong:
        tell(f"broken: {one.name}")
        caught.append(Caught(one.name, one.wrong, judged(one, alpha, thorough=thorough)))
    power = []
    if thorough and mechanism is None and plan is None and engine is None:
        for one in sizes():
            tell(f"power: {one.name}")
            power.append(Caught(one.name, one.wrong, judged(one, alpha, thorough=True)))
    return Audit(thorough, tuple(findings), tuple(caught), tuple(power), engine is not None)


def attacked(claim: Claim, alpha: float, *, thorough: bool) -> Finding:
    """The attack that a claim can be put to."""
    if claim.pairs is not None:
        return exact(claim)
    return sampled(claim, claim.thorough if thorough else claim.quick, alpha)


def implementation(attack: ImplementationAttack) -> Finding:
    """An attack on the implementation as a finding."""
    holds, detail = attack.run()
    return Finding(attack.name, "implementation", attack.about, holds, detail)


def judged(one: Broken, alpha: float, *, thorough: bool) -> Finding:
    """A broken mechanism, judged by the code that judges the product."""
    if one.claim is not None:
        return attacked(one.claim, alpha, thorough=thorough)
    assert one.attack is not None
    return implementation(ImplementationAttack(one.name, one.wrong, one.attack))


def sizes() -> list[Broken]:
    """How small an error is still caught: noise and threshold off by less and less."""
    return [
        *(
            Broken(f"noise {100 - 100 * factor:.3g} % too small", "", quiet_noise(factor))
            for factor in (0.95, 0.97, 0.98, 0.99)
        ),
        *(Broken(f"threshold {by:.3g} too low", "", low_threshold(by)) for by in (0.5, 0.25, 0.125, 0.0625)),
    ]
