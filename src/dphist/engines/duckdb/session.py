"""One session of an embedded DuckDB: settings, a private place to spill to, errors that tell nothing about records.

Each session has its own connection, in memory. It has no network, no extensions and no file but those of its source. Data
that does not fit goes to a private directory that is removed with the session.

Locality, the hypothesis of every theorem: what a record contributes depends on that record alone. Statistics of a file (the
smallest and largest value, the number of nulls) are functions of all records, and many writers leave NaN out of them; an
optimiser that believes them lets one unit change how others are read. So every optimiser is off, unless it is listed here and
looks at the text of the query and the schema only. Nothing then reads a statistic: without the propagation of statistics no
expression is folded, no sum loses its check for overflow and no perfect hash table is laid out by a minimum; without filters
in a scan no file, row group or page is skipped. The right side of a join goes into the hash table, whatever its size. There
the rows of one key must fit into memory, so no query has many rows of one unit on the right.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from dphist.engines.query import PerformanceSettings
from dphist.errors import DphistError, EngineFailure, InvalidParameter
from dphist.files.interruption import interruptible
from dphist.files.scratch import private_directory
from dphist.files.systems import no_core_dumps

_T = TypeVar("_T")

KEPT_OPTIMIZERS: Final = frozenset(
    {
        "expression_rewriter",  # constants are computed once; rules look at one expression at a time
        "cte_inlining",  # the stages of one query flow into each other instead of being stored one by one
        "deliminator",  # EXISTS becomes one hash join
        "unused_columns",  # only the columns that a query names are read
        "column_lifetime",  # a column is dropped after its last use
    }
)
"""The optimisers of a session. A new optimiser of a later engine is off until somebody has examined it."""


@contextmanager
def session(settings: PerformanceSettings) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with these settings; what it spilled is gone when the block ends."""
    no_core_dumps()
    parent = Path(tempfile.gettempdir() if settings.temp_directory is None else settings.temp_directory)
    if not parent.is_dir():
        raise InvalidParameter("a directory for temporary files that exists", repr(str(parent)), "create it first.")
    if not os.access(parent, os.W_OK | os.X_OK) or str(parent).encode("utf-8", "replace") != os.fsencode(parent):
        raise InvalidParameter("a directory for temporary files, with a name in UTF-8, to write to", ascii(str(parent)))
    with private_directory(parent) as directory, duckdb.connect(":memory:") as connection:
        spill = directory / "spill"
        spill.mkdir(mode=0o700)
        # All optimisers but the kept ones. For example, common_subexpressions would move errors out of their TRY.
        optimizers = connection.execute("SELECT name FROM duckdb_optimizers() ORDER BY name").fetchall()
        options = {
            "temp_directory": quote_text(str(spill)),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "preserve_insertion_order": "false",
            "arrow_large_buffer_size": "true",
            "disabled_optimizers": quote_text(",".join(name for (name,) in optimizers if name not in KEPT_OPTIMIZERS)),
            "parquet_metadata_cache": "true",
            "TimeZone": "'UTC'",
        }
        if settings.threads is not None:
            options["threads"] = str(settings.threads)
        if settings.memory_limit is not None:
            options["memory_limit"] = quote_text(settings.memory_limit)
        # In a notebook without ipywidgets the engine draws no bar, and refuses the setting.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
            options["enable_progress_bar"] = "false"
        for name, value in options.items():
            connection.execute(f"SET {name} = {value}")
        yield connection


_SIZES: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
"""The units in which the engine writes a number of bytes."""


def memory_limit(connection: duckdb.DuckDBPyConnection) -> float:
    """How many bytes the engine may take now."""
    limit = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, _, unit = str(limit[0][0]).partition(" ")
    return float(number) * _SIZES[unit]


LEAST: Final = 125e6
"""The bytes that the engine needs to join and to count, whatever it spills."""


def leave_room(connection: duckdb.DuckDBPyConnection, needed: float, least: float = LEAST) -> None:
    """Give arrays of this process `needed` bytes of the engine's memory. The engine keeps `least` and spills the rest."""
    now = memory_limit(connection)
    set_memory_limit(connection, min(now, max(now - needed, least)))


def set_memory_limit(connection: duckdb.DuckDBPyConnection, size: float) -> None:
    """Let the engine take so many bytes from now on."""
    execute(connection, f"SET memory_limit = '{int(size)}B'")


def without_leaks(work: Callable[[], _T], *, let_through: tuple[type[Exception], ...] = ()) -> _T:
    """Replace errors that may quote a record by errors of ours, raised where the original is out of sight.

    A frame, a reader or a relation has errors of its own, which are replaced like those of the engine.
    """
    ours: tuple[type[Exception], ...] = (DphistError, *let_through)
    try:
        return work()
    except ours:
        raise
    except duckdb.InterruptException:
        failure: BaseException = KeyboardInterrupt()
    except (duckdb.OutOfMemoryException, MemoryError):
        failure = EngineFailure("enough memory and disk", "raise the memory limit or free space for temporary files.")
    except (duckdb.IOException, OSError):
        failure = EngineFailure("readable files and space for temporary ones", "check the disk and the source.")
    except Exception:
        failure = EngineFailure("a source that can be read to its end", "a file may be damaged.")
    raise failure


def fetch(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The result of a query; an error of the engine, which may quote a record, is replaced by ours."""
    with interruptible(connection.interrupt):
        return without_leaks(lambda: connection.sql(sql).to_arrow_table())


def execute(connection: duckdb.DuckDBPyConnection, *statements: str) -> None:
    """Run statements. Errors of the engine are replaced as in `fetch`."""
    for sql in statements:
        with interruptible(connection.interrupt):
            without_leaks(lambda sql=sql: connection.execute(sql))  # type: ignore[misc]


def quote_text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
