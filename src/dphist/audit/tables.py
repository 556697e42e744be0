"""The audit as text for a terminal, as Markdown for the documentation, and as a page to look at.

python -m dphist.audit.tables docs/audit.md            run the thorough audit here and put its tables into the document
python -m dphist.audit.tables docs/audit.md spark      the same for the Spark engine, in a local session
"""

from __future__ import annotations

import html
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dphist.audit.judge import Finding
from dphist.audit.run import Audit, Caught
from dphist.audit.run import audit as run_audit
from dphist.show import page
from dphist.version import __version__

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
        from dphist.engines.spark.engine import SparkEngine
        from dphist.engines.spark.session import open_session

        session = SparkEngine(open_session(None, None))
    result = run_audit(thorough=True, engine=session, progress=lambda phase: print(f"… {phase}", file=sys.stderr))
    words = markdown(result, commit)
    written = replaced(document.read_text(encoding="utf-8"), words, on_spark=on_spark)
    document.write_text(written, encoding="utf-8")
    print(text(result))
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
