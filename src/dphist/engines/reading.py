"""How much of a source is read: for a bar on a terminal, never for a result, a log or an error.

It is asked for, by whoever shows it, from a thread of its own: an engine calls nobody while it reads. The answer is a share
of bytes, which says no more than the size of the files and the time that passes.

The bytes are the kernel's count in `/proc`. DuckDB's own progress is not shown: it mixes the scan with how full hash tables
are, which follows from keys, and stood at 20 % when all of a file was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

Share: TypeAlias = Callable[[], float | None]


class Reading(str):
    """The name of a phase in which the source is read. `share` tells how much of it: from 0 to 1, None if unknown."""

    share: Share

    def __new__(cls, phase: str, share: Share) -> Reading:
        """A text like any other for those who only show names."""
        named = super().__new__(cls, phase)
        named.share = share
        return named


class InputBytes:
    """Files that this process reads: of Parquet the columns that are needed, of others everything.

    What was read is what the kernel counts for the process, on Linux; elsewhere it is not known. What is spilled meanwhile is
    read back after the files, when the share is 1 already. A file that is read twice comes twice.
    """

    def __init__(self, files: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._files = files
        self._before = bytes_read()

    def share(self) -> float | None:
        """The bytes that were read since this object was made, of those there are."""
        now = bytes_read()
        if now is None or self._before is None or not self._size:
            return None
        return min((now - self._before) / self._size, 1.0)

    @cached_property
    def _size(self) -> int:
        return sum(_size_of(path, {name.casefold() for name in columns}) for path, columns in self._files)


def _size_of(path: str, columns: set[str]) -> int:
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    if not is_parquet:
        return Path(path).stat().st_size
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    names = [metadata.schema.column(i).path.partition(".")[0].casefold() for i in range(metadata.num_columns)]
    needed = [i for i, name in enumerate(names) if name in columns]
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(group.column(i).total_compressed_size for group in groups for i in needed)


def bytes_read() -> int | None:
    """How many bytes this process has read from files so far; None where the system does not tell."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])
    except (OSError, KeyError, ValueError):
        return None
