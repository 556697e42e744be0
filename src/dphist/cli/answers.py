"""Answers to statements as commands print them: the table, what it guarantees, what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dphist.cli.output import Talk, paid, recorded, screen
from dphist.words import rounded_up

if TYPE_CHECKING:
    from dphist.errors import DphistError
    from dphist.publish.answer import Answer
    from dphist.publish.result import Release


def show(talk: Talk, answer: Answer, most: int | None) -> int:
    """The first rows, all of them without a number, and the guarantee of each private SELECT. Gives how many rows there are."""
    from dphist.planning.describe import guarantee
    from dphist.publish.text import answer_text

    first, rows = answer.first(answer.table.num_rows if most is None else most)
    talk.table(answer_text(first, rows, screen()))
    for number, release in enumerate(answer.releases, 1):
        for bounds in release.bounds:
            talk.line(f"Bounds of {bounds}")
        label = "Guarantee" if len(answer.releases) == 1 else f"Guarantee of SELECT {number}"
        talk.line(f"\n{label}: {guarantee(release.plan.request, release.plan.mechanism, release.selection.unit)}")
    return rows


def show_paid(problem: DphistError) -> None:
    """The private tables that were paid for before something failed, whatever is quiet: another run would pay again."""
    from dphist.publish.text import rows_text

    talk = Talk(quiet=False)
    releases: Sequence[Release] = getattr(problem, "releases", ())
    for number, release in enumerate(releases, 1):
        which = "The private table" if len(releases) == 1 else f"Private table {number} of {len(releases)}"
        talk.line(f"{which}, which is paid for and may be published:")
        talk.table(rows_text(release.table, release.table.num_rows, screen()))
        problem.aftermath = ""  # which says that nothing was published; it is asked anew


def cost(answers: Sequence[Answer]) -> tuple[float, float]:
    """Epsilon and delta of all private SELECTs together, rounded up: equal shares of a budget are a whole again."""
    requests = [release.plan.request for answer in answers for release in answer.releases]
    parts = ([one.epsilon for one in requests], [one.delta for one in requests])
    sums = (sum(Fraction(repr(float(value))) for value in values) for values in parts)
    epsilon, delta = (float(rounded_up(Fraction(one), 12)) for one in sums)
    return epsilon, delta


def spent(answers: Sequence[Answer], ledger: str | Path | None) -> str:
    """What a script spent, what is left, and who paid."""
    *others, last = [release.receipt for answer in answers for release in answer.releases]
    return "\n".join(
        [paid(*cost(answers), ledger, last), *(recorded(one) for one in reversed(others) if one is not None)]
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
