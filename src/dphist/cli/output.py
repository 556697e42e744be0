"""What commands print: phases on stderr, results on stdout. Only released values come from records.

Everything goes through `say`: names of columns, batches and data sets, notes and versions were typed by somebody else, and
no terminal shall act on them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dphist import checks
from dphist.cli import progress
from dphist.columns import joint_unit, kind_of, one_of
from dphist.errors import DphistError
from dphist.files.interruption import go_on, note_printed
from dphist.words import exactly, printable, rounded_down

if TYPE_CHECKING:
    from dphist.ledger.charge import Receipt
    from dphist.run.release import Answer, Release
    from dphist.show.text import Screen


def say(text: str, *, err: bool = False) -> None:
    """Print some lines."""
    _print(printable(text, lines=True), err=err)


def show_table(text: str) -> None:
    """Print a table as `show.grid` draws it for `screen()`: its cells are printable, its colours are ours."""
    _print(text)


def _print(text: str, *, err: bool = False) -> None:
    go_on()
    progress.stop()
    if not err:
        note_printed()
    try:
        click.echo(text, err=err)
    except OSError as problem:  # of a stream, which has no file name
        problem.filename = "standard error" if err else "the result on standard output"
        raise


def on_terminal() -> bool:
    """Whether results are printed on a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def screen() -> Screen:
    """The screen that tables are drawn for. A pipe or file has 80 columns and no colour, whatever the environment says."""
    from dphist.show.text import Screen

    encoding = str(getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    unicode = encoding.startswith("utf")
    if not on_terminal():
        return Screen(unicode=unicode)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Screen(shutil.get_terminal_size((80, 24)).columns, not plain, unicode)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The files that a command writes, what it prints, and whether it counts records at all."""

    output: Path | None = None
    report: Path | None = None
    overwrite: bool = False
    raw_csv: bool = False
    explain: bool = False
    dry_run: bool = False
    quiet: bool = False
    as_json: bool = False
    show: int | None = None

    def __post_init__(self) -> None:
        if self.show is not None:
            checks.check_whole("--show", self.show, least=0, hint="0 prints no row.")

    @property
    def talk(self) -> Talk:
        """The talk of the command: quiet beside JSON, which programs read."""
        return Talk(quiet=self.quiet or self.as_json)

    @property
    def unkept(self) -> bool:
        """Whether no file gets the result."""
        return self.output is None and self.report is None

    def write(self, result: Any) -> None:
        """Write a table and its report."""
        if self.output is not None:
            result.write(self.output, overwrite=self.overwrite, raw_csv=self.raw_csv)
        if self.report is not None:
            result.report(self.report, overwrite=self.overwrite)


class Talk:
    """Prints phases and results for people, or nothing where the command is quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def phase(self, name: str) -> None:
        """Show the name of a phase, on a terminal and after a while."""
        if not self.quiet:
            progress.tell(name)

    def line(self, text: str) -> None:
        """Print a part of the result."""
        if not self.quiet:
            say(text)

    def table(self, text: str) -> None:
        """Print a table that is drawn already."""
        if not self.quiet:
            show_table(text)

    def closing(self, summary: str, outputs: Outputs, *last: str) -> None:
        """Print a sentence about the result, the files that were written, and the `last` lines."""
        files = (("Table", outputs.output), ("Report", outputs.report))
        written = [f"{what} written to {printable(str(path))}" for what, path in files if path is not None]
        self.line("\n".join(["", summary, *written, *last]))


def print_json(data: Any, *, allow_nan: bool = False) -> None:
    """Print one JSON object on stdout."""
    say(json.dumps(data, indent=2, allow_nan=allow_nan, default=str))


def recorded(receipt: Receipt | dict[str, Any] | None) -> str:
    """A sentence on the entry of a ledger that paid, or that none did."""
    from dphist.ledger.charge import NOT_RECORDED, Receipt

    return NOT_RECORDED if receipt is None else str(Receipt(**receipt) if isinstance(receipt, dict) else receipt)


def at_most(epsilon: float, delta: float) -> str:
    """Epsilon and delta that were spent, in words."""
    return f"at most ε = {exactly(epsilon)}, δ = {exactly(delta)}"


def paid(spent: str, ledger: str | Path | None, receipt: Receipt | None) -> str:
    """Sentences on what was spent, what the ledger has left if it can be read, and which entry paid."""
    left = ""
    with suppress(DphistError):
        left = "" if ledger is None or receipt is None else f"; {left_of(ledger, receipt.dataset)}"
    return f"Spent {spent}{left}.\n{recorded(receipt)}"


def left_of(address: str | Path, dataset: str) -> str:
    """The rest of a budget beside the whole of it, in words."""
    parts = [f"{name} {rest} of {whole}" for name, rest, whole in amounts_left(address, dataset)]
    place = "the ledger" if "://" in str(address) else Path(address).name  # an address may hold a password
    return f"{' and '.join(parts)} left of {dataset!r} in {printable(place)}"


def amounts_left(address: str | Path, dataset: str) -> list[tuple[str, str, str]]:
    """The amounts that a budget limits: the name, the rest and the whole, rounded down."""
    from dphist.ledger import Ledger
    from dphist.ledger.dataset import NOISE

    with Ledger(address) as ledger:
        budget, left = ledger.left(dataset)
    limit, noise = budget.limit, NOISE[budget.accountant].replace("epsilon", "ε")
    amounts = [(noise, left.noise, limit.noise), ("δ", left.delta, limit.delta)]
    return [
        (name, rounded_down(budget.value(max(rest, 0))), rounded_down(budget.value(whole)))
        for name, rest, whole in amounts
    ]


def show_answer(talk: Talk, answer: Answer, most: int | None) -> int:
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


def cost_in_words(releases: Sequence[Release]) -> str:
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


def spent_in_words(answers: Sequence[Answer], ledger: str | Path | None) -> str:
    """Sentences on what a script spent, what is left, and which entries of the ledger paid."""
    releases = [release for answer in answers for release in answer.releases]
    *others, last = [release.receipt for release in releases]
    return "\n".join(
        [paid(cost_in_words(releases), ledger, last), *(recorded(one) for one in reversed(others) if one is not None)]
    )


def answer_data(answer: Answer, *, rows: bool) -> dict[str, Any]:
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
