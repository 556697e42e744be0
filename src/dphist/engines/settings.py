"""Settings that change how fast and from where records are read, never what one unit can contribute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from dphist import checks
from dphist.errors import InvalidParameter

Format = Literal["parquet", "csv", "json"]

_SIZE: Final = re.compile(r"\d+(\.\d+)? ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*(\(\d+(, ?\d+)?\))?")


@dataclass(frozen=True, slots=True)
class PerformanceSettings:
    """Threads, memory ("4GB") and the directory for data that does not fit; None leaves the choice to the engine."""

    threads: int | None = None
    memory_limit: str | None = None
    temp_directory: Path | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            checks.check_whole("threads", self.threads)
        if self.memory_limit is not None and not _SIZE.fullmatch(self.memory_limit):
            raise InvalidParameter("a memory limit such as 4GB", repr(self.memory_limit))


@dataclass(frozen=True, slots=True)
class Files:
    """Files to read as one table, when their names do not say enough.

    `paths` may hold globs. Text formats carry no types: every column is read as text, unless `types` declares one (a
    value that does not fit becomes null). One line of a CSV file is one record; with `quote=None` nothing in it is special.
    `header` holds the names of the columns of a CSV file that has no header, whose first line is a record.
    """

    paths: tuple[str | Path, ...]
    format: Format | None = None
    delimiter: str | None = None
    quote: str | None = '"'
    header: Literal[True] | Sequence[str] = True
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidParameter("at least one path", "none")
        if self.format is not None:
            checks.check_choice("format", self.format, get_args(Format))
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n\0"):
                raise InvalidParameter(f"one ASCII character as {name}", repr(value))
        if self.quote is not None and self.quote == self.delimiter:
            raise InvalidParameter("a quote that is not the delimiter", repr(self.quote))
        if self.header is not True and (not isinstance(self.header, list | tuple) or not all(self.header)):
            # How many columns there are must not be read off the first record: it would decide which others are read.
            raise InvalidParameter("True or a list of the columns' names as header", repr(self.header))
        for column, type_name in self.types.items():
            if not _TYPE.fullmatch(type_name):
                raise InvalidParameter(
                    f"the name of a type for {column}", repr(type_name), "for example DOUBLE or DATE."
                )
