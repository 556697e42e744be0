"""The engine on a cluster: Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dphist.engines.relations import Derived
from dphist.errors import EngineFailure

if TYPE_CHECKING:
    from dphist.engines.query import EngineOptions
    from dphist.engines.spark.engine import SparkEngine

WRITES_FOLDERS = True


def owns(source: object) -> bool:
    """Whether a source is a DataFrame of Spark, classic or Connect, or derived from one. Asked without loading Spark."""
    return any(map(is_frame, _tables(source)))


def is_frame(source: object) -> bool:
    """Whether a source is a DataFrame of Spark itself."""
    return type(source).__module__.startswith("pyspark.sql")


def _tables(source: object) -> Iterable[Any]:
    return source.tables.values() if isinstance(source, Derived) else (source,)


def input_files(source: Any) -> tuple[str, ...]:
    """The files behind a DataFrame. If it cannot tell them, reading it will say why."""
    if not is_frame(source):
        return ()
    from dphist.engines.spark.session import without_leaks

    try:
        return tuple(without_leaks(source.inputFiles))
    except EngineFailure:
        return ()


def open_engine(source: Any, options: EngineOptions) -> SparkEngine:
    """The session of a DataFrame, or one of our own."""
    from dphist.engines.spark.engine import SparkEngine
    from dphist.engines.spark.session import open_session

    for frame in filter(is_frame, _tables(source)):
        return SparkEngine(frame.sparkSession)
    return SparkEngine(open_session(options.master, options.remote), options.staging)
