"""What a run sets in a Spark session, so that no setting of its owner changes what is counted; put back afterwards."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    # A record on which an expression fails becomes null instead of ending the run.
    "spark.sql.ansi.enabled": "false",
    # Times are written to the microsecond: with less, keys that differ would become one after they were made distinct.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Dates before 1582 are written and read as they are.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # Days begin where DuckDB's begin, and TIMESTAMP means one thing.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # GROUP BY 1 is the first column, and ${...} in a literal is four characters like any other.
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.variable.substitute": "false",
    # A part of a table that cannot be read ends the run.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}

_LOCKS: Final[defaultdict[str, threading.RLock]] = defaultdict(threading.RLock)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return "connect" in type(spark).__module__


@contextmanager
def pinned(spark: SparkSession) -> Iterator[None]:
    """Our settings while the block runs; one block at a time, since a second one would put back the settings of the first.

    The classic sessions of a process share their settings or may do so: they share a lock.
    """
    with _LOCKS[str(getattr(spark, "session_id", "")) if is_connect(spark) else ""]:
        before = {name: spark.conf.get(name, None) for name in SETTINGS}
        try:
            for name, value in SETTINGS.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
