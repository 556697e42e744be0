"""The engine on this machine: an embedded DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    from dphist.engines.duckdb.engine import DuckDBEngine
    from dphist.engines.query import EngineOptions

WRITES_FOLDERS = False


def owns(source: object) -> bool:
    """It takes everything: its own checks say what it cannot read."""
    return True


def input_files(source: object) -> tuple[str, ...]:
    """Paths name themselves; frames in memory have none."""
    return ()


def open_engine(source: object, options: EngineOptions) -> DuckDBEngine:
    """An engine with these settings. It shares no session."""
    from dphist.engines.duckdb.engine import DuckDBEngine

    for name in ("master", "remote", "staging"):
        if getattr(options, name) is not None:
            hint = f"add --engine spark, or leave --{name} out."
            raise InvalidParameter(f"--engine spark with --{name}", "--engine duckdb", hint)
    return DuckDBEngine(options.settings)
