"""Rows -> bounded histogram. The engines themselves are imported from their modules, so that none is loaded unasked."""

from __future__ import annotations

from dphist.engines.query import GroupByQuery, Key, parse_key
from dphist.engines.settings import Files, PerformanceSettings

__all__ = ["Files", "GroupByQuery", "Key", "PerformanceSettings", "parse_key"]
