"""Spark's errors and its Python log, which may quote a record, kept from everybody who did not ask for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import pyarrow as pa

from dphist.errors import DphistError, EngineFailure

_T = TypeVar("_T")

OTHER_HEADER: Final = "dphist: the header of a CSV file differs from that of the first"
"""What a task says that finds one. It quotes nothing."""

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def without_leaks(work: Callable[[], _T]) -> _T:
    """Replace Spark's errors, which may quote a record, by ours, raised where the original is no longer in sight."""
    try:
        with _unlogged():
            return work()
    except DphistError:
        raise
    except Exception as error:
        spark = type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")
        if not spark and not isinstance(error, pa.ArrowException):
            raise
        name, other_header = type(error).__name__, OTHER_HEADER in str(error)
    if other_header:
        raise EngineFailure("the same header in every CSV file", "rewrite the files with one header.")
    raise EngineFailure("a Spark job that runs to its end", f"Spark reported {name}; its own logs say more.")


class _Silence(logging.Filter):
    """Lets nothing through that a thread logs while it is at work here: Spark writes the text of an error to stderr when it
    makes the exception, before anybody can catch it."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(self.here, "depth", 0) == 0


_SILENCE: Final = _Silence()


@contextmanager
def _unlogged() -> Iterator[None]:
    from pyspark.logger import PySparkLogger  # a logger of another class would not understand how Spark calls it

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_SILENCE)  # once, however often it is added
    _SILENCE.here.depth = getattr(_SILENCE.here, "depth", 0) + 1
    try:
        yield
    finally:
        _SILENCE.here.depth -= 1
