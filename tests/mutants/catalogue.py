"""All mutants: those of the tables, room by room, and those that are made from the code."""

from __future__ import annotations

from typing import Final

import mutants_of_draws
import mutants_of_limits

from mutants import TABLES, Mutant, table

_MADE: Final = ("draws", "limits")
LISTED: Final = tuple(
    Mutant(name, file, bug["old"], bug["new"], bug["breaks"], tuple(bug["tests"]))
    for room in sorted(path.stem for path in TABLES.glob("*.toml") if path.stem not in _MADE)
    for file, bugs in table(room).items()
    for name, bug in bugs.items()
)
MUTANTS: Final[tuple[Mutant, ...]] = (*LISTED, *mutants_of_draws.MUTANTS, *mutants_of_limits.MUTANTS)
