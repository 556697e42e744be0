"""Rows in, bounded counts per group out. Each engine has a folder; none is loaded unasked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    from dphist.engines.base import Engine
    from dphist.engines.query import EngineOptions

FOLDERS: Final = ("spark", "duckdb")
"""The engines, in the order in which they are asked whether a source is theirs. The last takes everything else."""


def engine_for(source: object, options: EngineOptions) -> Engine:
    """Where a source is counted if nobody says: a frame of a cluster by its own session, anything else on this machine."""
    folder = next(folder for folder in FOLDERS if import_module(f"dphist.engines.{folder}").owns(source))
    return engine_named(folder, options, source)


def engine_named(name: str, options: EngineOptions, source: object = None) -> Engine:
    """An engine by its name, with a session of its own unless the source has one."""
    check_engine(name)
    engine: Engine = import_module(f"dphist.engines.{name}").open_engine(source, options)
    return engine


def input_files(source: object) -> tuple[str, ...]:
    """The files behind a source that an engine can name: what no output may replace."""
    return tuple(name for folder in FOLDERS for name in import_module(f"dphist.engines.{folder}").input_files(source))


def writes_folders(name: str) -> bool:
    """Whether an engine writes a release as a folder of files."""
    check_engine(name)
    answer: bool = import_module(f"dphist.engines.{name}").WRITES_FOLDERS
    return answer


def check_engine(name: str) -> None:
    """Refuse the name of an engine that is not there."""
    if name not in FOLDERS:
        raise InvalidParameter(f"--engine {' or '.join(sorted(FOLDERS))}", repr(name))
