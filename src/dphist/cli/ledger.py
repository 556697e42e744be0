"""`dphist ledger create|show|history|verify|export|record`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dphist.cli.command import FILE, NUMBER, WHOLE, Group, Option, command
from dphist.cli.options import ACCOUNT, HEAD, OUTPUTS, declared, protects
from dphist.cli.output import Outputs, print_json, say, screen, show_table
from dphist.columns import one_of, unit_of
from dphist.errors import InvalidParameter
from dphist.files.interruption import UNCHARGED, account_for, held
from dphist.planning.choices import ACCOUNTANTS
from dphist.planning.options import PlanOptions, SelectOptions
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.ledger import Ledger

ledger = Group("ledger", "Budgets and what was spent of them, in a database.")

_UNIT = declared(SelectOptions, "unit")


def _number(flag: str, words: str, **settings: Any) -> Option:
    return Option(flag, words, "Privacy", metavar="NUMBER", **{"type": NUMBER, **settings})


def _needed(ledger: str | None, dataset: str | None) -> tuple[str, str]:
    if ledger is None or dataset is None:
        raise InvalidParameter("--ledger ADDRESS and --dataset NAME", "not both", "or DPHIST_LEDGER, DPHIST_DATASET.")
    return ledger, dataset


def _open(ledger: str | None) -> Ledger:
    from dphist.ledger import Ledger

    if ledger is None:
        raise InvalidParameter("--ledger ADDRESS", "none", "--ledger ledger.db, or set DPHIST_LEDGER.")
    return Ledger(ledger)


def _to_read(opened: Ledger, dataset: str | None) -> str:
    """The data set that a command reads: `dataset`, or the only one of the ledger. Only commands that spend need the name."""
    names = opened.names() if dataset is None else [dataset]
    if len(names) != 1:
        raise InvalidParameter("--dataset NAME", "none", f"there are: {', '.join(names) or 'no data sets yet'}.")
    return names[0]


@command(
    *declared(PlanOptions, "epsilon", "delta"),
    *_UNIT,
    *ACCOUNT,
    Option("--accountant", "How spends add up: basic, gdp or zcdp. It never changes.", "Privacy", choices=ACCOUNTANTS),
    _number("--expect-releases", "How many releases you expect: recommends an accountant.", type=WHOLE),
    protects(default="unit"),
    _number("--delta-share", "gdp, zcdp: the part of delta kept for thresholds.", default=0.5),
    OUTPUTS.only("quiet", "as_json"),
    group=ledger,
)
def create(
    epsilon: float,
    delta: float,
    unit: list[str],
    ledger: str | None,
    dataset: str | None,
    accountant: str | None,
    expect_releases: int | None,
    protects: str,
    delta_share: float,
    outputs: Outputs,
) -> None:
    """Begin a data set: a total budget about some people. Makes the ledger if there is none.

    \b
    Example:
      dphist ledger create --ledger ledger.db --dataset events --epsilon 2 \\
        --delta 1e-6 --unit user --expect-releases 20
    """
    from dphist.ledger import DataSet, Ledger
    from dphist.ledger.dataset import recommend

    address, name = _needed(ledger, dataset)
    if accountant is None and expect_releases is None:
        raise InvalidParameter(
            "--accountant or --expect-releases",
            "neither",
            "the accountant never changes: 1 release is cheapest with basic, many with gdp.",
        )
    if expect_releases is not None:
        advice = recommend(epsilon, delta, expect_releases, delta_share)
        if not outputs.talk.quiet:
            say(f"{advice}\n")
        accountant = advice.accountant if accountant is None else accountant
    budget = DataSet(name, epsilon, delta, unit_of(unit), accountant, protects, delta_share)  # type: ignore[arg-type]
    with Ledger(address, create=True) as opened:
        with held():
            opened.create(budget)
            account_for(lambda: f"{UNCHARGED} The data set {name!a} is there.")
        status = opened.status(name)
    if outputs.as_json:
        print_json(status.to_data())
    elif not outputs.quiet:
        say(str(status))


@command(*ACCOUNT, OUTPUTS.only("as_json"), group=ledger)
def show(ledger: str | None, dataset: str | None, outputs: Outputs) -> None:
    """Spent against the budget, and how many more such releases fit. Without --dataset: all data sets.

    \b
    Example:
      dphist ledger show --ledger ledger.db --dataset events
    """
    with _open(ledger) as opened:
        shown = [opened.status(name) for name in ([dataset] if dataset is not None else opened.names())]
    if outputs.as_json:
        print_json([status.to_data() for status in shown])
    else:
        say("\n\n".join(map(str, shown)) or "No data sets yet.")


@command(*ACCOUNT, OUTPUTS.only("as_json"), group=ledger)
def history(ledger: str | None, dataset: str | None, outputs: Outputs) -> None:
    """Every entry, oldest first, and which reservations were never confirmed.

    \b
    Example:
      dphist ledger history --ledger ledger.db --dataset events
    """
    with _open(ledger) as opened:
        status = opened.status(_to_read(opened, dataset))
    if outputs.as_json:
        print_json([entry.to_data() for entry in status.entries])
        return
    from dphist.show.table import Column
    from dphist.show.text import grid

    waiting = {entry.sequence for entry in status.unconfirmed}
    entries = status.entries
    columns = [
        Column("entry", "number", [f"{entry.sequence:,}" for entry in entries]),
        Column("time", "word", [entry.time[:19] for entry in entries]),
        Column("kind", "word", [entry.kind for entry in entries]),
        Column("what", "text", [entry.in_words(confirmed=entry.sequence not in waiting) for entry in entries]),
    ]
    show_table(grid(columns, screen()))


@command(
    *ACCOUNT,
    HEAD,
    Option(
        "--against",
        "A released file, or a folder with nothing else: each must be intact, and paid for by this ledger. Repeatable.",
        "Privacy",
        type=FILE,
        multiple=True,
    ),
    OUTPUTS.only("quiet", "as_json"),
    group=ledger,
)
def verify(ledger: str | None, dataset: str | None, head: str | None, against: list[Path], outputs: Outputs) -> None:
    """Recompute every hash and every sum. Exit code 1 if something was changed, 3 if only recorded spends exceed the budget.

    With --against a line for each file, in its folders too: paid and intact, edited, unpaid, of another ledger, unsealed
    (nothing would show an edit) or unreadable. Exit code 1 unless all are paid and intact.

    \b
    Examples:
      dphist ledger verify --ledger ledger.db --dataset events
      dphist ledger verify --ledger ledger.db --dataset events \\
        --against published
    """
    from dphist.ledger.chain import BUDGET
    from dphist.ledger.heads import receipts_in
    from dphist.verification.folder import examine_all

    outputs.talk.phase("checking the ledger")
    with _open(ledger) as opened:
        known = opened.names()
        named = (receipt.dataset for _, receipt in receipts_in(against) if receipt.dataset in known)
        checks = opened.verify(_to_read(opened, dataset or next(named, None)), head)
    examined = examine_all(against, ledger=ledger, apart=True) if against else []
    if outputs.as_json:
        told: list[dict[str, object]] = [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in checks]
        print_json(told + [file.to_data() for file in examined])
    elif not outputs.quiet:
        for check in checks:
            say(printable(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name:<7} {check.detail}"))
        for file in examined:
            say(printable(str(file)))
        if head is None and not against:
            say(
                "        Entries cut off at the end show only against what is kept elsewhere: --against FILE, --head HASH."
            )
    failed = {check.name for check in checks if not check.passed}
    if not all(file.is_good for file in examined):
        sys.exit(1)
    if failed:
        sys.exit(3 if failed == {BUDGET} else 1)


@command(
    *ACCOUNT,
    Option("output -o --output", "Where to write the JSON; else printed.", "Output", common=True, type=FILE),
    OUTPUTS.only("overwrite", "quiet"),
    group=ledger,
)
def export(ledger: str | None, dataset: str | None, output: Path | None, outputs: Outputs) -> None:
    """Everything about a data set as JSON, with the head of its chain: keep it where the ledger's writers cannot.

    \b
    Example:
      dphist ledger export --ledger ledger.db --dataset events \\
        -o events-ledger.json
    """
    from dphist.files.outputs import check_outputs, write_text

    check_outputs(output, overwrite=outputs.overwrite)
    with _open(ledger) as opened:
        data = opened.export(_to_read(opened, dataset))
    text = json.dumps(data, indent=2, allow_nan=False)
    if output is None:
        say(text)
        return
    write_text(text + "\n", output, overwrite=outputs.overwrite)
    if not outputs.quiet:
        say(f"Written to {printable(str(output))}. Head: {data['head']}")


@command(
    Option("--note", "What was released, where; public.", "Privacy", common=True, metavar="TEXT", required=True),
    *_UNIT,
    protects(required=True),
    *ACCOUNT,
    _number("--epsilon", "The epsilon that was spent."),
    _number("--delta", "The delta that was spent, also beside --rho; 1: all was told.", default=0.0),
    _number("--rho", "Or the rho of zero-concentrated privacy."),
    _number("--convert-at", "A further delta, at which --rho becomes an epsilon for basic and gdp; try 1e-9."),
    OUTPUTS.only("quiet", "as_json"),
    group=ledger,
)
def record(
    note: str,
    unit: list[str],
    protects: str,
    ledger: str | None,
    dataset: str | None,
    epsilon: float | None,
    delta: float,
    rho: float | None,
    convert_at: float | None,
    outputs: Outputs,
) -> None:
    """Write down what was spent about these people elsewhere, as (epsilon, delta) or (rho, delta), whether it fits or not.

    The guarantee must be for adding or removing; one for replacing, or for tables of known size, does not add up with it.

    \b
    Example:
      dphist ledger record --ledger ledger.db --dataset events --unit user \\
        --protects unit --epsilon 0.1 --note "survey"
    """
    from dphist.ledger.accountant import declared_cost
    from dphist.ledger.dataset import WORDS

    address, name = _needed(ledger, dataset)
    cost, declared = declared_cost(epsilon, delta, rho, convert_at)
    with _open(address) as opened:
        with held():
            entry = opened.record(name, cost, unit=unit_of(unit), protects=protects, note=note, declared=declared)  # type: ignore[arg-type]
            account_for(lambda: f"Entry {entry.sequence:,} of {name!a} was recorded.")
        status = opened.status(name)
    if outputs.as_json:
        print_json({"entry": entry.sequence, "head": entry.hash, **status.to_data()})
    if outputs.talk.quiet:
        return
    say(f"Entry {entry.sequence:,} recorded, head {entry.hash}, as a guarantee for adding or removing")
    say(f"{WORDS[status.dataset.protects].replace('one unit', one_of(unit_of(unit)))}.\n")
    if status.exceeded:
        say(f"The budget of {name!r} is exceeded. Nothing more will be charged to it.\n")
    say(str(status))
