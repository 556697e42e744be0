"""`dphist bounds`."""

from __future__ import annotations

from typing import Annotated, Any

from dphist.cli import options
from dphist.cli.options import option
from dphist.cli.output import Talk, at_most, paid, print_json
from dphist.cli.reading import files_to_read, reads
from dphist.planning.choices import BOUNDS


@reads
def command(
    source: options.Source,
    reading: dict[str, Any],
    unit: options.Unit,
    epsilon: options.Epsilon,
    column: options.Column = None,
    of: Annotated[
        str,
        option(
            "--of",
            "record: of one record of each unit; sum, mean: of a unit's in a group; rows, distinct: how many records or"
            " values it has there.",
            "What to publish",
            choices=BOUNDS,
            metavar="NAME",
        ),
    ] = "record",
    by: options.ByOrNone = None,
    lower: Annotated[
        float | None, option("--lower", "A lower end that is known.", "What to publish", metavar="NUMBER")
    ] = None,
    upper: Annotated[
        float | None, option("--upper", "An upper end that is known.", "What to publish", metavar="NUMBER")
    ] = None,
    outside: Annotated[
        float,
        option("--outside", "About the share of units that may be outside.", "What to publish", metavar="NUMBER"),
    ] = 0.01,
    where: options.Where = None,
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
    """Private bounds of a column, for sums and means to come. Charged like a release.

    --of sum, mean, rows and distinct need --by.

    Example: dphist bounds ages.parquet --unit person --column age --epsilon 0.1
    Example: dphist bounds events.parquet --unit user_id --of rows --by url --epsilon 0.1
    """
    from dphist.ledger.heads import check_heads
    from dphist.run.bounds import bounds

    check_heads(ledger, dataset, ())
    talk = Talk(quiet=as_json)
    kind: Any = of
    found = bounds(
        files_to_read(source, reading),
        unit=unit,
        column=column,
        epsilon=epsilon,
        of=kind,
        by=by or (),
        lower=lower,
        upper=upper,
        outside=outside,
        where=where,
        ledger=ledger,
        dataset=dataset,
        engine=options.open_engine(engine, threads, memory_limit, temp_directory, master=master, remote=remote),
        progress=talk.phase,
    )
    if as_json:
        print_json(found.to_data())
        return
    talk.line(str(found))
    talk.line(paid(at_most(epsilon, 0.0), ledger, found.receipt))
