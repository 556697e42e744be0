"""The options of the commands: those of plans, releases and statistics as declared, and those of the command line alone."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer

from dphist import checks
from dphist.engines import FOLDERS
from dphist.errors import InvalidParameter
from dphist.planning.choices import PROTECTS
from dphist.planning.options import Panel, PlanOptions, ReleaseOptions, SelectOptions, declarations

if TYPE_CHECKING:
    from dphist.engines.base import Engine


class Place(str):
    """The panel of an option, and whether `--help` shows it: typer passes it on to who writes the help."""

    common: bool

    def __new__(cls, panel: str, *, common: bool) -> Place:
        """A panel is a text for typer."""
        place = super().__new__(cls, panel)
        place.common = common
        return place


def option(
    flags: str,
    words: str,
    panel: Panel | Literal["Help"] = "Advanced",
    *,
    common: bool = False,
    choices: Sequence[str] = (),
    **more: Any,
) -> Any:
    """An option of the command line: its flags, its help, where that stands, and the words it takes if it takes no others."""
    shown: dict[str, Any] = {**_shown(words, panel, common, choices), **more}
    return typer.Option(*flags.split(), **shown)


def argument(name: str, words: str, *, choices: Sequence[str] = ()) -> Any:
    """What a command takes without a flag."""
    return typer.Argument(metavar=name, **_shown(words, "Data", True, choices))


def _shown(words: str, panel: str, common: bool, choices: Sequence[str]) -> dict[str, Any]:
    if not choices:
        return {"help": words, "rich_help_panel": Place(panel, common=common)}
    listed = "" if all(re.search(rf"\b{word}\b", words) for word in choices) else f" One of {', '.join(choices)}."
    return {
        "help": f"{words}{listed}",
        "rich_help_panel": Place(panel, common=common),
        "autocompletion": lambda: list(choices),
    }


def declared(kind: type, name: str) -> Any:
    """An option as it is declared."""
    one = declarations(kind)[name]
    said = one.option
    return option(
        said.flag or f"--{name.replace('_', '-')}",
        said.help,
        said.panel,
        common=said.common,
        choices=one.choices,
        metavar=said.metavar or (None if one.type is bool else "NAME" if one.choices else "NUMBER"),
    )


def spread(kind: type, *, optional: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put the options of a kind in the place of a command's parameter `asked`, which gets those that a call names.

    optional: one that the command itself asks for, so that its error can say more.
    """

    def build(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [
            one.replace(kind=one.KEYWORD_ONLY)
            for name, own_one in own.items()
            for one in (_parameters(kind, optional) if name == "asked" else [own_one])
        ]

        @functools.wraps(command)
        def run(context: typer.Context, **given: Any) -> None:
            values = {name: given.pop(name) for name in declarations(kind)}
            command(asked={name: value for name, value in values.items() if _is_named(context, name)}, **given)

        run.__signature__ = inspect.Signature([_CONTEXT, *parameters])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        return run

    return build


def _parameters(kind: type, optional: str) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.required and name != optional else one.option.default,
            annotation=Annotated[one.option.text or one.type, declared(kind, name)],
        )
        for name, one in declarations(kind).items()
    ]


_CONTEXT: Final = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)


