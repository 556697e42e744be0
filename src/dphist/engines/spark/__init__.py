"""The engine on a cluster: Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dphist.errors import EngineFailure

if TYPE_CHECKING:
    from dphist.engines.query import EngineOptions
    from dphist.engines.spark.engine import SparkEngine

WRITES_FOLDERS = True


def owns(source: object) -> bool:
    """Whether a source is a DataFrame of Spark, classic or Connect. Asked without loading Spark."""
    return type(source).__module__.startswith("pyspark.sql")


def input_files(source: Any) -> tuple[str, ...]:
    """The files behind a DataFrame; one that cannot tell them will say why when it is read."""
    if not owns(source):
        return ()
    from dphist.engines.spark.session import without_leaks

    try:
        return tuple(without_leaks(source.inputFiles))
    except EngineFailure:
        return ()


def open_engine(source: Any, options: EngineOptions) -> SparkEngine:
    """The session of a DataFrame, or one of our own."""
    from dphist.engines.spark.engine import SparkEngine, open_session

    if owns(source):
        return SparkEngine(source.sparkSession)
    return open_session(options.master, options.remote, options.staging)
