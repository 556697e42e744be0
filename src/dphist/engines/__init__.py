"""Rows -> bounded histogram. The engines themselves are imported from their modules, so that none is loaded unasked."""

from __future__ import annotations

from dphist.engines.failures import EngineFailure, UnreadableSource
from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.engines.settings import Files, PerformanceSettings

__all__ = ["EngineFailure", "Files", "GroupByQuery", "Key", "PerformanceSettings", "UnreadableSource", "parse_key"]
