"""`dphist top-k`, `dphist session start|query|show` and `dphist continual start|add|show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dphist
from dphist.cli import options
from dphist.cli.commands import Commands
from dphist.cli.options import argument, option
from dphist.cli.output import Talk, at_most, paid, print_json, recorded, say, screen, show_table
from dphist.cli.reading import files_to_read, reads
from dphist.errors import InvalidParameter
from dphist.files.interruption import first_output
from dphist.planning.choices import METHODS
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.run.running import RunningCounts

sessions = Commands(help="Ranked lists from one budget, each paying only for what it returned.")
streams = Commands(help="Private running counts per group over a stream of batches.")
K = Annotated[int, option("--k", "The most groups to return.", "What to publish", common=True, metavar="NUMBER")]
File = Annotated[Path, argument("SESSION", "The file that keeps the session.")]
Folder = Annotated[Path, argument("STREAM", "The folder that keeps the stream. It holds true counts.")]

_ENDED_EARLY = "\nThe list ended early: no other group was clearly larger than the rest."


@reads
def top_k(
    source: options.Source,
    reading: dict[str, Any],
    unit: options.Unit,
    by: options.By,
    k: K,
    epsilon: options.Epsilon,
    delta: options.Delta,
    method: Annotated[
        str,
        option(
            "--method",
            "correlated: noisy counts; from-top: from a LIMIT query; ranked: keys in order.",
            "What to publish",
            common=True,
            choices=METHODS,
            metavar="NAME",
        ),
    ] = "correlated",
    max_groups: Annotated[
        int | None,
        option("--max-groups", "The most groups of one unit; from-top only.", "Privacy", common=True, metavar="NUMBER"),
    ] = None,
    shortlist: Annotated[
        int | None,
        option(
            "--shortlist", "ranked: how many of the largest groups may be chosen (10 k).", "Advanced", metavar="NUMBER"
        ),
    ] = None,
    where: options.Where = None,
    null_keys: options.NullKeys = "group",
    output: options.Output = None,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    raw_csv: options.RawCsv = False,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    show: options.Show = 20,
) -> None:
    """The groups with the most people: noisy counts, or a ranked list of keys.

    Example: dphist top-k events.parquet --unit user_id --by url --k 10 --epsilon 1 --delta 1e-8
    Example: dphist top-k events.parquet --unit user_id --by url --k 10 --method ranked --epsilon 1 --delta 1e-8 -o top.csv
    """
    from dphist.engines import files_of
    from dphist.files import formats
    from dphist.ledger.charge import stays_charged, telling
    from dphist.ledger.heads import check_heads

    budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "method": method}
    plan = dphist.plan_top_k(k=k, max_groups=max_groups, shortlist=shortlist, **budget)
    formats.check_table(output, report, inputs=files_of(source), overwrite=overwrite)
    if dry_run:
        if as_json:
            print_json({**budget, "k": k, "mechanism": plan.mechanism.parameters(), "guarantee": plan.guarantee})
        else:
            Talk(quiet=quiet).line(str(plan))
        return
    if quiet and output is None and report is None:
        raise InvalidParameter(
            "-o FILE or --report FILE beside --quiet", "neither", "the list would be paid for and lost."
        )
    check_heads(ledger, dataset, (output, report))
    talk = Talk(quiet=quiet or as_json)
    result = dphist.top_k(
        files_to_read(source, reading),
        unit=unit,
        by=by,
        plan=plan,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        ledger=ledger,
        dataset=dataset,
        engine=options.open_engine(engine, threads, memory_limit, master=master, remote=remote),
        progress=talk.phase,
    )
    receipt = result.receipt
    with telling(lambda: "" if receipt is None else stays_charged(receipt, first_output())):
        _write(result, output, report, overwrite, raw_csv)
    _show(result, output, show, {"complete": result.complete}, talk, as_json=as_json)
    if talk.quiet:
        return
    if not result.complete:
        talk.line(_ENDED_EARLY)
    words = paid(at_most(epsilon, delta), ledger, receipt)
    talk.closing(f"Guarantee: {result.record.guarantee}", output, report, words)


def _write(
    result: dphist.TopK | RunningCounts, output: Path | None, report: Path | None, overwrite: bool, raw_csv: bool
) -> None:
    if output is not None:
        result.write(output, overwrite=overwrite, raw_csv=raw_csv)
    if report is not None:
        result.report(report, overwrite=overwrite)


def _show(
    result: dphist.TopK | RunningCounts,
    output: Path | None,
    most: int,
    facts: dict[str, Any],
    talk: Talk,
    *,
    as_json: bool,
) -> None:
    """The first rows; as JSON everything public about the result, and all rows unless they were written."""
    from dphist.show.text import rows_text

    if as_json:
        groups = {"groups": result.table.to_pylist()} if output is None else {}
        print_json({**result.metadata(), **facts, "released_groups": result.table.num_rows, **groups})
    talk.table(rows_text(result.table, most, screen()))
    if words := result.left_out():
        talk.line(f"\n{words}")


@sessions.command("start")
def start_session(
    file: File,
    unit: options.Unit,
    epsilon: options.Epsilon,
    delta: options.Delta,
    results: Annotated[
        int, option("--results", "The most results of all queries together.", "Privacy", metavar="NUMBER")
    ],
    queries: Annotated[int, option("--queries", "The most queries.", "Privacy", metavar="NUMBER")],
    shortlist: Annotated[
        int,
        option("--shortlist", "How many of the largest groups a query may choose from.", "Advanced", metavar="NUMBER"),
    ] = 1000,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Begin a session: a number of results for a budget. Touches no data.

    Example: dphist session start session.json --unit user_id --epsilon 1 --delta 1e-8 --results 50 --queries 10
    """
    session = dphist.Session.start(
        file, unit=unit, epsilon=epsilon, delta=delta, results=results, queries=queries, shortlist=shortlist,
        ledger=ledger, dataset=dataset,
    )  # fmt: skip
    if as_json:
        print_json({**_facts(session), "ledger": session.account.ledger})
    talk = Talk(quiet=quiet or as_json)
    talk.line(str(session))
    talk.line(recorded(session.account.ledger))


