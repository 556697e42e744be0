"""`dphist stat`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import dphist
from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import Talk, at_most, paid, print_json, say
from dphist.cli.reading import files_to_read, reads
from dphist.columns import unit_of
from dphist.errors import InvalidParameter
from dphist.planning.choices import STATISTICS
from dphist.planning.options import StatisticOptions
from dphist.words import exactly, percent, rounded_up

if TYPE_CHECKING:
    from dphist.planning.statistics import StatisticPlan, TradeOff


@reads
@options.spread(StatisticOptions, optional="epsilon")
def command(
    *,
    statistic: Annotated[
        str,
        options.argument(
            "STATISTIC",
            f"One of {', '.join(STATISTICS)}. median is the lower one (rank ⌈n/2⌉), a quantile the value of rank ⌈p·n⌉,"
            " std the population standard deviation.",
            choices=STATISTICS,
        ),
    ],
    reading: dict[str, Any],
    source: options.SourceOrNone = None,
    unit: options.UnitOrNone = None,
    column: options.Column = None,
    asked: dict[str, Any],
    where: options.Where = None,
    table: Annotated[
        bool,
        option(
            "--table",
            "Print how many records are dropped for which epsilon, delta and n; read no record.",
            "Output",
            common=True,
        ),
    ] = False,
    dry_run: options.DryRun = False,
    ledger: options.Ledger = None,
    dataset: options.Dataset = None,
    threads: options.Threads = None,
    memory_limit: options.MemoryLimit = None,
    temp_directory: options.TempDirectory = None,
    engine: options.EngineName = "duckdb",
    master: options.Master = None,
    remote: options.Remote = None,
    as_json: options.AsJson = False,
) -> None:
    """One private number: state the error and the share of records that may be disregarded, get an answer with a promise.

    Example: dphist stat max ages.parquet --column age --unit person --lower 0 --upper 120 --error 1 --drop 0.005 --epsilon 0.5
    """
    if "epsilon" not in asked:
        raise InvalidParameter("--epsilon", "none", "0.5 is a common choice for one number.")
    if table or dry_run:
        from dphist.planning.statistics import plan_statistic

        plan = plan_statistic(statistic, **asked)
        facts: dict[str, Any] = {}
        words: list[str] = []
        if table:
            facts |= {"bars": plan.bars, "trade_offs": [asdict(row) for row in _trade_offs(plan)]}
            words.append(_table(plan))
        if dry_run:
            promise, guarantee = plan.accuracy(), plan.privacy(unit_of(unit) if unit else None)
            facts |= {"promise": promise, "bounding": plan.bounding(), "guarantee": guarantee}
            words.append(f"Promise: {promise}\n{plan.bounding()}\nGuarantee: {guarantee}")
        if as_json:
            print_json(facts)
        else:
            say("\n".join(words))
        if dry_run:
            plan.require_feasible()
        return
    if not source or not unit:
        raise InvalidParameter("FILE and --unit COLUMN", "not both", "or --dry-run, which reads nothing.")
    from dphist.ledger.heads import check_heads

    check_heads(ledger, dataset, ())
    talk = Talk(quiet=as_json)
    answer = dphist.stat(
        statistic,
        files_to_read(source, reading),
        unit=unit,
        column=column,
        where=where,
        ledger=ledger,
        dataset=dataset,
        engine=options.open_engine(engine, threads, memory_limit, temp_directory, master=master, remote=remote),
        progress=talk.phase,
        **asked,
    )
    if as_json:
        print_json(answer.to_data())
        return
    talk.line(str(answer))
    talk.line(paid(at_most(answer.plan.epsilon, answer.plan.delta), ledger, answer.receipt))


def _trade_offs(plan: StatisticPlan) -> list[TradeOff]:
    """What other budgets would drop, and how many records they need for the share."""
    from dphist.planning.statistics import trade_offs

    if plan.bars is None:
        raise InvalidParameter(
            "--max-values, a public bound on the values", "none", "the drops add up over all values."
        )
    return trade_offs(plan.bars, _drop(plan), plan.mechanism.max_groups, (plan.epsilon, plan.delta))


def _drop(plan: StatisticPlan) -> float:
    return 0.005 if plan.drop is None else plan.drop


def _table(plan: StatisticPlan) -> str:
    """Records dropped against epsilon and delta, and the records needed for the share."""
    rows, drop = _trade_offs(plan), _drop(plan)
    sizes = (10_000, 1_000_000) if plan.min_records is None else (plan.min_records,)
    shares = "".join(f"{f'share of {size:,}':>20}" for size in sizes)
    title = f"{plan.bars:,} bars; up to q records are dropped from each"
    lines = [title, "", f"  epsilon     delta        q   dropped at most{shares}   needed for {percent(drop)} %"]
    for row in rows:
        of = "".join(f"{rounded_up(100 * row.share_of(size), 3) + ' %':>20}" for size in sizes)
        budget = f"  {exactly(row.epsilon):>7}  {rounded_up(row.delta, 2):>8}  {row.q:>7,}"
        needed = f"{row.records_needed:>{13 + len(percent(drop))},}"
        own = (row.epsilon, row.delta) == (plan.epsilon, plan.delta)
        lines.append(f"{budget}  {row.dropped:>16,}{of}  {needed}{'  (yours)' * own}")
    return "\n".join(lines)
