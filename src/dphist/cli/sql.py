"""`dphist sql`: statements with `SELECT WITH DIFFERENTIAL_PRIVACY`, from a text, a file or a terminal."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from dphist.cli import answers, options
from dphist.cli.options import argument, option
from dphist.cli.output import Talk, print_json, say
from dphist.cli.reading import reads
from dphist.cli.tables import Public, Tables, Units, tables_of, units_of
from dphist.errors import DphistError, InvalidParameter, MissingExtra
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.run.answer import Answer
    from dphist.sql.connection import Connection
    from dphist.sql.script import Script

MOST_BYTES: Final = 1 << 20
"""Of a file of statements."""
ROWS: Final = 20
"""That are printed of what is written to a file, and in the shell."""
NUMBER: Final = "{n}"
"""In the name of an output: which statement it is the answer to."""


@reads
def command(
    *,
    query: Annotated[
        str | None,
        argument(
            "QUERY",
            "A statement, a file of statements (.sql), or - for standard input. Without one, on a terminal, a shell.",
        ),
    ] = None,
    reading: dict[str, Any],
    tables: Tables = None,
    public: Public = None,
    units: Units = None,
    epsilon: Annotated[
        float | None,
        option(
            "--epsilon",
            "A budget that all private SELECTs share which say none of their own.",
            "Privacy",
            common=True,
            metavar="NUMBER",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option("--delta", "The delta of that budget.", "Privacy", common=True, metavar="NUMBER"),
    ] = None,
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
    no_history: Annotated[
        bool, option("--no-history", "Shell: keep no statement in a file after it ends.", "Advanced")
    ] = False,
) -> None:
    """Answer SELECT WITH DIFFERENTIAL_PRIVACY, as in BigQuery, from files of this machine or on Spark.

    Without -o the whole answer is printed; it is charged all the same. Of several statements -o and --report write one file
    each: put {n} into the name. With --explain and no file nothing is run. Options of text files are for all tables that are text;
    --type events.amount=double is for one.

    Example: dphist sql "SELECT WITH DIFFERENTIAL_PRIVACY url FROM events GROUP BY url" --table events.parquet --unit user_id --epsilon 1 --delta 1e-8
    Example: dphist sql query.sql --table events=events.parquet --unit user_id -o answer.parquet --report answer.html
    Example: dphist sql query.sql --table events=events.parquet --unit user_id --explain
    """  # noqa: E501 - examples are copied whole
    outputs = Outputs(output, report, overwrite, raw_csv, explain, dry_run, quiet, as_json, show)
    if query is None:
        _check_shell(outputs, {"--epsilon": epsilon, "--delta": delta})
    text, place = ("", "") if query is None else read_query(query)
    sources = tables_of(tables or (), public or (), reading)
    unit = units_of(units or (), list(sources))
    cluster = {"master": master, "remote": remote, "staging": staging}
    opened = options.open_engine(engine, threads, memory_limit, temp_directory, **cluster)
    import dphist

    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UserWarning)
        connection = dphist.connect(
            tables=sources, unit=unit, ledger=ledger, dataset=dataset, epsilon=epsilon, delta=delta, engine=opened
        )
    for doubt in doubts:
        say(f"Warning: {doubt.message}", err=True)
    if query is None:
        _start_shell(connection, ledger, dataset, show, keep=not no_history)
        return
    with _located(place):
        script = connection.prepare(text)
        outputs.check(
            len(script.statements),
            [*(one.source for one in connection.tables.values()), *filter(os.path.isfile, [query])],
        )
        outputs.run(script, ledger, dataset)


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the answers to a script are written to and printed as."""

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
    def run_options(self) -> dict[str, bool]:
        """Those that are given, of which the shell has no use."""
        return {
            "-o": self.table is not None, "--report": self.report is not None, "--overwrite": self.overwrite,
            "--raw-csv": self.raw_csv, "--explain": self.explain, "--dry-run": self.dry_run, "--quiet": self.quiet,
            "--json": self.as_json,
        }  # fmt: skip

    def check(self, statements: int, inputs: Sequence[object]) -> None:
        """Refuse files that may not be written, one for several answers, and a run that nobody would see anything of."""
        from dphist.engines import files_of
        from dphist.files import formats

        if self.quiet and not (self.table or self.report or self.dry_run or self.as_json):
            raise InvalidParameter("-o FILE or --report FILE with --quiet", "neither", "nobody would see the answer.")
        for flag, path in (("-o", self.table), ("--report", self.report)):
            if path is not None and statements > 1 and NUMBER not in str(path):
                hint = f"for example {flag} {path.stem}-{NUMBER}{path.suffix}: each answer has its own."
                raise InvalidParameter(f"{NUMBER} in {flag} for {statements} statements", str(path), hint)
        read = files_of(*inputs)
        for number in range(1, statements + 1):
            formats.check_table(
                _numbered(self.table, number), _numbered(self.report, number), inputs=read, overwrite=self.overwrite
            )

    def run(self, script: Script, ledger: str | None, dataset: str | None) -> None:
        """Explain, check or run: charge, write, print."""
        from dphist.ledger.heads import check_heads

        talk = Talk(quiet=self.quiet or self.as_json)
        if self.explain:
            say(script.explain())
        check_heads(ledger, dataset, (self.table, self.report))
        if self.dry_run:
            script.check()
            self._print_plans(talk, script, dataset if ledger is not None else None)
            return
        if self.explain and self.table is None and self.report is None:
            return
        try:
            found = script.run(progress=talk.phase, write=self._write)
        except DphistError as problem:
            answers.show_paid(problem)
            raise
        self._print(talk, found, ledger)

    def _print_plans(self, talk: Talk, script: Script, dataset: str | None) -> None:
        for job in script.jobs:
            talk.line(f"{job.plan.describe(job.selection.unit)}\n")
        fits = "" if dataset is None else f" It fits into what is left of {dataset!r}. Nothing was charged."
        talk.line(f"Dry run: every SELECT is private, and the tables have their columns. No record was counted.{fits}")
        if self.as_json:
            print_json({"plans": [json.loads(job.plan.to_json()) for job in script.jobs]})

    def _write(self, found: Sequence[Answer]) -> Path | None:
        """Every file; the first one is what the ledger hears of."""
        for number, answer in enumerate(found, 1):
            if (table := _numbered(self.table, number)) is not None:
                answer.write(table, overwrite=self.overwrite, raw_csv=self.raw_csv)
            if (report := _numbered(self.report, number)) is not None:
                answer.report(report, overwrite=self.overwrite)
        return _numbered(self.table or self.report, 1)

    def _print(self, talk: Talk, found: Sequence[Answer], ledger: str | None) -> None:
        if self.as_json:
            print_json({"answers": [answers.as_data(one, rows=self.table is None) for one in found]})
        if talk.quiet:
            return
        most = self.rows if self.rows is not None or self.table is None else ROWS
        for number, answer in enumerate(found, 1):
            if len(found) > 1:
                talk.line(f"{chr(10) * (number > 1)}Statement {number} of {len(found)}")
            answers.show(talk, answer, most)
            for what, path in (("Table", self.table), ("Report", self.report)):
                if path is not None:
                    talk.line(f"{what} written to {printable(str(_numbered(path, number)))}")
        talk.line(answers.spent(found, ledger))


