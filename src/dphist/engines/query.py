"""What to count: the unit, the keys, the measures and which records take part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

import pyarrow as pa

from dphist import checks
from dphist.aggregates.measures import Measure, check_names_of_values
from dphist.columns import Unit, parts_of, split_name, split_unit, unit_of
from dphist.engines.histogram import check_key_names
from dphist.errors import InvalidParameter

NullKeys = Literal["group", "drop"]
KeyRole = Literal["group", "value", "ordered value"]


@dataclass(frozen=True, slots=True)
class Key:
    """One part of a group's key: a column, or an SQL expression over the columns of the same record.

    As a "value" it is what a statistic is of: NaN is null. An "ordered value" is compared too, and must not be text, whose
    order is not the one of the numbers or dates that it may spell. `numbers_in` names a column that must be of numbers, or of
    text that may spell some. All these rules go by the type of a column, never by a record.
    """

    name: str
    expression: str | None = None
    role: KeyRole = "group"
    numbers_in: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidParameter("a name for the key", "nothing")
        if self.expression is not None and not self.expression.strip():
            raise InvalidParameter(f"an expression for the key {self.name}", "nothing")


def parse_key(text: str) -> Key:
    """Read `country`, or `month=date_trunc('month', time)`: see `split_name`."""
    return Key(*split_name(text))


def parse_unit(unit: Unit) -> tuple[Key, ...]:
    """The parts of a unit: see `split_unit`."""
    return tuple(Key(*split_unit(part)) for part in parts_of(unit))


EVERYBODY: Final = Key("all units", "0")
"""The key where there are no groups: one for all records. It is never published."""

ONE_GROUP: Final = pa.table({EVERYBODY.name: pa.array([0], pa.int32())})
"""The public list of that one group."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupByQuery:
    """Units per group, with sums. Records without a unit are dropped, and so are those without one of its parts.

    `null_keys` says whether a null in a key is a group like any other or drops the record. `public_keys` lists groups by
    the names of the keys: records of other groups are dropped before anything else, listed groups without records
    appear with zeros. `want_total` asks for the number of units that are counted in at least one group, `want_coverage` for
    pairs that are kept until the released groups are known: see `Groups.coverage`.
    """

    unit: Unit
    by: tuple[Key, ...]
    measures: tuple[Measure, ...] = ()
    where: str | None = None
    null_keys: NullKeys = "group"
    public_keys: pa.Table | None = None
    want_total: bool = False
    want_coverage: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", unit_of(self.unit))
        if not self.by:
            raise InvalidParameter("at least one key", "none", "add --by COLUMN.")
        names = [key.name for key in self.by]
        check_key_names(names)
        if len(set(names)) < len(names):
            raise InvalidParameter("keys with different names", names)
        measured = [measure.name for measure in self.measures]
        if len(set(measured)) < len(measured):
            raise InvalidParameter("measures with different names", measured)
        check_names_of_values(self.measures)
        if self.where is not None and not self.where.strip():
            raise InvalidParameter("a condition", "nothing", "leave it out, or write one, as in amount > 5.")
        checks.check_choice("null_keys", self.null_keys, get_args(NullKeys))
        if self.public_keys is not None and sorted(self.public_keys.column_names) != sorted(names):
            raise InvalidParameter(f"public keys with the columns {names}", self.public_keys.column_names)


Format = Literal["parquet", "csv", "json"]

MOST_THREADS: Final = 1_024
LEAST_MEMORY, MOST_MEMORY = 10**6, 10**15
"""Public limits of what an engine is given."""