def _is_named(context: typer.Context, name: str) -> bool:
    """Whether the call names an option: zero, nothing and the default are values like any other."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


SOURCE: Final = "Parquet, CSV or JSON files, a glob or a folder of them."
Source: TypeAlias = Annotated[list[str], argument("SOURCE", SOURCE)]
SourceOrNone: TypeAlias = Annotated[list[str] | None, argument("SOURCE", SOURCE)]
Unit: TypeAlias = Annotated[list[str], declared(ReleaseOptions, "unit")]
UnitOrNone: TypeAlias = Annotated[list[str] | None, declared(ReleaseOptions, "unit")]
By: TypeAlias = Annotated[list[str], declared(SelectOptions, "by")]
ByOrNone: TypeAlias = Annotated[list[str] | None, declared(ReleaseOptions, "by")]
Where: TypeAlias = Annotated[str | None, declared(ReleaseOptions, "where")]
NullKeys: TypeAlias = Annotated[str, declared(ReleaseOptions, "null_keys")]
Order: TypeAlias = Annotated[str, declared(ReleaseOptions, "order")]
Intervals: TypeAlias = Annotated[float | None, declared(ReleaseOptions, "intervals")]
Integers: TypeAlias = Annotated[bool, declared(ReleaseOptions, "integers")]
AllowNegative: TypeAlias = Annotated[bool, declared(ReleaseOptions, "allow_negative")]
Epsilon: TypeAlias = Annotated[float, declared(PlanOptions, "epsilon")]
Delta: TypeAlias = Annotated[float, declared(PlanOptions, "delta")]
Sparsity: TypeAlias = Annotated[int | None, declared(PlanOptions, "sparsity")]
Analysis: TypeAlias = Annotated[str | None, declared(PlanOptions, "analysis")]
Correlation: TypeAlias = Annotated[float | None, declared(PlanOptions, "correlation")]
LowThreshold: TypeAlias = Annotated[int, declared(PlanOptions, "low_threshold")]
Column: TypeAlias = Annotated[
    str | None, option("--column", "The column to look at.", "Data", common=True, metavar="COLUMN")
]
SavedPlan: TypeAlias = Annotated[
    Path | None, option("--plan", "A plan that `dphist plan --save` wrote.", "Privacy", common=True, metavar="FILE")
]
EngineName: TypeAlias = Annotated[
    str,
    option(
        "--engine",
        "duckdb: on this machine; spark: on a cluster.",
        "Engine",
        common=True,
        choices=sorted(FOLDERS),
        metavar="NAME",
    ),
]
Master: TypeAlias = Annotated[
    str | None,
    option(
        "--master", "Spark's master, for example local[4] or yarn (default: local[*]).", "Engine", metavar="ADDRESS"
    ),
]
Remote: TypeAlias = Annotated[
    str | None, option("--remote", "A Spark Connect server, for example sc://host:15002.", "Engine", metavar="ADDRESS")
]
StagingDirectory: TypeAlias = Annotated[
    str | None,
    option(
        "--staging",
        "A directory, with its scheme, that the cluster shares, for exact counts. Make it yours alone: dphist does not.",
        "Engine",
        metavar="DIRECTORY",
    ),
]
Threads: TypeAlias = Annotated[int | None, option("--threads", "Threads of the engine.", "Engine", metavar="NUMBER")]
MemoryLimit: TypeAlias = Annotated[
    str | None,
    option("--memory-limit", "Memory of the process, e.g. 4GB; the rest is spilled.", "Engine", metavar="SIZE"),
]
TempDirectory: TypeAlias = Annotated[
    Path | None, option("--temp-directory", "Where to spill what does not fit.", "Engine", metavar="DIRECTORY")
]
Ledger: TypeAlias = Annotated[
    str | None,
    option(
        "--ledger",
        "The ledger that keeps the budget: a file, or postgresql://user@host/name.",
        "Privacy",
        common=True,
        envvar="DPHIST_LEDGER",
        metavar="ADDRESS",
    ),
]
Dataset: TypeAlias = Annotated[
    str | None,
    option("--dataset", "The data set in the ledger.", "Privacy", common=True, envvar="DPHIST_DATASET", metavar="NAME"),
]
Protects: TypeAlias = Annotated[
    str,
    option(
        "--protects",
        "What may be added or removed. unit: all records of one unit; event: its records in one round.",
        "Privacy",
        common=True,
        choices=PROTECTS,
        metavar="NAME",
    ),
]
Head: TypeAlias = Annotated[
    str | None,
    option("--head", "A hash noted earlier, which must still be in the ledger's chain.", "Privacy", metavar="HASH"),
]
Output: TypeAlias = Annotated[
    Path | None,
    option(
        "-o --output",
        "Write the table (.parquet, .csv, .json; with spark a folder).",
        "Output",
        common=True,
        metavar="FILE",
    ),
]
Report: TypeAlias = Annotated[
    Path | None,
    option("--report", "Write a report (.html), or its summary (.md, .txt).", "Output", common=True, metavar="FILE"),
]
Plot: TypeAlias = Annotated[
    Path | None, option("--plot", "Write a picture (.png, .svg, .pdf).", "Output", common=True, metavar="FILE")
]
Overwrite: TypeAlias = Annotated[
    bool,
    option(
        "--overwrite",
        "Replace outputs that exist; never the source, a ledger or what is no file.",
        "Output",
        common=True,
    ),
]
RawCsv: TypeAlias = Annotated[
    bool,
    option("--raw-csv", "CSV: write texts as they are, also those that a spreadsheet would run as formulas.", "Output"),
]
Explain: TypeAlias = Annotated[
    bool, option("--explain", "Print the SQL, the plan and why each step is private.", "Output")
]
DryRun: TypeAlias = Annotated[
    bool,
    option("--dry-run", "Check what can be checked, say what would be done, count nothing.", "Output", common=True),
]
Quiet: TypeAlias = Annotated[bool, option("--quiet", "Print nothing but errors.", "Output", common=True)]
AsJson: TypeAlias = Annotated[bool, option("--json", "Print one JSON object.", "Output", common=True)]


def _check_rows(value: int | None) -> int | None:
    if value is not None:
        checks.check_whole("--show", value, least=0, hint="0 prints no row.")
    return value


_SHOW: Final = option(
    "--show", "How many rows of the result to print.", "Output", common=True, metavar="NUMBER", callback=_check_rows
)
Show: TypeAlias = Annotated[int, _SHOW]
ShowOrNone: TypeAlias = Annotated[int | None, _SHOW]


def parse(asked: dict[str, Any]) -> dict[str, Any]:
    """What `spread` gives a command, with texts as Python takes them."""
    readers: dict[str, Callable[[Any], Any]] = {
        "sums": lambda texts: _each_once("--sum", [_bounds(text, "--sum") for text in texts]),
        "means": lambda texts: _each_once("--mean", [_bounds(text, "--mean") for text in texts]),
        "variances": lambda texts: _each_once("--variance", [_bounds(text, "--variance") for text in texts]),
        "stds": lambda texts: _each_once("--std", [_bounds(text, "--std") for text in texts]),
        "quantiles": _quantiles,
        "medians": lambda texts: _each_once("--median", [_bounds(text, "--median") for text in texts]),
        "weights": lambda texts: _each_once("--weight", list(map(_weight, texts))),
        "rows": _rows,
        "distinct": lambda texts: _each_once("--distinct", list(map(_distinct, texts))),
        "keys": _keys,
    }
    return {name: readers[name](value) if name in readers else value for name, value in asked.items()}


def _each_once(flag: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """What was asked for, by column: of two for one column, one would be ignored."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            hint = f'leave one of them out, or name it: {flag} "other={name}:…".'
            raise InvalidParameter(f"{flag} once for {name!r}", "it more than once", hint)
        found[name] = value
    return found