def _numbered(path: Path | None, number: int) -> Path | None:
    return None if path is None else Path(str(path).replace(NUMBER, str(number)))


def read_query(query: str) -> tuple[str, str]:
    """The statements, and where they come from, in words; nothing if they are the words of the call."""
    if query == "-":
        return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input"), "standard input"
    if query.lower().endswith(".sql") or os.path.isfile(query):
        from dphist.files.stored import read_file

        return _decoded(read_file(Path(query), "a file of statements", MOST_BYTES), query), Path(query).name
    if query.strip() and not any(letter.isspace() for letter in query):
        hint = "no file has this name, and one word is no statement. Statements with blanks need quotes."
        raise InvalidParameter("a statement, a .sql file, or -", repr(query), hint)
    return query, ""


def _decoded(content: bytes, place: str) -> str:
    if len(content) > MOST_BYTES:
        raise InvalidParameter(f"at most {MOST_BYTES:,} bytes of statements in {place}", "more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"statements in UTF-8 in {place}", "another encoding", "save it as UTF-8.") from None


@contextmanager
def _located(place: str) -> Iterator[None]:
    """Let a refusal say in which file it is; where no terminal shows the line itself, in words."""
    try:
        yield
    except InvalidParameter as problem:
        if problem.pointer:
            where, _, lines = problem.pointer.partition("\n")
            where = f"{where} of {place}" if place else where
            problem.pointer = f"{where}\n{lines}"
            if not sys.stderr.isatty():
                problem.args = (f"{problem.args[0]} See {where}.",)
        raise


def _check_shell(outputs: Outputs, budget: dict[str, float | None]) -> None:
    """Refuse a shell without a terminal, and options that say nothing to one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "without a terminal there is no shell; standard input is read with -."
        raise InvalidParameter("QUERY: a statement, a .sql file, or -", "none", hint)
    for flag, given in outputs.run_options.items():
        if given:
            raise InvalidParameter(f"{flag} with a statement", "the shell", "leave it out, or write the statement.")
    for flag, value in budget.items():
        if value is not None:  # of which statement, or of all of them?
            hint = "say it in OPTIONS of each statement; a ledger limits them all."
            raise InvalidParameter(f"{flag} with a script", "the shell", hint)


def _start_shell(
    connection: Connection, ledger: str | None, dataset: str | None, rows: int | None, *, keep: bool
) -> None:
    from dphist.ledger.heads import check_heads

    try:
        from dphist.cli import shell
    except ModuleNotFoundError:
        raise MissingExtra("sql", "the shell") from None
    check_heads(ledger, dataset, ())
    history = shell.open_history(shell.history_file()) if keep else None
    say(shell.WELCOME)
    shell.Shell(connection, ledger=ledger, dataset=dataset, rows=ROWS if rows is None else rows, history=history).run()
