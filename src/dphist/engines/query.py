"""The query: the unit, the keys, the measures and which records take part."""

from __future__ import annotations

import re
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

    A "value" is the subject of a statistic; NaN is null in it. An "ordered value" is also compared. It must not be
    text, since text may spell numbers or dates but has another order. `numbers_in` names a column that must hold
    numbers, or text that may spell numbers. These rules depend on the type of a column, never on a record.
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
"""The one key of all records, where there are no groups. It is never published."""

ONE_GROUP: Final = pa.table({EVERYBODY.name: pa.array([0], pa.int32())})
"""The public list that holds only the group of `EVERYBODY`."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupByQuery:
    """Units per group, with sums. Records without a unit, or without a part of it, are dropped.

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


MOST_THREADS: Final = 1_024
LEAST_MEMORY, MOST_MEMORY = 10**6, 10**15
"""Public limits of an engine's settings."""

PYTHON, LEAST_PROCESS = 185e6, 300e6
"""The bytes that the interpreter takes with its libraries, and the least with which a process can count anything."""

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_UNITS: Final = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


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
    """The part of a process's limit that the interpreter and its libraries leave."""
    return None if limit is None else f"{_bytes_of(limit, LEAST_PROCESS, '300MB') - PYTHON:.0f}B"


def _bytes_of(limit: str, least: float, in_words: str) -> float:
    size = _SIZE.fullmatch(str(limit))
    if size is None or not least <= (number := float(size[1]) * _UNITS[size[2]]) <= MOST_MEMORY:
        raise InvalidParameter(f"a memory limit from {in_words} to 1000TB, such as 4GB", repr(limit))
    return number


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of an engine: settings for this machine; master, remote or staging directory for a cluster."""

    settings: PerformanceSettings = field(default_factory=PerformanceSettings)
    master: str | None = None
    remote: str | None = None
    staging: str | None = None

    def __post_init__(self) -> None:
        for name in ("master", "remote", "staging"):
            if (value := getattr(self, name)) is not None and not value.strip():
                raise InvalidParameter(f"an address for --{name}", "nothing", "leave it out for the default.")
