"""Options that commands share, and the words they are written in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    from dphist.engines.query import Files
    from dphist.engines.spark.engine import SparkEngine

Epsilon: TypeAlias = Annotated[
    float, typer.Option("--epsilon", help="Privacy budget: how much one unit may change the odds.")
]
Delta: TypeAlias = Annotated[
    float, typer.Option("--delta", help="Privacy budget: the probability of failure, for example 1e-8.")
]
NoHeader: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--no-header", metavar="NAMES", help="CSV files without a header: the names of all columns, as a,b,c."
    ),
]
MaxGroups: TypeAlias = Annotated[
    int | None, typer.Option("--max-groups", help="The most groups one unit may be counted in.")
]
MaxGroupsOrAuto: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-groups",
        metavar="INTEGER|auto",
        help="The most groups one unit may be counted in; auto: chosen from the data.",
    ),
]
Sparsity: TypeAlias = Annotated[
    int | None, typer.Option("--sparsity", help="A public bound on the number of non-empty groups.")
]
Mechanism: TypeAlias = Annotated[
    str, typer.Option("--mechanism", help="best, adaptive, sparse-gaussian, correlated-gaussian or laplace.")
]
Analysis: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--analysis",
        help="sparse-gaussian: exact, f-dp, add-the-deltas; correlated-gaussian: tight, paper-3.5, paper-3.3.",
    ),
]
Correlation: TypeAlias = Annotated[
    float | None, typer.Option("--correlation", help="Variance of the common noise relative to the independent noise.")
]
LowThreshold: TypeAlias = Annotated[
    int, typer.Option("--low-threshold", help="Groups with fewer units are dropped before noise is drawn.")
]
Keys: TypeAlias = Annotated[
    Path | None, typer.Option("--keys", help="A file with a public list of groups, one per line: no threshold needed.")
]
Sparse: TypeAlias = Annotated[
    bool, typer.Option("--sparse", help="With --keys: publish only groups above a threshold.")
]
Sketch: TypeAlias = Annotated[
    int | None, typer.Option("--sketch", help="Count in bounded memory with this many counters (Misra-Gries). No sums.")
]
Sums: TypeAlias = Annotated[
    list[str] | None, typer.Option("--sum", help="column:lower:upper, a sum per group. Repeatable.")
]
Means: TypeAlias = Annotated[
    list[str] | None, typer.Option("--mean", help="column:lower:upper, a mean per group. Repeatable.")
]
Rows: TypeAlias = Annotated[
    int | None, typer.Option("--rows", help="Records per group, each unit's clamped to this many.")
]
Weights: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--weight", help="name=share of the budget, relative to the count's 1, for example sum_likes=0.5."),
]
Total: TypeAlias = Annotated[
    bool, typer.Option("--total", help="Also publish a noisy total of units (5 % of epsilon).")
]
Objective: TypeAlias = Annotated[
    str, typer.Option("--objective", help="What to minimise: release95 (count released with 95 %), gap or noise.")
]
NoiseStd: TypeAlias = Annotated[
    float | None, typer.Option("--noise-std", help="Fix the noise on a count and find the smallest threshold.")
]
Noise: TypeAlias = Annotated[
    str, typer.Option("--noise", help="rounded: Gaussian on a fine lattice, least noise; discrete: whole counts.")
]
Engine: TypeAlias = Annotated[
    str, typer.Option("--engine", help="duckdb: on this machine; spark: on a cluster, the output is a folder.")
]
Master: TypeAlias = Annotated[
    str | None, typer.Option("--master", help="Spark's master, for example local[4] or yarn (default: local[*]).")
]
Remote: TypeAlias = Annotated[
    str | None, typer.Option("--remote", help="A Spark Connect server, for example sc://host:15002.")
]
StagingDirectory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--staging",
        help="A directory, with its scheme, that the cluster shares, for exact counts. Make it yours alone: dphist does not.",
    ),
]
Ledger: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ledger", envvar="DPHIST_LEDGER", help="Charge it to this ledger: a file, or postgresql://user@host/name."
    ),
]
PaidBy: TypeAlias = Annotated[
    str | None,
    typer.Option("--ledger", envvar="DPHIST_LEDGER", help="Compare it with the entry of this ledger that paid for it."),
]
Dataset: TypeAlias = Annotated[
    str | None, typer.Option("--dataset", envvar="DPHIST_DATASET", help="The data set of the ledger that pays.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Report: TypeAlias = Annotated[Path | None, typer.Option("--report", help="Write an HTML report.")]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace outputs that exist; never the source, a ledger or what is no file.")
]
Plot: TypeAlias = Annotated[Path | None, typer.Option("--plot", help="Write a picture (.png, .svg, .pdf).")]


def files(source: list[str], no_header: str | None) -> Files:
    """What a command reads."""
    from dphist.engines.query import Files

    return Files(tuple(source)) if no_header is None else Files(tuple(source), header=no_header.split(","))


def parse_max_groups(text: str | None) -> int | Literal["auto"] | None:
    """A number, or `auto`."""
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter("--max-groups to be a whole number or auto", repr(text)) from None


def spark_engine(engine: str, master: str | None, remote: str | None, staging: str | None) -> SparkEngine | None:
    """A Spark session for `--engine spark`; None for this machine."""
    if engine == "duckdb":
        if given := [name for name, value in (("master", master), ("remote", remote), ("staging", staging)) if value]:
            raise InvalidParameter(f"--engine spark with --{given[0]}", "--engine duckdb")
        return None
    if engine != "spark":
        raise InvalidParameter("--engine duckdb or spark", repr(engine))
    from dphist.engines.spark.engine import open_session

    return open_session(master, remote, staging)


def parse_bounds(text: str, option: str) -> tuple[str, tuple[float, float]]:
    """`column:lower:upper`; the column may itself hold colons."""
    parts = text.rsplit(":", 2)
    try:
        column, lower, upper = parts[0], float(parts[1]), float(parts[2])
    except (IndexError, ValueError):
        raise InvalidParameter(f"{option} column:lower:upper", repr(text), f"for example {option} likes:0:1.") from None
    return column, (lower, upper)


def parse_weight(text: str) -> tuple[str, float]:
    """`name=share`."""
    name, _, share = text.rpartition("=")
    try:
        return name, float(share)
    except ValueError:
        raise InvalidParameter("--weight name=share", repr(text), "for example --weight sum_likes=0.5.") from None


def count_keys(path: Path) -> int:
    """The number of different non-empty lines of a file with one public key per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidParameter("--keys FILE with one key per line", str(path), type(problem).__name__) from None
    return len({line for line in lines if line.strip()})


def recorded(receipt: dict[str, Any] | None) -> str:
    """Which entry of a ledger paid, or that none did."""
    from dphist.publish.charge import NOT_RECORDED, Receipt

    return NOT_RECORDED if receipt is None else str(Receipt(**receipt))
