"""`dphist release` and `dphist verify`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import Talk, at_most, on_terminal, paid, print_json, say, screen
from dphist.cli.reading import files_to_read, reads
from dphist.errors import InvalidParameter
from dphist.planning.options import BudgetOptions
from dphist.words import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from dphist.engines.base import Engine
    from dphist.ledger.charge import Charge
    from dphist.run.job import Diagnose, Job
    from dphist.run.release import Release


ROWS: Final = 20
"""That are printed of what is written to a file."""
ALL_ROWS: Final = 2**31 - 1
UNKEPT: Final = (
    "No file has this table: it is gone when this window is closed, and another one costs its budget again."
    " With -o out.parquet it is kept."
)


@reads
@options.spread(BudgetOptions)
def command(
    *,
    source: options.Source,
    reading: dict[str, Any],
    unit: options.Unit,
    by: options.ByOrNone = None,
    asked: dict[str, Any],
    plan: options.SavedPlan = None,
    where: options.Where = None,
    null_keys: options.NullKeys = "group",
    order: options.Order = "count",
    intervals: options.Intervals = None,
    integers: options.Integers = False,
    allow_negative: options.AllowNegative = False,
    output: options.Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    raw_csv: options.RawCsv = False,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    temp_directory: options.TempDirectory = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    staging: options.StagingDirectory = None,
    explain: options.Explain = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    show: options.ShowOrNone = None,
    unsafe_diagnostics: Annotated[
        bool, option("--unsafe-diagnostics", "Print true, PRIVATE numbers to stderr. Never publish them.", "Advanced")
    ] = False,
) -> None:
    """Count people per group, add noise, hide small groups: write a table that is safe to publish.

    Without --by all people are one row. A release needs --epsilon and --delta, or --plan; and -o or --report, or a terminal,
    which shows all of the table, not 20 rows, and keeps nothing.

    Example: dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o out.parquet
    Example: dphist release events.parquet --unit user_id --by url --sum likes:0:1 --epsilon 1 --delta 1e-8 --report out.html
    Example: dphist release events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 --dry-run
    """
    from dphist.run import job as releasing

    outputs = Outputs(output, report, overwrite, raw_csv, explain, dry_run, quiet, as_json, show)
    outputs.check(engine, source, plan, asked.get("keys", ()))
    budget = options.parse(asked)
    check_budget("release", plan, budget)
    cluster = {"master": master, "remote": remote, "staging": staging}
    opened = options.open_engine(engine, threads, memory_limit, temp_directory, **cluster)
    outputs.check_with(opened)
    job = releasing.prepare(
        files_to_read(source, reading),
        unit=unit,
        by=by,
        plan=plan,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        order=order,  # type: ignore[arg-type]
        intervals=intervals,
        integers=integers,
        allow_negative=allow_negative,
        engine=opened,
        **budget,
    )
    outputs.run(job, ledger, dataset, diagnose=_unsafe if unsafe_diagnostics else None)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a run on the road of releases writes and prints."""

    table: Path | None
    report: Path | None
    overwrite: bool
    raw_csv: bool
    explain: bool
    dry_run: bool
    quiet: bool
    as_json: bool
    rows: int | None

    @property
    def unkept(self) -> bool:
        """Whether no file gets the result."""
        return self.table is None and self.report is None

    def check(self, engine: str, source: list[str], *inputs: object) -> None:
        """Refuse a run without a result, and files that may not be written."""
        from dphist.engines import files_of, writes_folders
        from dphist.files import formats

        seen = on_terminal() and not self.quiet and not self.as_json and self.rows != 0
        if self.unkept and not (self.explain or self.dry_run or seen):
            hint = "add -o out.parquet. Without it the table is shown on a terminal, and nowhere else."
            raise InvalidParameter("-o FILE or --report FILE", "neither", hint)
        check = formats.check_folder if writes_folders(engine) else formats.check_table
        check(self.table, self.report, inputs=files_of(source, *inputs), overwrite=self.overwrite)

    def check_with(self, engine: Engine) -> None:
        """Refuse what only the engine can see."""
        if self.table is not None:
            engine.check_output(str(self.table))

    def run(self, job: Job, ledger: str | None, dataset: str | None, diagnose: Diagnose | None = None) -> None:
        """Explain, check or run: charge, write, print."""
        from dphist.ledger import charge as charges
        from dphist.ledger.heads import check_heads
        from dphist.run.strategies import explain

        talk = Talk(quiet=self.quiet or self.as_json)
        if self.explain:
            say(explain(job))
        check_heads(ledger, dataset, (self.table, self.report))
        if self.dry_run:
            job.check_source()
            talk.line(job.plan.describe(job.selection.unit))
            talk.line("\nDry run: the plan holds, the source can be read and has the columns. No record was counted.")
            with charges.charging(ledger, dataset, job.spend) as charge:
                talk.line("" if charge is None else f"It fits into what is left of {dataset!r}. Nothing was charged.")
            if self.as_json:
                say(job.plan.to_json())
            return
        if self.unkept and self.explain:
            return
        with charges.charging(ledger, dataset, job.spend) as charge:
            release = job.run(progress=talk.phase, diagnose=diagnose, charge=charge)
            release = release if charge is None else replace(release, receipt=charge.receipt)
            with release:
                self._write(release, charge)
                first, groups = release.first(self._most)
                if charge is not None and self.unkept:
                    charge.confirm()
        self._print(talk, release, first, groups, ledger)

    @property
    def _most(self) -> int:
        """How many rows are printed."""
        usual = ALL_ROWS if self.table is None else ROWS
        return usual if self.rows is None else self.rows

    def _write(self, release: Release, charge: Charge | None) -> None:
        """A charge is confirmed once the first file is there."""
        if self.table is not None:
            release.write(self.table, overwrite=self.overwrite, raw_csv=self.raw_csv)
            if charge is not None:
                charge.confirm(self.table)
        if self.report is not None:
            release.report(self.report, overwrite=self.overwrite)
            if charge is not None and self.table is None:
                charge.confirm(self.report)

    def _print(self, talk: Talk, release: Release, first: pa.Table, groups: int, ledger: str | None) -> None:
        from dphist.planning.describe import rates_in_words
        from dphist.show.text import table_text

        record = release.record
        if self.as_json:
            print_json({**record.to_data(), "released_groups": groups})
        if talk.quiet:
            return
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
        talk.closing(words, self.table, self.report, *([UNKEPT] if self.unkept else []), spent)


