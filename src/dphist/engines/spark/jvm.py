"""The JVM of a session of our own: where it writes, and how it ends.

Spark keeps shuffle files, spilled rows and tables on their way from Python in its local directories, with the rights of any new
file: everybody may read them. So these lie in private directories (`scratch`) that go with the process; what a killed one left,
the next run removes. Who starts a JVM themselves says where it writes.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dphist.engines.spark.session import without_leaks
from dphist.engines.spark.staging import delete_here
from dphist.errors import InvalidParameter
from dphist.files.interruption import held, undo_at_stop
from dphist.files.scratch import PrivateDirectory, make_directory
from dphist.files.systems import no_core_dumps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "SPARK_LOCAL_DIRS"
"""The variable that a driver goes by, whatever spark.local.dir says."""

_LONGEST_WAIT: Final = 20.0


def start(builder: Any, *, remote: bool) -> SparkSession:
    """A session; if a JVM is started for it, with local directories that nobody else can read. remote: it has one elsewhere."""
    from pyspark import SparkContext

    no_core_dumps()  # before a JVM is started, which has the limits of this process
    if remote or SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        session: SparkSession = without_leaks(builder.getOrCreate)
        undo_at_stop(session.stop)
        return session
    with held():
        directories = private_directories()
        undo = partial(_end, directories)
        atexit.register(undo)
        undo_at_stop(undo)
    with told(directories):
        session = without_leaks(builder.getOrCreate)
    context: Any = SparkContext._active_spark_context
    check_local(context._temp_dir, directories)
    return session


def private_directories() -> list[PrivateDirectory]:
    """One in each local directory of the environment, or in the one for temporary files."""
    places = [Path(place) for place in os.environ.get(LOCAL, "").split(",") if place]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    return [make_directory(place.resolve()) for place in places or [Path(tempfile.gettempdir())]]


def check_local(path: str, directories: Sequence[PrivateDirectory]) -> None:
    """Refuse a JVM that writes elsewhere, as the scripts that start it may have told it."""
    if not any(Path(path).resolve().is_relative_to(directory.path) for directory in directories):
        raise InvalidParameter(
            "a Spark that keeps its files in a directory that only you can read",
            str(Path(path).parent),
            f"unset SPARK_EXECUTOR_DIRS, and set {LOCAL} where you call dphist, not in spark-env.sh.",
        )


@contextmanager
def told(directories: Sequence[PrivateDirectory]) -> Iterator[None]:
    """The environment from which a JVM learns where to write."""
    before = os.environ.get(LOCAL)
    os.environ[LOCAL] = ",".join(str(directory.path) for directory in directories)
    try:
        yield
    finally:
        del os.environ[LOCAL]
        if before is not None:
            os.environ[LOCAL] = before


def _end(directories: Sequence[PrivateDirectory]) -> None:
    """End the JVM and wait for it: whoever still writes would bring back what is removed."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    gateway: Any = SparkContext._gateway
    with suppress(Exception):  # it may be dead, or never have been alive
        context.stop()
    with suppress(Exception):
        gateway.shutdown()
    with suppress(Exception):
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=_LONGEST_WAIT)
    for directory in directories:
        delete_here(directory)
