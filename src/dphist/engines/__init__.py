"""Rows in, bounded counts per group out. Each engine has a folder; none is loaded unasked."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    from dphist.engines.base import Engine
    from dphist.engines.query import EngineOptions

FOLDERS: Final = ("spark", "duckdb")
"""The engines, in the order in which they are asked whether they own a source. The last one takes every other source."""


def engine_for(source: object, options: EngineOptions) -> Engine:
    """The engine for a source, where the user names none: a cluster's frame stays in its session, the rest is counted here."""
    folder = next(folder for folder in FOLDERS if import_module(f"dphist.engines.{folder}").owns(source))
    return engine_named(folder, options, source)


def engine_named(name: str, options: EngineOptions, source: object = None) -> Engine:
    """An engine by its name, with a session of its own unless the source has one."""
    check_engine(name)
    engine: Engine = import_module(f"dphist.engines.{name}").open_engine(source, options)
    return engine


def files_of(*sources: object) -> tuple[Path, ...]:
    """The local files and folders that sources name. No output may replace them."""
    return tuple(path for source in sources for name in _names(source) for path in _expanded(name))


def _names(source: object) -> Iterable[object]:
    from dphist.engines.relations import Derived
    from dphist.engines.source import Files

    if isinstance(source, str | Path):
        return (source,)
    if isinstance(source, Files):
        return source.paths
    if isinstance(source, list | tuple):
        return source
    if isinstance(source, Derived):
        return [name for table in source.tables.values() for name in _names(table)]
    return [name for folder in FOLDERS for name in import_module(f"dphist.engines.{folder}").input_files(source)]


def _expanded(name: object) -> Iterable[Path]:
    from dphist.files.formats import local

    if not isinstance(name, str | Path) or (here := local(str(name))) is None:
        return ()
    return (here,) if os.path.exists(here) else map(Path, glob.glob(str(here), recursive=True))


def writes_folders(name: str) -> bool:
    """Whether an engine writes a release as a folder of files."""
    check_engine(name)
    answer: bool = import_module(f"dphist.engines.{name}").WRITES_FOLDERS
    return answer


def check_engine(name: str) -> None:
    """Refuse the name of an engine that is not there."""
    if name not in FOLDERS:
        raise InvalidParameter(f"--engine {' or '.join(sorted(FOLDERS))}", repr(name))
