"""`dphist stat` and `dphist bounds`: numbers about one column."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

import dphist
from dphist.cli.command import NUMBER, Option, Options, command, completed
from dphist.cli.options import ACCOUNT, COLUMN, ENGINE, OUTPUTS, SOURCE, EngineChoice, Source, asked, declared, optional
from dphist.cli.output import Outputs, at_most, paid, print_json, say
from dphist.columns import unit_of
from dphist.errors import InvalidParameter
from dphist.planning.choices import BOUNDS, STATISTICS
from dphist.planning.options import PlanOptions, ReleaseOptions, StatisticOptions
from dphist.words import exactly, percent, rounded_up

if TYPE_CHECKING:
    from dphist.planning.statistics import StatisticPlan, TradeOff

_OPTIONS = [
    optional(one) if one.name == "epsilon" else one for one in declared(StatisticOptions)
]  # `stat` refuses a call without it in a better sentence


@command(
    click.Argument(
        ["statistic"],
        help=f"One of {', '.join(STATISTICS)}. median is the lower one (rank ⌈n/2⌉), a quantile the value of rank ⌈p·n⌉,"
        " std the population standard deviation.",
        shell_complete=completed(STATISTICS),
    ),
    *map(optional, declared(ReleaseOptions, "unit", "where")),
    COLUMN,
    Options("source", tuple(map(optional, SOURCE.options)), SOURCE.value),
    asked(*_OPTIONS),
    Option(
        "--table",
        "Print how many records are dropped for which epsilon, delta and n; read no record.",
        "Output",
        common=True,
    ),
    OUTPUTS.only("dry_run", "as_json"),
    *ACCOUNT,
    ENGINE.without("staging"),
)
def stat(
    statistic: str,
    source: Source,
    unit: list[str],
    where: str | None,
    column: str | None,
    asked: dict[str, Any],
    table: bool,
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
) -> None:
    """One private number: state the error and the share of records that may be disregarded, get an answer with a promise.

    \b
    Example:
      dphist stat max ages.parquet --column age --unit person --lower 0 \\
        --upper 120 --error 1 --drop 0.005 --epsilon 0.5
    """
    if "epsilon" not in asked:
        raise InvalidParameter("--epsilon", "none", "0.5 is a common choice for one number.")
    if table or outputs.dry_run:
        from dphist.planning.statistics import plan_statistic

        plan = plan_statistic(statistic, **asked)
        facts: dict[str, Any] = {}
        words: list[str] = []
        if table:
            facts |= {"bars": plan.bars, "trade_offs": [asdict(row) for row in _trade_offs(plan)]}
            words.append(_table(plan))
        if outputs.dry_run:
            promise, guarantee = plan.accuracy(), plan.privacy(unit_of(unit) if unit else None)
            facts |= {"promise": promise, "bounding": plan.bounding(), "guarantee": guarantee}
            words.append(f"Promise: {promise}\n{plan.bounding()}\nGuarantee: {guarantee}")
        if outputs.as_json:
            print_json(facts)
        else:
            say("\n".join(words))
        if outputs.dry_run:
            plan.require_feasible()
        return
    if not source.source or not unit:
        raise InvalidParameter("FILE and --unit COLUMN", "not both", "or --dry-run, which reads nothing.")
    from dphist.ledger.heads import check_heads

    check_heads(ledger, dataset, ())
    talk = outputs.talk
    answer = dphist.stat(
        statistic,
        source.files(),
        unit=unit,
        column=column,
        where=where,
        ledger=ledger,
        dataset=dataset,
        engine=engine.open(),
        progress=talk.phase,
        **asked,
    )
    if outputs.as_json:
        print_json(answer.to_data())
        return
    talk.line(str(answer))
    talk.line(paid(at_most(answer.plan.epsilon, answer.plan.delta), ledger, answer.receipt))


@command(
    *declared(ReleaseOptions, "unit", "by", "where"),
    *declared(PlanOptions, "epsilon"),
    COLUMN,
    SOURCE,
    Option(
        "--of",
        "record: of one record of each unit; sum, mean: of a unit's in a group; rows, distinct: how many records or"
        " values it has there.",
        "What to publish",
        choices=BOUNDS,
        default="record",
    ),
    Option("--lower", "A lower end that is known.", "What to publish", type=NUMBER),
    Option("--upper", "An upper end that is known.", "What to publish", type=NUMBER),
    Option("--outside", "About the share of units that may be outside.", "What to publish", type=NUMBER, default=0.01),
    OUTPUTS.only("as_json"),
    *ACCOUNT,
    ENGINE.without("staging"),
)
def bounds(
    source: Source,
    epsilon: float,
    outputs: Outputs,
    ledger: str | None,
    dataset: str | None,
    engine: EngineChoice,
    **asked: Any,
) -> None:
    """Private bounds of a column, for sums and means to come. Charged like a release.

    --of sum, mean, rows and distinct need --by.

    \b
    Examples:
      dphist bounds ages.parquet --unit person --column age --epsilon 0.1
      dphist bounds events.parquet --unit user_id --of rows --by url \\
        --epsilon 0.1
    """
    from dphist.ledger.heads import check_heads
    from dphist.run.bounds import bounds as find

    check_heads(ledger, dataset, ())
    talk = outputs.talk
    found = find(
        source.files(),
        epsilon=epsilon,
        ledger=ledger,
        dataset=dataset,
        engine=engine.open(),
        progress=talk.phase,
        **asked,
    )
    if outputs.as_json:
        print_json(found.to_data())
        return
    talk.line(str(found))
    talk.line(paid(at_most(epsilon, 0.0), ledger, found.receipt))


def _trade_offs(plan: StatisticPlan) -> list[TradeOff]:
    """Other budgets: how many records each drops, and how many records are needed for the share."""
    from dphist.planning.statistics import trade_offs

    if plan.bars is None:
        raise InvalidParameter(
            "--max-values, a public bound on the values", "none", "the drops add up over all values."
        )
    return trade_offs(plan.bars, _drop(plan), plan.mechanism.max_groups, (plan.epsilon, plan.delta))


def _drop(plan: StatisticPlan) -> float:
    return 0.005 if plan.drop is None else plan.drop


def _table(plan: StatisticPlan) -> str:
    """A table of these budgets with the dropped records and the records that are needed."""
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
