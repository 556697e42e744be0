"""The options of the commands, each declared once: options of the library, and groups that only commands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import click

from dphist.cli.command import FILE, NUMBER, WHOLE, Option, Options
from dphist.cli.output import Outputs
from dphist.engines import FOLDERS
from dphist.errors import InvalidParameter
from dphist.planning.choices import ENCODINGS, PROTECTS
from dphist.planning.options import Declaration, declarations

if TYPE_CHECKING:
    from dphist.engines.base import Engine
    from dphist.engines.source import Files


def declared(kind: type, *names: str) -> tuple[Option, ...]:
    """The options that a class of `planning.options` declares; with `names` these alone."""
    found = declarations(kind)
    return tuple(_option(name, found[name]) for name in names or found)


def _option(name: str, one: Declaration) -> Option:
    said = one.option
    kind = said.text or one.type
    kinds = {kind, *get_args(kind)} - {NoneType}
    shape: dict[str, Any] = (
        {} if kind is bool else {"type": NUMBER if float in kinds else WHOLE if int in kinds else str}
    )
    if said.metavar:
        shape["metavar"] = said.metavar
    if any(get_origin(part) is list for part in kinds):
        shape["multiple"] = True
    if one.required:
        shape["required"] = True
    elif not shape.get("multiple"):
        shape["default"] = said.default
    return Option(
        f"{name} {said.flag or '--' + name.replace('_', '-')}",
        said.help,
        said.panel,
        common=said.common,
        choices=one.choices,
        **shape,
    )


def optional(one: Option | click.Argument) -> Any:
    """A copy of an option that a command does not require."""
    other = copy(one)
    other.required = False
    return other


def asked(*options: Option) -> Options:
    """A group of options of the library, which has a default for each option that a call does not name."""
    return Options("asked", options, named=True)


SAVED_PLAN: Final = Option("--plan", "A plan that `dphist plan --save` wrote.", "Privacy", type=FILE, common=True)
COLUMN: Final = Option("--column", "The column to look at.", "Data", metavar="COLUMN", common=True)
PLOT: Final = Option("--plot", "Write a picture (.png, .svg, .pdf).", "Output", type=FILE, common=True)
K: Final = Option("--k", "The most groups to return.", "What to publish", type=WHOLE, required=True)

LEDGER: Final = Option(
    "--ledger",
    "The ledger that keeps the budget: a file, or postgresql://user@host/name.",
    "Privacy",
    envvar="DPHIST_LEDGER",
    metavar="ADDRESS",
    common=True,
)
DATASET: Final = Option(
    "--dataset", "The data set in the ledger.", "Privacy", envvar="DPHIST_DATASET", metavar="NAME", common=True
)
ACCOUNT: Final = (LEDGER, DATASET)
HEAD: Final = Option(
    "--head", "A hash noted earlier, which must still be in the ledger's chain.", "Privacy", metavar="HASH"
)


def protects(**settings: Any) -> Option:
    """The option `--protects` of a budget or a spend."""
    return Option(
        "--protects",
        "What may be added or removed. unit: all records of one unit; event: its records in one round.",
        "Privacy",
        choices=PROTECTS,
        common=True,
        **settings,
    )


READING: Final = (
    Option(
        "--delimiter",
        "CSV: what separates the columns, such as ';' or tab (default: a comma, a tab in .tsv files).",
        "Data",
        metavar="SIGN",
        common=True,
    ),
    Option("--encoding", "CSV: how letters are written.", "Data", choices=ENCODINGS, default="utf-8"),
    Option(
        "types --type",
        "CSV and JSON: the type of a column, as amount=double; else it is text. A value that does not fit is null. JSON"
        " needs one for each column. Repeatable.",
        "Data",
        metavar="COLUMN=TYPE",
        multiple=True,
        common=True,
    ),
    Option(
        "nulls --null",
        "CSV: a text that means no value, as an empty field does. Repeatable.",
        "Data",
        metavar="TEXT",
        multiple=True,
    ),
    Option("--no-header", "CSV files without a header: the names of all columns, as a,b,c.", "Data", metavar="NAMES"),
)
"""The options of text files, the same in every command that reads records."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a call, and how they are read."""

    source: list[str]
    delimiter: str | None
    encoding: str
    types: list[str]
    nulls: list[str]
    no_header: str | None

    def files(self) -> Files:
        """The files as an engine reads them."""
        from dphist.engines.source import Files

        types = dict(map(_type, self.types))
        if len(types) < len(self.types):
            raise InvalidParameter("one --type for each column", "two for one of them")
        return Files(
            tuple(self.source),
            delimiter=self.delimiter,
            encoding=self.encoding,
            types=types,
            nulls=self.nulls,
            header=True if self.no_header is None else self.no_header.split(","),
        )


SOURCE: Final = Options(
    "source",
    (
        click.Argument(
            ["source"],
            help="Parquet, CSV or JSON files, a glob or a folder of them.",
            nargs=-1,
            required=True,
            type=click.Path(readable=False),
        ),
        *READING,
    ),
    Source,
)