def _facts(session: dphist.Session) -> dict[str, Any]:
    account = session.account
    return {
        "unit": account.unit, "epsilon": account.epsilon, "delta": account.delta, "guarantee": session.guarantee,
        "results_left": account.left_results, "queries_left": account.left_queries,
    }  # fmt: skip


@sessions.command("query")
@reads
def query(
    file: File,
    source: options.Source,
    reading: dict[str, Any],
    by: options.By,
    k: K,
    where: options.Where = None,
    null_keys: options.NullKeys = "group",
    ledger: options.Ledger = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    as_json: options.AsJson = False,
) -> None:
    """The groups with the most people, in order, without counts. Pays for what it returns.

    With --ledger the session is compared with the entry that paid for it.

    Example: dphist session query session.json events.parquet --by url --k 5
    """
    from dphist.show.text import rows_text

    session = dphist.Session(file)
    records = files_to_read(source, reading)
    table, complete = session.query(
        records,
        by=by,
        k=k,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        engine=options.open_engine(engine, master=master, remote=remote),
        ledger=ledger,
        progress=Talk(quiet=as_json).phase,
    )
    account = session.account
    if as_json:
        left = {"results_left": account.left_results, "queries_left": account.left_queries}
        print_json({"groups": table.to_pylist(), "complete": complete, **left}, allow_nan=True)
        return
    show_table(rows_text(table, k, screen()))
    if not complete:
        say(_ENDED_EARLY)
    say(f"\nLeft: {account.left_results:,} results, {account.left_queries:,} queries.")


@sessions.command("show")
def show_session(file: File, as_json: options.AsJson = False) -> None:
    """What is spent and what is left, and the guarantee.

    Example: dphist session show session.json
    """
    session = dphist.Session(file)
    if as_json:
        print_json(_facts(session))
    else:
        say(str(session))


