"""`dphist select`."""

from __future__ import annotations

from typing import Any

from dphist.cli import options
from dphist.cli.reading import files_to_read, reads
from dphist.cli.release import Outputs, check_budget
from dphist.planning.options import SelectBudget


@reads
@options.spread(SelectBudget)
def command(
    source: options.Source,
    reading: dict[str, Any],
    unit: options.Unit,
    by: options.By,
    asked: dict[str, Any],
    plan: options.SavedPlan = None,
    where: options.Where = None,
    null_keys: options.NullKeys = "group",
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
) -> None:
    """Publish which groups exist: keys alone, no counts, with all of the budget spent on finding them.

    A plan for it is saved with `dphist plan --keys-only --save`.

    Example: dphist select events.parquet --unit user_id --by url --epsilon 1 --delta 1e-8 -o keys.parquet
    """
    from dphist.run.job import prepare_selection

    outputs = Outputs(output, report, overwrite, raw_csv, explain, dry_run, quiet, as_json, show)
    outputs.check(engine, source, plan)
    check_budget("selection", plan, asked)
    cluster = {"master": master, "remote": remote, "staging": staging}
    opened = options.open_engine(engine, threads, memory_limit, temp_directory, **cluster)
    outputs.check_with(opened)
    job = prepare_selection(
        files_to_read(source, reading),
        unit=unit,
        by=by,
        plan=plan,
        where=where,
        null_keys=null_keys,  # type: ignore[arg-type]
        engine=opened,
        **asked,
    )
    outputs.run(job, ledger, dataset)