def _bounds(text: str, flag: str) -> tuple[str, tuple[Any, Any] | str]:
    """`column:lower:upper`, either of which may be auto, or `column:auto`; `name=expression` in place of the column."""
    column, *parts = split_right(text, 2)
    try:
        lower, upper = map(_bound, parts)
        return column, (lower, upper)
    except ValueError:
        column, *parts = split_right(text, 1)
        if column and parts == ["auto"]:
            return column, "auto"
        hint = f"for example {flag} likes:0:1, {flag} likes:0:auto or {flag} likes:auto."
        raise InvalidParameter(f"{flag} column:lower:upper", repr(text), hint) from None


def _quantiles(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """`column:probabilities:lower:upper`, or with auto; several of one column are one, if their bounds are the same."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        column, probabilities, *bounds = _quantile(text)
        before, *others = found.get(column, ([], *bounds))
        if others != bounds:
            raise InvalidParameter(f"one pair of bounds for the quantiles of {column}", "two")
        found[column] = ([*before, *probabilities], *bounds)
    return found


def _quantile(text: str) -> tuple[Any, ...]:
    """The column may itself hold colons."""
    for pieces in (text.rsplit(":", 3), text.rsplit(":", 2)):
        with suppress(ValueError):
            column, probabilities, *bounds = pieces
            lower, upper = ("auto", "auto") if bounds == ["auto"] else map(_bound, bounds)
            return column, [float(one) for one in probabilities.split(",")], lower, upper
    hint = "for example --quantile amount:0.5:0:100, amount:0.25,0.75:0:100 or amount:0.5:auto."
    raise InvalidParameter("--quantile column:probability:lower:upper", repr(text), hint)


def _bound(text: str) -> float | str:
    return text if text == "auto" else float(text)


def _rows(text: str) -> int | str:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        hint = "the most records of one unit in a group that count: --rows 10, or --rows auto."
        raise InvalidParameter("--rows to be a whole number or auto", repr(text), hint) from None


def _distinct(text: str) -> tuple[str, int | str]:
    column, _, most = text.rpartition(":")
    try:
        if column:
            return column, most if most == "auto" else int(most)
    except ValueError:
        pass
    raise InvalidParameter("--distinct column:most", repr(text), "for example --distinct url:5 or --distinct url:auto.")


def split_right(text: str, parts: int) -> list[str]:
    """A column or `name=expression`, and what stands behind its last colons: the front may hold colons and casts (::) itself.

    >>> split_right("cents=CAST(price AS DOUBLE)::DOUBLE * 100:0:1e4", 2)
    ['cents=CAST(price AS DOUBLE)::DOUBLE * 100', '0', '1e4']
    """
    return text.rsplit(":", parts)


def _keys(texts: list[str]) -> object:
    """One list as it is; several are columns of a product."""
    from dphist.run.public_keys import columns_of

    return texts[0] if len(texts) == 1 else columns_of(texts)


def _weight(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        return name, float(share)
    except ValueError:
        raise InvalidParameter("--weight name=share", repr(text), "for example --weight sum_likes=0.5.") from None


def open_engine(
    name: str,
    threads: int | None = None,
    memory_limit: str | None = None,
    temp_directory: Path | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    staging: str | None = None,
) -> Engine:
    """The engine that a command counts with."""
    from dphist.engines import engine_named
    from dphist.engines.query import EngineOptions, PerformanceSettings, memory_beside_python

    settings = PerformanceSettings(threads, memory_beside_python(memory_limit), temp_directory)
    return engine_named(name, EngineOptions(settings, master, remote, staging))
