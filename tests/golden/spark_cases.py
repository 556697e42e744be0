"""Golden cases on Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPARK_CASES: dict[str, Callable[[], Any]] = {}
