"""`dphist top-k`, `dphist session start|query|show` and `dphist continual start|add|show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import dphist
from dphist.cli.command import FILE, WHOLE, Group, Option, command
from dphist.cli.options import ACCOUNT, ENGINE, LEDGER, OUTPUTS, SOURCE, EngineChoice, K, Source, asked, declared
from dphist.cli.output import Outputs, at_most, paid, print_json, recorded, say, screen, show_table
from dphist.errors import InvalidParameter
from dphist.files.interruption import first_output
from dphist.planning.choices import METHODS
from dphist.planning.options import PlanOptions, SelectOptions
from dphist.words import printable

if TYPE_CHECKING:
    from dphist.run.stream import RunningCounts

_BUDGET = declared(PlanOptions, "epsilon", "delta")
_RECORDS = declared(SelectOptions, "by", "where", "null_keys")
_UNIT = declared(SelectOptions, "unit")
_SESSION = click.Argument(["file"], help="The file that keeps the session.", metavar="SESSION", type=FILE)
_STREAM = click.Argument(
    ["folder"], help="The folder that keeps the stream. It holds true counts.", metavar="STREAM", type=FILE
)
_WRITTEN = OUTPUTS.without("explain", "dry_run")

_ENDED_EARLY = "\nThe list ended early: no other group was clearly larger than the rest."


def _number(flag: str, words: str, **settings: Any) -> Option:
    return Option(flag, words, "Privacy", type=WHOLE, **settings)


@command(
    *_UNIT,
    asked(*_RECORDS),
    SOURCE,
    K,
    *_BUDGET,
    Option(
        "--method",
        "correlated: noisy counts; from-top: from a LIMIT query; ranked: keys in order.",
        "What to publish",
        common=True,
        choices=METHODS,
        default="correlated",
    ),
    _number("--max-groups", "The most groups of one unit; from-top only.", common=True),
    Option("--shortlist", "ranked: how many of the largest groups may be chosen (10 k).", type=WHOLE),
    OUTPUTS.without("explain"),
    *ACCOUNT,
    ENGINE.without("staging"),
    name="top-k",
)
def top_k(
    source: Source,
    unit: list[str],
    asked: dict[str, Any],
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
    **request: Any,
) -> None:
    """The groups with the most people: noisy counts, or a ranked list of keys.

    \b
    Examples:
      dphist top-k events.parquet --unit user_id --by url --k 10 --epsilon 1 \\
        --delta 1e-8
      dphist top-k events.parquet --unit user_id --by url --k 10 \\
        --method ranked --epsilon 1 --delta 1e-8 -o top.csv
    """
    from dphist.engines import files_of
    from dphist.files import formats
    from dphist.ledger.charge import stays_charged, telling
    from dphist.ledger.heads import check_heads

    plan = dphist.plan_top_k(**request)
    formats.check_table(outputs.output, outputs.report, inputs=files_of(source.source), overwrite=outputs.overwrite)
    if outputs.dry_run:
        if outputs.as_json:
            told = {name: request[name] for name in ("epsilon", "delta", "method", "k")}
            print_json({**told, "mechanism": plan.mechanism.parameters(), "guarantee": plan.guarantee})
        else:
            outputs.talk.line(str(plan))
        return
    if outputs.quiet and outputs.unkept:
        raise InvalidParameter(
            "-o FILE or --report FILE beside --quiet", "neither", "the list would be paid for and lost."
        )
    check_heads(ledger, dataset, (outputs.output, outputs.report))
    talk = outputs.talk
    result = dphist.top_k(
        source.files(),
        unit=unit,
        plan=plan,
        ledger=ledger,
        dataset=dataset,
        engine=engine.open(),
        progress=talk.phase,
        **asked,
    )
    receipt = result.receipt
    with telling(lambda: "" if receipt is None else stays_charged(receipt, first_output())):
        outputs.write(result)
    _show(result, outputs, {"complete": result.complete})
    if talk.quiet:
        return
    if not result.complete:
        talk.line(_ENDED_EARLY)
    words = paid(at_most(request["epsilon"], request["delta"]), ledger, receipt)
    talk.closing(f"Guarantee: {result.record.guarantee}", outputs, words)


def _show(result: dphist.TopK | RunningCounts, outputs: Outputs, facts: dict[str, Any]) -> None:
    """Print the first rows. JSON gets the metadata, and all rows unless a file has them."""
    from dphist.show.text import rows_text

    if outputs.as_json:
        groups = {"groups": result.table.to_pylist()} if outputs.output is None else {}
        print_json({**result.metadata(), **facts, "released_groups": result.table.num_rows, **groups})
    outputs.talk.table(rows_text(result.table, 20 if outputs.show is None else outputs.show, screen()))
    if words := result.left_out():
        outputs.talk.line(f"\n{words}")


session = Group("session", "Ranked lists from one budget, each paying only for what it returned.")


@command(
    _SESSION,
    *_UNIT,
    *_BUDGET,
    _number("--results", "The most results of all queries together.", required=True),
    _number("--queries", "The most queries.", required=True),
    Option("--shortlist", "How many of the largest groups a query may choose from.", type=WHOLE, default=1000),
    *ACCOUNT,
    OUTPUTS.only("quiet", "as_json"),
    group=session,
    name="start",
)
def start_session(file: Path, outputs: Outputs, **request: Any) -> None:
    """Begin a session: a number of results for a budget. Touches no data.

    \b
    Example:
      dphist session start session.json --unit user_id --epsilon 1 \\
        --delta 1e-8 --results 50 --queries 10
    """
    begun = dphist.Session.start(file, **request)
    if outputs.as_json:
        print_json({**_facts(begun), "ledger": begun.account.ledger})
    outputs.talk.line(str(begun))
    outputs.talk.line(recorded(begun.account.ledger))


def _facts(session: dphist.Session) -> dict[str, Any]:
    account = session.account
    return {
        "unit": account.unit, "epsilon": account.epsilon, "delta": account.delta, "guarantee": session.guarantee,
        "results_left": account.left_results, "queries_left": account.left_queries,
    }  # fmt: skip


@command(
    _SESSION, asked(*_RECORDS), SOURCE, K, LEDGER, ENGINE.without("staging"), OUTPUTS.only("as_json"), group=session
)
def query(
    file: Path,
    source: Source,
    asked: dict[str, Any],
    k: int,
    ledger: str | None,
    engine: EngineChoice,
    outputs: Outputs,
) -> None:
    """The groups with the most people, in order, without counts. Pays for what it returns.

    With --ledger the session is compared with the entry that paid for it.

    \b
    Example:
      dphist session query session.json events.parquet --by url --k 5
    """
    from dphist.show.text import rows_text

    kept = dphist.Session(file)
    table, complete = kept.query(
        source.files(), k=k, engine=engine.open(), ledger=ledger, progress=outputs.talk.phase, **asked
    )
    account = kept.account
    if outputs.as_json:
        left = {"results_left": account.left_results, "queries_left": account.left_queries}
        print_json({"groups": table.to_pylist(), "complete": complete, **left}, allow_nan=True)
        return
    show_table(rows_text(table, k, screen()))
    if not complete:
        say(_ENDED_EARLY)
    say(f"\nLeft: {account.left_results:,} results, {account.left_queries:,} queries.")


@command(_SESSION, OUTPUTS.only("as_json"), group=session, name="show")
def show_session(file: Path, outputs: Outputs) -> None:
    """What is spent and what is left, and the guarantee.

    \b
    Example:
      dphist session show session.json
    """
    kept = dphist.Session(file)
    if outputs.as_json:
        print_json(_facts(kept))
    else:
        say(str(kept))


continual = Group("continual", "Private running counts per group over a stream of batches.")


@command(
    _STREAM,
    *_UNIT,
    *_RECORDS,
    _number("--rounds", "The most batches that will ever be added.", required=True),
    _number("--max-groups", "The most groups one unit is counted in per batch.", required=True),
    *_BUDGET,
    *ACCOUNT,
    OUTPUTS.only("quiet", "as_json"),
    group=continual,
    name="start",
)
def start_stream(folder: Path, outputs: Outputs, **request: Any) -> None:
    """Begin a stream. Touches no data. Protected is what one person adds in one batch.

    \b
    Example:
      dphist continual start stream --unit user --by item --rounds 365 \\
        --max-groups 1 --epsilon 1 --delta 1e-8
    """
    stream = dphist.Continual.start(folder, **request)
    if outputs.as_json:
        told = {name: request[name] for name in ("unit", "by", "rounds", "max_groups", "epsilon", "delta")}
        print_json({**told, "mechanism": stream.mechanism.parameters(), "ledger": stream.receipt})
    outputs.talk.line(str(stream))
    outputs.talk.line(recorded(stream.receipt))


@command(
    _STREAM,
    SOURCE,
    Option(
        "--batch", "A name for the batch, such as its date; each counts once.", "Data", metavar="NAME", required=True
    ),
    _WRITTEN,
    LEDGER,
    ENGINE.without("staging"),
    group=continual,
)
def add(folder: Path, source: Source, batch: str, outputs: Outputs, ledger: str | None, engine: EngineChoice) -> None:
    """Take in one batch and print the running counts after it.

    With --ledger the stream is compared with the entry that paid for it.

    \b
    Example:
      dphist continual add stream monday.parquet --batch 2026-01-05
    """
    _check(outputs, folder, source.source)
    opened, records = engine.open(), source.files()
    _publish(
        dphist.Continual(folder).add(records, batch, engine=opened, ledger=ledger, progress=outputs.talk.phase), outputs
    )


@command(
    _STREAM,
    _WRITTEN,
    Option("--batches", "Print the names of the batches that are in.", "Output", common=True),
    group=continual,
    name="show",
)
def show_stream(folder: Path, outputs: Outputs, batches: bool) -> None:
    """The stream, and its counts as they were released in the last round. Costs nothing.

    \b
    Example:
      dphist continual show stream
    """
    _check(outputs, folder, [])
    stream = dphist.Continual(folder)
    if not batches:
        outputs.talk.line(f"{stream}\n")
        _publish(stream.show(), outputs)
    elif outputs.as_json:
        print_json({"batches": stream.batches})
    else:
        say("\n".join(map(printable, stream.batches)))


def _check(outputs: Outputs, folder: Path, source: list[str]) -> None:
    from dphist.engines import files_of
    from dphist.files import formats

    inputs = (folder, *files_of(source))
    formats.check_table(outputs.output, outputs.report, inputs=inputs, overwrite=outputs.overwrite)


def _publish(counts: RunningCounts, outputs: Outputs) -> None:
    outputs.write(counts)
    _show(counts, outputs, {})
    outputs.talk.closing(f"Round {counts.round:,} of {counts.mechanism.rounds:,}.", outputs)
