"""Answers to statements as commands print them: the table, what it guarantees, what it cost."""

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
    """The first rows, all of them without a number, and the guarantee of each private SELECT. Gives how many rows there are."""
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
    """Print the private tables that were paid for before something failed, whatever is quiet; and give them back."""
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
        problem.aftermath = ""  # of what could be published before it was printed; it is asked anew
        problem.args = (str(problem).replace(KEPT, "they are printed"),)
    return releases


def cost(releases: Sequence[Release]) -> str:
    """Epsilon and delta of private SELECTs, in words: of each unit apart, as costs of different units do not add up."""
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
    """What a script spent, what is left, and who paid."""
    releases = [release for answer in answers for release in answer.releases]
    *others, last = [release.receipt for release in releases]
    return "\n".join(
        [paid(cost(releases), ledger, last), *(recorded(one) for one in reversed(others) if one is not None)]
    )


def as_data(answer: Answer, *, rows: bool) -> dict[str, Any]:
    """What JSON holds: everything public about the answer, and its rows, if no file has them."""
    table = answer.table
    listed = {"rows": _plain(table.to_pylist())} if rows else {}
    return {**answer.metadata(), "row_count": table.num_rows, **listed}


def _plain(value: Any) -> Any:
    """With words for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
