"""All attacks on all claims, and on the broken mechanisms: the audit; as text, as Markdown and as a page.

python -m dphist.audit.run docs/audit.md            run the thorough audit here and put its tables into the document
python -m dphist.audit.run docs/audit.md spark      the same for the Spark engine, in a local session
"""

from __future__ import annotations

import html
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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
from dphist.show import page
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

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {"name": self.name, "wrong": self.wrong, "caught": self.caught, **self.finding.to_data()}


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
            "broken": [one.to_data() for one in self.caught],
            "power": [one.to_data() for one in self.power],
        }


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
    if isinstance(one.attacked, Claim):
        return attack(one.attacked, alpha, thorough=thorough)
    return attack_part(ImplementationAttack(one.name, one.wrong, one.attacked))


# What is shown of it

_BEGIN, _END = "<!-- audit{}: begin -->", "<!-- audit{}: end -->"
_HEAD = ("claim", "attack", "setting", "epsilon", "claimed delta", "attacked delta", "ratio", "gap", "verdict")


def text(audit: Audit) -> str:
    """For a terminal: what was claimed, what was reached, and what stands."""
    lines = [f"  {'claim':<46} {'attack':<8} {'epsilon':>7} {'claimed':>9} {'attacked':>9} {'ratio':>6}  verdict"]
    for finding in audit.findings:
        if finding.attack == "implementation":
            continue
        lines.append(
            f"  {finding.claim:<46} {finding.attack:<8} {_number(finding.epsilon):>7} {_number(finding.claimed):>9}"
            f" {_number(finding.attacked):>9} {_ratio(finding):>6}  {verdict(finding)}"
        )
    attacks = [f"  {f.claim:<22} {verdict(f):<9} {f.detail}" for f in audit.findings if f.attack == "implementation"]
    lines += ["", "  attack on the implementation", *attacks] if attacks else []
    caught = [f"  {one.name:<36} {_caught(one):<10} {_evidence(one.finding)}" for one in audit.caught]
    lines += ["", "  broken on purpose", *caught] if caught else []
    return "\n".join([title(audit), "", *lines, "", conclusion(audit)])


def title(audit: Audit) -> str:
    """What was done."""
    return f"{'Thorough' if audit.thorough else 'Quick'} audit of dphist {__version__}{' on Spark' if audit.on_spark else ''}"


def conclusion(audit: Audit) -> str:
    """The result in words, with its confidence."""
    failed = [finding.claim for finding in audit.findings if not finding.holds]
    missed = [one.name for one in audit.caught if not one.caught]
    count = len(audit.findings)
    words = [
        f"{count - len(failed)} of {count} attacks were withstood; {len(audit.caught) - len(missed)} of"
        f" {len(audit.caught)} broken mechanisms were caught.",
        f"Sampled bounds hold together with {audit.confidence:.2%} confidence, whatever seeds were drawn.",
    ]
    if failed:
        words.insert(0, f"BROKEN: {', '.join(dict.fromkeys(failed))}.")
    if missed:
        words.insert(0, f"NOT CAUGHT: {', '.join(missed)}.")
    return " ".join(words)


def verdict(finding: Finding) -> str:
    """One word."""
    if finding.holds:
        return "a limit" if finding.detail.startswith("known limit") else "holds"
    return "BROKEN"


def _caught(one: Caught) -> str:
    return "caught" if one.caught else "NOT CAUGHT"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _ratio(finding: Finding) -> str:
    return "–" if finding.ratio is None else f"{finding.ratio:.3f}"


def _evidence(finding: Finding) -> str:
    if finding.attack == "implementation":
        return finding.detail
    return (
        f"{finding.attack}: at epsilon {_number(finding.epsilon)} delta is at least {_number(finding.attacked)},"
        f" {_number(finding.claimed)} was claimed"
    )


def _row(finding: Finding) -> list[str]:
    runs = "" if finding.trials is None else f" ({finding.trials:,} runs)"
    return [
        finding.claim,
        finding.attack + runs,
        finding.setting,
        _number(finding.epsilon),
        _number(finding.claimed),
        _number(finding.attacked),
        _ratio(finding),
        _number(finding.gap),
        verdict(finding),
    ]


def _tables(audit: Audit) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    """(heading, columns, rows) of everything that was found."""
    numbers = [_row(finding) for finding in audit.findings if finding.attack != "implementation"]
    attacks = [[f.claim, f.setting, f.detail, verdict(f)] for f in audit.findings if f.attack == "implementation"]
    wrong = [[one.name, one.wrong, _evidence(one.finding), _caught(one)] for one in audit.caught]
    sizes = [[one.name, _evidence(one.finding), "caught" if one.caught else "too small to see"] for one in audit.power]
    found: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Claims", _HEAD, numbers),
        ("The implementation", ("attack", "what it would mean", "what was tried", "verdict"), attacks),
        ("Broken on purpose", ("broken", "what is wrong", "evidence", "verdict"), wrong),
        ("How small an error is caught", ("error", "evidence", "verdict"), sizes),
    ]
    return [table for table in found if table[2]]


def markdown(audit: Audit, commit: str = "") -> str:
    """The tables for docs/audit.md. commit: of the code that was attacked."""
    parts = [f"{title(audit)}{f' at commit `{commit}`' if commit else ''}. {conclusion(audit)}", ""]
    for heading, head, rows in _tables(audit):
        parts += [f"### {heading}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        parts += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
        parts.append("")
    return "\n".join(parts).rstrip()


def replaced(document: str, table: str, *, on_spark: bool = False) -> str:
    """A document with the part between its two marks replaced."""
    first, last = (mark.format(" on Spark" if on_spark else "") for mark in (_BEGIN, _END))
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"the document has no part between {first} and {last}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def render(audit: Audit) -> str:
    """The audit as one HTML file that needs no network."""
    result = "Passed" if audit.passed else "Failed"
    body = [
        f"<h1>{html.escape(title(audit))}</h1>",
        '<p class="lead">Attacks on every guarantee, and on copies of the product that are broken on purpose.</p>',
        f'<p class="guarantee"><strong>{result}.</strong> {html.escape(conclusion(audit))}</p>',
        "<p>Claimed and attacked are deltas at an epsilon; an attacked delta is one that the mechanism has at least. A ratio of"
        " 1 is as tight as a claim can be, more than 1 would be a broken promise.</p>",
    ]
    for heading, head, rows in _tables(audit):
        table = page.plain_table(head, rows, heading)
        body.append(f"<section><h2>{html.escape(heading)}</h2>{table}</section>")
    return page.document(title(audit), body)


def commit_of(document: Path) -> str:
    """The commit that a document and the code beside it are of, "-dirty" if they were changed since; nothing without git."""
    command = ["git", "-C", str(document.resolve().parent), "describe", "--always", "--exclude=*", "--dirty"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return ""


def main(document: Path, engine: str = "duckdb") -> int:
    """0 if everything holds and everything broken was caught."""
    if engine not in ("duckdb", "spark"):
        raise SystemExit(f"expected duckdb or spark, got {engine}")
    on_spark = engine == "spark"
    replaced(document.read_text(encoding="utf-8"), "", on_spark=on_spark)  # refuse before an hour of work
    commit = commit_of(document)
    session = None
    if on_spark:
        from dphist.engines.spark.session import open_session

        session = SparkEngine(open_session(None, None))
    result = audit(thorough=True, engine=session, progress=lambda phase: print(f"… {phase}", file=sys.stderr))
    words = markdown(result, commit)
    written = replaced(document.read_text(encoding="utf-8"), words, on_spark=on_spark)
    document.write_text(written, encoding="utf-8")
    print(text(result))
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
