"""`dphist release` and `dphist select`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dphist.cli import options
from dphist.cli.command import Option, command
from dphist.cli.options import ACCOUNT, ENGINE, OUTPUTS, SAVED_PLAN, SOURCE, EngineChoice, Source, asked, declared
from dphist.cli.output import Outputs, Talk, at_most, on_terminal, paid, print_json, say, screen
from dphist.errors import InvalidParameter
from dphist.planning.options import ReleaseOptions, SelectOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from dphist.engines.base import Engine
    from dphist.ledger.charge import Charge
    from dphist.run.job import Diagnose, Job
    from dphist.run.release import Release


ROWS: Final = 20
"""How many rows are printed of a table that goes to a file."""
ALL_ROWS: Final = 2**31 - 1
UNKEPT: Final = (
    "No file has this table: it is gone when this window is closed, and another one costs its budget again."
    " With -o out.parquet it is kept."
)
UNSAFE: Final = Option("--unsafe-diagnostics", "Print true, PRIVATE numbers to stderr. Never publish them.")


@command(asked(*declared(ReleaseOptions)), SOURCE, SAVED_PLAN, OUTPUTS, *ACCOUNT, ENGINE, UNSAFE)
def release(
    asked: dict[str, Any],
    source: Source,
    plan: Path | None,
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
    unsafe_diagnostics: bool,
) -> None:
    """Count people per group, add noise, hide small groups: write a table that is safe to publish.

    Without --by all people are one row. A release needs --epsilon and --delta, or --plan. Without -o and --report it
    needs a terminal, which shows the whole table and keeps nothing.

    \b
    Examples:
      dphist release events.parquet --unit user_id --by url --epsilon 1 \\
        --delta 1e-8 -o out.parquet
      dphist release events.parquet --unit user_id --by url --sum likes:0:1 \\
        --epsilon 1 --delta 1e-8 --report out.html
      dphist release events.parquet --unit user_id --by url --epsilon 1 \\
        --delta 1e-8 --dry-run
    """
    from dphist.run.job import prepare

    _check(outputs, engine.engine, source.source, plan, asked.get("keys", ()))
    parsed = options.parse(asked)
    _check_budget("release", plan, asked)
    opened = _open(engine, outputs)
    job = prepare(source.files(), plan=plan, engine=opened, **parsed)
    _run(job, outputs, ledger, dataset, diagnose=_unsafe if unsafe_diagnostics else None)


@command(asked(*declared(SelectOptions)), SOURCE, SAVED_PLAN, OUTPUTS, *ACCOUNT, ENGINE)
def select(
    asked: dict[str, Any],
    source: Source,
    plan: Path | None,
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
) -> None:
    """Publish which groups exist: keys alone, no counts, with all of the budget spent on finding them.

    A plan for it is saved with `dphist plan --keys-only --save`.

    \b
    Example:
      dphist select events.parquet --unit user_id --by url --epsilon 1 \\
        --delta 1e-8 -o keys.parquet
    """
    from dphist.run.job import prepare_selection

    _check(outputs, engine.engine, source.source, plan)
    _check_budget("selection", plan, asked)
    opened = _open(engine, outputs)
    _run(prepare_selection(source.files(), plan=plan, engine=opened, **asked), outputs, ledger, dataset)


def _check(outputs: Outputs, engine: str, source: list[str], *inputs: object) -> None:
    """Refuse a run whose result nobody would get, and outputs that may not be written."""
    from dphist.engines import files_of, writes_folders
    from dphist.files import formats

    seen = on_terminal() and not outputs.quiet and not outputs.as_json and outputs.show != 0
    if outputs.unkept and not (outputs.explain or outputs.dry_run or seen):
        hint = "add -o out.parquet. Without it the table is shown on a terminal, and nowhere else."
        raise InvalidParameter("-o FILE or --report FILE", "neither", hint)
    check = formats.check_folder if writes_folders(engine) else formats.check_table
    check(outputs.output, outputs.report, inputs=files_of(source, *inputs), overwrite=outputs.overwrite)


def _check_budget(what: str, plan: Path | None, asked: dict[str, Any]) -> None:
    """Refuse a run without a budget."""
    if plan is None and (missing := [name for name in ("epsilon", "delta") if name not in asked]):
        hint = f"a {what} needs --epsilon and --delta, or --plan FILE."
        raise InvalidParameter(f"--{missing[0]}", "none", hint)


def _open(engine: EngineChoice, outputs: Outputs) -> Engine:
    """Open the engine. It may refuse the output for reasons of its own."""
    opened = engine.open()
    if outputs.output is not None:
        opened.check_output(str(outputs.output))
    return opened


def _run(job: Job, outputs: Outputs, ledger: str | None, dataset: str | None, diagnose: Diagnose | None = None) -> None:
    """Explain, check or run: charge, write, print."""
    from dphist.ledger import charge as charges
    from dphist.ledger.heads import check_heads
    from dphist.run.strategies import explain

    talk = outputs.talk
    if outputs.explain:
        say(explain(job))
    check_heads(ledger, dataset, (outputs.output, outputs.report))
    if outputs.dry_run:
        job.check_source()
        talk.line(job.plan.describe(job.selection.unit))
        talk.line("\nDry run: the plan holds, the source can be read and has the columns. No record was counted.")
        with charges.charging(ledger, dataset, job.spend) as charge:
            talk.line("" if charge is None else f"It fits into what is left of {dataset!r}. Nothing was charged.")
        if outputs.as_json:
            say(job.plan.to_json())
        return
    if outputs.unkept and outputs.explain:
        return
    usual = ALL_ROWS if outputs.output is None else ROWS
    with charges.charging(ledger, dataset, job.spend) as charge:
        release = job.run(progress=talk.phase, diagnose=diagnose, charge=charge)
        release = release if charge is None else replace(release, receipt=charge.receipt)
        with release:
            _write(release, outputs, charge)
            first, groups = release.first(usual if outputs.show is None else outputs.show)
            if charge is not None and outputs.unkept:
                charge.confirm()
    if outputs.as_json:
        print_json({**release.record.to_data(), "released_groups": groups})
    if not talk.quiet:
        _print(talk, release, first, groups, outputs, ledger)


def _write(release: Release, outputs: Outputs, charge: Charge | None) -> None:
    """Write the files, and confirm the charge after the first."""
    if outputs.output is not None:
        release.write(outputs.output, overwrite=outputs.overwrite, raw_csv=outputs.raw_csv)
        if charge is not None:
            charge.confirm(outputs.output)
    if outputs.report is not None:
        release.report(outputs.report, overwrite=outputs.overwrite)
        if charge is not None and outputs.output is None:
            charge.confirm(outputs.report)


def _print(talk: Talk, release: Release, first: pa.Table, groups: int, outputs: Outputs, ledger: str | None) -> None:
    from dphist.planning.describe import rates_in_words
    from dphist.show.text import table_text

    record = release.record
    form = {"level": record.intervals, "screen": screen()}
    talk.table(table_text(first, release.plan, groups, release.totals, **form))  # type: ignore[arg-type]
    for words in record.without_value:
        talk.line(f"\n{words}")
    for bounds in record.bounds:
        talk.line(f"Bounds of {bounds}")
    request = release.plan.request
    talk.line(f"\n{record.summary}")
    for label, words in rates_in_words(release.plan.mechanism) if not release.plan.mechanism.counted else []:
        talk.line(f"{label.capitalize()}: {words}.")
    words = f"Guarantee: {record.guarantee}"
    spent = paid(at_most(request.epsilon, request.delta), ledger, release.receipt)
    talk.closing(words, outputs, *([UNKEPT] if outputs.unkept else []), spent)


def _unsafe(facts: dict[str, int]) -> None:
    for name, value in facts.items():
        say(f"UNSAFE, private, do not publish: {name} = {value}", err=True)