def check_budget(what: str, plan: Path | None, budget: dict[str, Any]) -> None:
    """Refuse a run that nobody said the budget of."""
    if plan is None and (missing := [name for name in ("epsilon", "delta") if name not in budget]):
        hint = f"a {what} needs --epsilon and --delta, or --plan FILE."
        raise InvalidParameter(f"--{missing[0]}", "none", hint)


def _unsafe(facts: dict[str, int]) -> None:
    for name, value in facts.items():
        say(f"UNSAFE, private, do not publish: {name} = {value}", err=True)


def verify_command(
    files: Annotated[
        list[Path],
        options.argument("FILE", "Files and reports (.html) that dphist wrote, or folders of them. Repeatable."),
    ],
    ledger: options.Ledger = None,
    head: options.Head = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Check published files against their plans and guarantees, without the data. Exit code 1 if a check fails.

    With --ledger also against the entry that paid. Of one file every check is shown; of several, or a folder, a line for each
    file: intact, edited, unsealed (nothing would show an edit) or unreadable, and with --ledger unpaid or of another ledger.

    Example: dphist verify out.parquet
    Example: dphist verify published --ledger ledger.db
    """
    from dphist.verification.folder import examine_all, is_folder_of_files
    from dphist.verification.isolated import verify_apart
    from dphist.verification.state import NOT_KNOWN

    Talk(quiet=quiet or as_json).phase("checking the file")
    if len(files) > 1 or is_folder_of_files(files[0]):
        examined = examine_all(files, ledger=ledger, head=head, apart=True)
        data, lines = [one.to_data() for one in examined], "\n".join(printable(str(one)) for one in examined)
        good = all(one.is_good for one in examined)
    else:
        checks = verify_apart(files[0], ledger=ledger, head=head)
        data = [{"check": c.name, "state": c.state, "passed": c.passed, "detail": c.detail} for c in checks]
        lines, good = str(checks), not any(check.failed for check in checks)
    if as_json:
        print_json(data)
    elif not quiet:
        say(f"{lines}\n\n{NOT_KNOWN}")
    if not good:
        sys.exit(1)