@streams.command("start")
def start_stream(
    folder: Folder,
    unit: options.Unit,
    by: options.By,
    rounds: Annotated[
        int, option("--rounds", "The most batches that will ever be added.", "Privacy", metavar="NUMBER")
    ],
    max_groups: Annotated[
        int, option("--max-groups", "The most groups one unit is counted in per batch.", "Privacy", metavar="NUMBER")
    ],
    epsilon: options.Epsilon,
    delta: options.Delta,
    where: options.Where = None,
    null_keys: options.NullKeys = "group",
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Begin a stream. Touches no data. Protected is what one person adds in one batch.

    Example: dphist continual start stream --unit user --by item --rounds 365 --max-groups 1 --epsilon 1 --delta 1e-8
    """
    stream = dphist.Continual.start(
        folder, unit=unit, by=by, rounds=rounds, max_groups=max_groups, epsilon=epsilon, delta=delta, where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        ledger=ledger, dataset=dataset,
    )  # fmt: skip
    if as_json:
        asked = {"unit": unit, "by": by, "rounds": rounds, "max_groups": max_groups, "epsilon": epsilon, "delta": delta}
        print_json({**asked, "mechanism": stream.mechanism.parameters(), "ledger": stream.receipt})
    talk = Talk(quiet=quiet or as_json)
    talk.line(str(stream))
    talk.line(recorded(stream.receipt))


@streams.command("add")
@reads
def add(
    folder: Folder,
    source: options.Source,
    reading: dict[str, Any],
    batch: Annotated[
        str,
        option("--batch", "A name for the batch, such as its date; each counts once.", "Data", metavar="NAME"),
    ],
    output: options.Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    raw_csv: options.RawCsv = False,
    show: options.Show = 20,
    ledger: options.Ledger = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Take in one batch and print the running counts after it.

    With --ledger the stream is compared with the entry that paid for it.

    Example: dphist continual add stream monday.parquet --batch 2026-01-05
    """
    from dphist.engines import files_of
    from dphist.files import formats

    formats.check_table(output, report, inputs=(folder, *files_of(source)), overwrite=overwrite)
    opened = options.open_engine(engine, master=master, remote=remote)
    talk = Talk(quiet=quiet or as_json)
    records = files_to_read(source, reading)
    counts = dphist.Continual(folder).add(records, batch, engine=opened, ledger=ledger, progress=talk.phase)
    _write(counts, output, report, overwrite, raw_csv)
    _publish(counts, output, report, show, talk, as_json=as_json)


@streams.command("show")
def show_stream(
    folder: Folder,
    output: options.Output = None,
    report: options.Report = None,
    overwrite: options.Overwrite = False,
    raw_csv: options.RawCsv = False,
    show: options.Show = 20,
    batches: Annotated[
        bool, option("--batches", "Print the names of the batches that are in.", "Output", common=True)
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """The stream, and its counts as they were released in the last round. Costs nothing.

    Example: dphist continual show stream
    """
    from dphist.files import formats

    formats.check_table(output, report, inputs=(folder,), overwrite=overwrite)
    stream = dphist.Continual(folder)
    if batches:
        if as_json:
            print_json({"batches": stream.batches})
        else:
            say("\n".join(map(printable, stream.batches)))
        return
    Talk(quiet=quiet or as_json).line(f"{stream}\n")
    counts = stream.show()
    _write(counts, output, report, overwrite, raw_csv)
    _publish(counts, output, report, show, Talk(quiet=quiet or as_json), as_json=as_json)


def _publish(
    counts: RunningCounts, output: Path | None, report: Path | None, most: int, talk: Talk, *, as_json: bool
) -> None:
    _show(counts, output, most, {}, talk, as_json=as_json)
    talk.closing(f"Round {counts.round:,} of {counts.mechanism.rounds:,}.", output, report)
