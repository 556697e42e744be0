"""Answers to statements as commands print them: the table, its guarantee, its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dphist.cli.output import Talk, at_most, paid, recorded, screen
from dphist.columns import joint_unit, kind_of, one_of

if TYPE_CHECKING:
    from dphist.errors import DphistError
    from dphist.run.release import Answer, Release


def show(talk: Talk, answer: Answer, most: int | None) -> int:
    """Print the first `most` rows (None: all) and the guarantee of each private SELECT. Return how many rows there are."""
    from dphist.show.text import answer_text

    first, rows = answer.first(answer.table.num_rows if most is None else most)
    talk.table(answer_text(first, rows, screen()))
    record = answer.record
    for words in filter(None, (*record.without_value, record.left_out)):
        talk.line(f"\n{words}")
    for number, release in enumerate(record.releases, 1):
        for bounds in release.bounds:
            talk.line(f"Bounds of {bounds}")
        label = "Guarantee" if len(record.releases) == 1 else f"Guarantee of SELECT {number}"
        talk.line(f"\n{label}: {release.guarantee}")
    return rows


def show_paid(problem: DphistError) -> Sequence[Release]:
    """Print the private tables that were paid for before the error, even with --quiet, and return their releases."""
    from dphist.show.text import rows_text
    from dphist.sql.outer import KEPT

    talk = Talk(quiet=False)
    releases: Sequence[Release] = getattr(problem, "releases", ())
    for number, release in enumerate(releases, 1):
        which = "The private table" if len(releases) == 1 else f"Private table {number} of {len(releases)}"
        talk.line(f"{which}, which is paid for and may be published:")
        talk.table(rows_text(release.table, release.table.num_rows, screen()))
        for words in filter(None, (*release.without_value(), release.left_out())):
            talk.line(words)
        problem.aftermath = ""  # the tables are printed now, so whoever prints the error asks `account` again
        problem.args = (str(problem).replace(KEPT, "they are printed"),)
    return releases


def cost(releases: Sequence[Release]) -> str:
    """Epsilon and delta of private SELECTs in words, apart for each unit: costs of different units do not add up."""
    from dphist.run.record import total_of

    kinds: dict[tuple[str, ...], list[Release]] = {}
    for release in releases:
        kinds.setdefault(kind_of(release.selection.unit), []).append(release)
    words = []
    for found in kinds.values():
        requests = [one.plan.request for one in found]
        amount = at_most(total_of([one.epsilon for one in requests]), total_of([one.delta for one in requests]))
        unit = joint_unit([one.selection.unit for one in found])
        words.append(amount if len(kinds) == 1 else f"{amount} for {one_of(unit)}")
    return "; ".join(words) or at_most(0, 0)


def spent(answers: Sequence[Answer], ledger: str | Path | None) -> str:
    """Sentences on what a script spent, what is left, and which entries of the ledger paid."""
    releases = [release for answer in answers for release in answer.releases]
    *others, last = [release.receipt for release in releases]
    return "\n".join(
        [paid(cost(releases), ledger, last), *(recorded(one) for one in reversed(others) if one is not None)]
    )


def as_data(answer: Answer, *, rows: bool) -> dict[str, Any]:
    """The answer for JSON: its metadata, how many rows it has and, with `rows`, the rows."""
    table = answer.table
    listed = {"rows": _plain(table.to_pylist())} if rows else {}
    return {**answer.metadata(), "row_count": table.num_rows, **listed}


def _plain(value: Any) -> Any:
    """The value with words in the place of numbers that JSON lacks, such as infinity."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