PYTHON, LEAST_PROCESS = 185e6, 300e6
"""The bytes that the interpreter takes with its libraries, and the least with which a process can count anything."""

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_UNITS: Final = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_MOST_NULLS: Final = 100
_MOST_DIGITS: Final = 38
_TYPE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_ ]*?) *(\([0-9]{1,9}(?:, ?[0-9]{1,9})?\))?")
_OTHER_NAMES: Final = {
    "BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP", "INT": "INTEGER", "LONG": "BIGINT", "NUMERIC": "DECIMAL", "REAL": "FLOAT",
    "STRING": "VARCHAR", "TEXT": "VARCHAR", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
ENCODINGS: Final = {
    "utf-8": ("utf8", "utf-8-sig"),
    "latin-1": ("latin1", "iso-8859-1", "iso8859-1"),
    "windows-1252": ("cp1252",),
    "utf-16": ("utf16",),
}
"""How the letters of a CSV file may be written, with other names for it. All are names that Python knows."""


@dataclass(frozen=True, slots=True)
class PerformanceSettings:
    """Threads, memory and the directory for data that does not fit; None leaves the choice to the engine.

    Args:
        threads: how many.
        memory_limit: such as "4GB", of the engine and the arrays beside it; what the process had before comes on top.
        temp_directory: where to spill.

    Raises:
        InvalidParameter: a value outside its domain.

    Example:
        >>> dp.PerformanceSettings(threads=2, memory_limit="2GB").threads
        2
    """

    threads: int | None = None
    memory_limit: str | None = None
    temp_directory: str | Path | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            checks.check_whole("threads", self.threads, hint="leave it out to use all.")
            checks.check_between("threads", self.threads, 1, MOST_THREADS)
        if self.memory_limit is not None:
            _bytes_of(self.memory_limit, LEAST_MEMORY, "1MB")


def memory_beside_python(limit: str | None) -> str | None:
    """What a limit on the whole process leaves beside the interpreter and its libraries."""
    return None if limit is None else f"{_bytes_of(limit, LEAST_PROCESS, '300MB') - PYTHON:.0f}B"


def _bytes_of(limit: str, least: float, in_words: str) -> float:
    size = _SIZE.fullmatch(str(limit))
    if size is None or not least <= (number := float(size[1]) * _UNITS[size[2]]) <= MOST_MEMORY:
        raise InvalidParameter(f"a memory limit from {in_words} to 1000TB, such as 4GB", repr(limit))
    return number


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine is opened with: settings for this machine; master, remote or staging directory for a cluster."""

    settings: PerformanceSettings = field(default_factory=PerformanceSettings)
    master: str | None = None
    remote: str | None = None
    staging: str | None = None

    def __post_init__(self) -> None:
        for name in ("master", "remote", "staging"):
            if (value := getattr(self, name)) is not None and not value.strip():
                raise InvalidParameter(f"an address for --{name}", "nothing", "leave it out for the default.")


@dataclass(frozen=True, slots=True)
class Files:
    """Files to read as one table, when their names do not say enough.

    How a record is read depends on it, on the header and on what is said here: nothing is guessed from records. Text formats
    carry no types: every column is read as text, unless `types` declares one. One line of a CSV file is one record.

    Args:
        paths: files, globs of them, or folders.
        format: ``parquet``, ``csv`` or ``json``, where the names do not tell.
        delimiter: of a CSV file.
        quote: of a CSV file; with None nothing in a line is special.
        header: the names of the columns of a CSV file that has no header, whose first line is a record.
        types: columns with their types; a value that does not fit becomes null. The columns of JSON files must be declared:
            nothing else says which there are.
        encoding: of a text file.
        nulls: what a field of a CSV file holds that is null; an empty one always is.

    Raises:
        InvalidParameter: a value outside its domain.

    Example:
        >>> visits = dp.Files(("events.csv",), types={"age": "INTEGER"})
        >>> old = dp.release(visits, unit="user_id", by="country", where="age > 60", epsilon=1, delta=1e-8, max_groups=1)
        >>> old.to_arrow().column("country").to_pylist()[0]
        'DE'
    """

    paths: tuple[str | Path, ...]
    format: Format | None = None
    delimiter: str | None = None
    quote: str | None = '"'
    header: Literal[True] | Sequence[str] = True
    types: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    nulls: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidParameter("at least one path", "none")
        if self.format is not None:
            checks.check_choice("format", self.format, get_args(Format))
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n\0"):
                hint = "write the character itself, in quotes for the shell: --delimiter ';'."
                raise InvalidParameter(f"one ASCII character as {name}", repr(value), hint)
        if self.quote is not None and self.quote == self.delimiter:
            raise InvalidParameter("a quote that is not the delimiter", repr(self.quote))
        if self.header is not True and (not isinstance(self.header, list | tuple) or not all(self.header)):
            # How many columns there are must not be read off the first record: it would decide which others are read.
            raise InvalidParameter("True or a list of the columns' names as header", repr(self.header))
        object.__setattr__(self, "types", {column: _type_named(name, column) for column, name in self.types.items()})
        object.__setattr__(self, "encoding", _encoding_named(self.encoding))
        if self.encoding == "utf-16" and self.header is not True:
            # A mark says in which order bytes are read. Without a header it would be the first record that has one.
            raise InvalidParameter(
                "UTF-16 files with a header", "names for files without one", "convert them to UTF-8."
            )
        if isinstance(self.nulls, str) or not all(isinstance(text, str) for text in self.nulls):
            raise InvalidParameter("a list of texts as nulls", repr(self.nulls), "for example nulls=['NA'].")
        if len(self.nulls) > _MOST_NULLS or any(len(text) > _MOST_NULLS for text in self.nulls):
            # Arrow ends the process over a million letters of them.
            raise InvalidParameter(f"at most {_MOST_NULLS} texts of as many letters as nulls", "more")
        if any("\ud800" <= letter <= "\udfff" for text in self.nulls for letter in text):
            raise InvalidParameter("nulls that can be written in Unicode", "bytes of another encoding")
        object.__setattr__(self, "nulls", tuple(self.nulls))

    def require_kind(self, kind: Format) -> None:
        """Refuse options that files of this kind have no use for: nobody should believe that they changed something.

        Args:
            kind: ``parquet``, ``csv`` or ``json``.

        Raises:
            InvalidParameter: an option of CSV files is given for others.

        Example:
            >>> dp.Files(("events.parquet",), delimiter=";").require_kind("parquet")
            Traceback (most recent call last):
            dphist.errors.InvalidParameter: Expected CSV files with the option delimiter, got parquet files. Hint: leave it out.
        """
        given = {
            "delimiter": self.delimiter is not None,
            "encoding": self.encoding != "utf-8",
            "nulls": bool(self.nulls),
            "header": self.header is not True,
        }
        for name, is_given in given.items():
            if is_given and kind != "csv":
                raise InvalidParameter(f"CSV files with the option {name}", f"{kind} files", "leave it out.")


def _type_named(name: str, column: str) -> str:
    """A type in DuckDB's own name for it."""
    from dphist.engines.functions import CASTS

    parts = _TYPE.fullmatch(str(name).strip())
    base = "" if parts is None else _OTHER_NAMES.get(parts[1].upper(), parts[1].upper())
    if parts is None or base not in CASTS or (parts[2] and base != "DECIMAL"):
        usual = "text, integer, double, boolean, date, timestamp or decimal(18,2)"
        raise InvalidParameter(
            f"a simple type for {column}", repr(name), f"{usual}; also {', '.join(sorted(map(str.lower, CASTS)))}."
        )
    width, scale = ([*map(int, re.findall(r"[0-9]+", parts[2] or "(18)")), 0])[:2]
    if not 1 <= width <= _MOST_DIGITS or scale > width:
        raise InvalidParameter(f"a decimal of at most {_MOST_DIGITS} digits for {column}", repr(name))
    return base + (parts[2] or "")


def _encoding_named(name: str) -> str:
    wanted = str(name).lower().replace("_", "-")
    for encoding, others in ENCODINGS.items():
        if wanted in (encoding, *others):
            return encoding
    raise InvalidParameter(f"one of the encodings {', '.join(ENCODINGS)}", repr(name))
