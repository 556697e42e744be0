"""All golden cases that need no Spark: name -> a function that returns what is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cases_of_commands import COMMANDS
from cases_of_lists import LISTS
from cases_of_plans import PLANS
from cases_of_releases import RELEASES

CASES: dict[str, Callable[[], Any]] = {**PLANS, **RELEASES, **LISTS, **COMMANDS}
