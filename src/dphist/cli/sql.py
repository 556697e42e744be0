"""`dphist sql`: statements with `SELECT WITH DIFFERENTIAL_PRIVACY`, from a text, a file or a terminal."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dphist.cli.command import NUMBER, Option, Options, command
from dphist.cli.options import ACCOUNT, ENGINE, OUTPUTS, READING, EngineChoice
from dphist.cli.output import Outputs, Talk, answer_data, print_json, say, show_answer, show_paid, spent_in_words
from dphist.cli.tables import paths_of, tables_of, units_of
from dphist.errors import DphistError, InvalidParameter, MissingExtra
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.run.release import Answer
    from dphist.sql.connection import Connection
    from dphist.sql.script import Script

MOST_BYTES: Final = 1 << 20
"""The largest file of statements."""
ROWS: Final = 20
"""How many rows are printed of an answer that goes to a file, and in the shell."""
PLACE: Final = "{n}"
"""In the name of an output this stands for the number of the statement."""


def _table_names(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """The tables that a call names so far, for completion."""
    return [name for name in paths_of(context.params.get("tables") or ()) if name.startswith(begun)]


@command(
    click.Argument(
        ["query"],
        help="A statement, a file of statements (.sql), or - for standard input. Without one, on a terminal, a shell.",
        required=False,
    ),
    Option(
        "tables --table",
        "A table that statements name: files, a glob or a folder; without NAME= it is called like its file. Repeatable: paths"
        " of one name add up.",
        "Data",
        common=True,
        metavar="NAME=PATH",
        multiple=True,
    ),
    Option(
        "--public",
        "A table whose rows belong to nobody: a name of --table, or NAME=PATH. Repeatable.",
        "Data",
        common=True,
        metavar="NAME",
        multiple=True,
        shell_complete=_table_names,
    ),
    Option(
        "units --unit",
        "The column that says whose row it is, where OPTIONS does not: of all private tables, or TABLE=COLUMN;"
        " TABLE=NAME=EXPRESSION names what it computes. Repeatable.",
        "Privacy",
        common=True,
        metavar="COLUMN",
        multiple=True,
        shell_complete=_table_names,
    ),
    Options("reading", READING),
    Option(
        "--epsilon",
        "A budget that all private SELECTs share which say none of their own.",
        "Privacy",
        common=True,
        type=NUMBER,
    ),
    Option("--delta", "The delta of that budget.", "Privacy", common=True, type=NUMBER),
    OUTPUTS,
    *ACCOUNT,
    ENGINE,
    Option("--no-history", "Shell: keep no statement in a file after it ends."),
)
def sql(
    query: str | None,
    tables: list[str],
    public: list[str],
    units: list[str],
    reading: dict[str, Any],
    epsilon: float | None,
    delta: float | None,
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
    no_history: bool,
) -> None:
    """Answer SELECT WITH DIFFERENTIAL_PRIVACY, as in BigQuery, from files of this machine or on Spark.

    Without -o the whole answer is printed; it is charged all the same. For several statements -o and --report need {n} in the
    name, and write a file for each. With --explain and no file nothing is run. Options of text files are for all text
    tables; --type events.amount=double is for one.

    \b
    Examples:
      dphist sql \\
        "SELECT WITH DIFFERENTIAL_PRIVACY url FROM events GROUP BY url" \\
        --table events.parquet --unit user_id --epsilon 1 --delta 1e-8
      dphist sql query.sql --table events=events.parquet --unit user_id \\
        -o answer.parquet --report answer.html
      dphist sql query.sql --table events=events.parquet --unit user_id \\
        --explain
    """
    if query is None:
        _check_shell(outputs, {"--epsilon": epsilon, "--delta": delta})
    text, place = ("", "") if query is None else read_query(query)
    sources = tables_of(tables, public, reading)
    unit = units_of(units, list(sources))
    opened = engine.open()
    import dphist

    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UserWarning)
        connection = dphist.connect(
            tables=sources, unit=unit, ledger=ledger, dataset=dataset, epsilon=epsilon, delta=delta, engine=opened
        )
    for doubt in doubts:
        say(f"Warning: {doubt.message}", err=True)
    if query is None:
        _start_shell(connection, ledger, dataset, outputs.show, keep=not no_history)
        return
    with _located(place):
        script = connection.prepare(text)
        sources_read = [one.source for one in connection.tables.values()]
        _check(outputs, len(script.statements), [*sources_read, *filter(os.path.isfile, [query])])
        _run(outputs, script, ledger, dataset)


def _check(outputs: Outputs, statements: int, inputs: Sequence[object]) -> None:
    """Refuse outputs that may not be written, one output for several answers, and a run whose answer nobody would see."""
    from dphist.engines import files_of
    from dphist.files import formats

    if outputs.quiet and outputs.unkept and not (outputs.dry_run or outputs.as_json):
        raise InvalidParameter("-o FILE or --report FILE with --quiet", "neither", "nobody would see the answer.")
    for flag, path in (("-o", outputs.output), ("--report", outputs.report)):
        if path is not None and statements > 1 and PLACE not in str(path):
            hint = f"for example {flag} {path.stem}-{PLACE}{path.suffix}: each answer has its own."
            raise InvalidParameter(f"{PLACE} in {flag} for {statements} statements", str(path), hint)
    read = files_of(*inputs)
    for number in range(1, statements + 1):
        table, report = _numbered(outputs.output, number), _numbered(outputs.report, number)
        formats.check_table(table, report, inputs=read, overwrite=outputs.overwrite)


def _run(outputs: Outputs, script: Script, ledger: str | None, dataset: str | None) -> None:
    """Explain, check or run: charge, write, print."""
    from dphist.ledger.heads import check_heads

    def write(found: Sequence[Answer]) -> Path | None:
        """Write the files of all answers, and return the first, which the ledger notes."""
        for number, answer in enumerate(found, 1):
            table, report = _numbered(outputs.output, number), _numbered(outputs.report, number)
            replace(outputs, output=table, report=report).write(answer)
        return _numbered(outputs.output or outputs.report, 1)

    talk = outputs.talk
    if outputs.explain:
        say(script.explain())
    check_heads(ledger, dataset, (outputs.output, outputs.report))
    if outputs.dry_run:
        script.check()
        for job in script.jobs:
            talk.line(f"{job.plan.describe(job.selection.unit)}\n")
        charged = ledger is not None and dataset is not None
        fits = f" It fits into what is left of {dataset!r}. Nothing was charged." if charged else ""
        talk.line(f"Dry run: every SELECT is private, and the tables have their columns. No record was counted.{fits}")
        if outputs.as_json:
            print_json({"plans": [json.loads(job.plan.to_json()) for job in script.jobs]})
        return
    if outputs.explain and outputs.unkept:
        return
    try:
        found = script.run(progress=talk.phase, write=write)
    except DphistError as problem:
        show_paid(problem)
        raise
    if outputs.as_json:
        print_json({"answers": [answer_data(one, rows=outputs.output is None) for one in found]})
    if not talk.quiet:
        _print(talk, found, outputs, ledger)


def _print(talk: Talk, found: Sequence[Answer], outputs: Outputs, ledger: str | None) -> None:
    most = outputs.show if outputs.show is not None or outputs.output is None else ROWS
    for number, answer in enumerate(found, 1):
        if len(found) > 1:
            talk.line(f"{chr(10) * (number > 1)}Statement {number} of {len(found)}")
        show_answer(talk, answer, most)
        for what, path in (("Table", outputs.output), ("Report", outputs.report)):
            if path is not None:
                talk.line(f"{what} written to {printable(str(_numbered(path, number)))}")
    talk.line(spent_in_words(found, ledger))


def _numbered(path: Path | None, number: int) -> Path | None:
    return None if path is None else Path(str(path).replace(PLACE, str(number)))


def read_query(query: str) -> tuple[str, str]:
    """The text of the statements, and the name of its file; no name if the text is in the call."""
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
    """Add the file to the place of a refusal. Where no terminal shows the line itself, add the place to the sentence."""
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
    """Refuse a shell without a terminal, and options that mean nothing in a shell."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "without a terminal there is no shell; standard input is read with -."
        raise InvalidParameter("QUERY: a statement, a .sql file, or -", "none", hint)
    for one in OUTPUTS.options:  # the shell uses --show alone
        if one.name != "show" and getattr(outputs, str(one.name)):
            flag = one.opts[0]
            raise InvalidParameter(f"{flag} with a statement", "the shell", "leave it out, or write the statement.")
    for flag, value in budget.items():
        if value is not None:  # the budget of each statement, or of all?
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