def _type(text: str) -> tuple[str, str]:
    column, _, kind = text.rpartition("=")
    if not column or not kind:
        raise InvalidParameter("--type column=type", repr(text), "for example --type amount=double.")
    return column, kind


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine that a command counts with, before it is opened."""

    engine: str
    master: str | None = None
    remote: str | None = None
    staging: str | None = None
    threads: int | None = None
    memory_limit: str | None = None
    temp_directory: Path | None = None

    def open(self) -> Engine:
        """Open the engine."""
        from dphist.engines import engine_named
        from dphist.engines.query import EngineOptions, PerformanceSettings, memory_beside_python

        settings = PerformanceSettings(self.threads, memory_beside_python(self.memory_limit), self.temp_directory)
        return engine_named(self.engine, EngineOptions(settings, self.master, self.remote, self.staging))


ENGINE: Final = Options(
    "engine",
    (
        Option("--threads", "Threads of the engine.", "Engine", type=WHOLE),
        Option("--memory-limit", "Memory of the process, e.g. 4GB; the rest is spilled.", "Engine", metavar="SIZE"),
        Option("--temp-directory", "Where to spill what does not fit.", "Engine", metavar="DIRECTORY", type=FILE),
        Option(
            "--engine",
            "duckdb: on this machine; spark: on a cluster.",
            "Engine",
            choices=sorted(FOLDERS),
            default="duckdb",
            common=True,
        ),
        Option(
            "--master", "Spark's master, for example local[4] or yarn (default: local[*]).", "Engine", metavar="ADDRESS"
        ),
        Option("--remote", "A Spark Connect server, for example sc://host:15002.", "Engine", metavar="ADDRESS"),
        Option(
            "--staging",
            "A directory, with its scheme, that the cluster shares, for exact counts. Make it yours alone: dphist does not.",
            "Engine",
            metavar="DIRECTORY",
        ),
    ),
    EngineChoice,
)


OUTPUTS: Final = Options(
    "outputs",
    (
        Option(
            "output -o --output",
            "Write the table: .parquet, .csv, .json; on Spark a folder.",
            "Output",
            type=FILE,
            common=True,
        ),
        Option("--report", "Write a report (.html), or its summary (.md, .txt).", "Output", type=FILE, common=True),
        Option("--overwrite", "Replace outputs that exist; never the source or a ledger.", "Output", common=True),
        Option(
            "--raw-csv", "CSV: write texts as they are, also those that a spreadsheet would run as formulas.", "Output"
        ),
        Option("--explain", "Print the SQL, the plan and why each step is private.", "Output"),
        Option("--dry-run", "Check what can be checked; count nothing.", "Output", common=True),
        Option("--quiet", "Print nothing but errors.", "Output", common=True),
        Option("as_json --json", "Print one JSON object.", "Output", common=True),
        Option("--show", "How many rows of the result to print.", "Output", type=WHOLE, common=True),
    ),
    Outputs,
)


def parse(asked: dict[str, Any]) -> dict[str, Any]:
    """The options that a call names, with values of Python in the place of texts."""
    readers: dict[str, Callable[[Any], Any]] = {
        "quantiles": _quantiles,
        "weights": lambda texts: _each_once("--weight", map(_weight, texts)),
        "rows": _rows,
        "distinct": lambda texts: _each_once("--distinct", map(_distinct, texts)),
        "keys": _keys,
    }
    for name in ("sums", "means", "variances", "stds", "medians"):
        readers[name] = partial(_columns_with_bounds, f"--{name.removesuffix('s')}")
    return {name: readers[name](value) if name in readers else value for name, value in asked.items()}


def _each_once(flag: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values by column. A second value of a column would replace the first, so it is refused."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            hint = f'leave one of them out, or name it: {flag} "other={name}:…".'
            raise InvalidParameter(f"{flag} once for {name!r}", "it more than once", hint)
        found[name] = value
    return found


def _columns_with_bounds(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    return _each_once(flag, (_bounds(text, flag) for text in texts))


def _bounds(text: str, flag: str) -> tuple[str, tuple[Any, Any] | str]:
    """Read `column:lower:upper`, where either bound may be auto, or `column:auto`.

    The column may be `name=expression`, with colons of its own: `cents=CAST(price AS DOUBLE)::DOUBLE * 100:0:1e4`.
    """
    column, *parts = text.rsplit(":", 2)
    try:
        lower, upper = map(_bound, parts)
        return column, (lower, upper)
    except ValueError:
        column, *parts = text.rsplit(":", 1)
        if column and parts == ["auto"]:
            return column, "auto"
        hint = f"for example {flag} likes:0:1, {flag} likes:0:auto or {flag} likes:auto."
        raise InvalidParameter(f"{flag} column:lower:upper", repr(text), hint) from None


def _quantiles(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Read `column:probabilities:lower:upper` or `column:probabilities:auto`. Texts about one column must have equal bounds."""
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        column, probabilities, *bounds = _quantile(text)
        before, *others = found.get(column, ([], *bounds))
        if others != bounds:
            raise InvalidParameter(f"one pair of bounds for the quantiles of {column}", "two")
        found[column] = ([*before, *probabilities], *bounds)
    return found


def _quantile(text: str) -> tuple[Any, ...]:
    """Read one text, from the right: the column may hold colons."""
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


def _keys(texts: list[str]) -> object:
    """One text names a list of keys. Of several, each lists the values of a column, and the keys are their product."""
    from dphist.run.public_keys import columns_of

    return texts[0] if len(texts) == 1 else columns_of(texts)


def _weight(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        return name, float(share)
    except ValueError:
        raise InvalidParameter("--weight name=share", repr(text), "for example --weight sum_likes=0.5.") from None
