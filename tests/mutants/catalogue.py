"""All mutants: those of the tables, room by room, and those that are made from the code."""

from __future__ import annotations

from typing import Final

import mutants_of_draws
import mutants_of_limits

from mutants import TABLES, Mutant, table

_MADE: Final = ("draws", "limits")
ROOMS: Final = {path.stem: table(path.stem) for path in sorted(TABLES.glob("*.toml")) if path.stem not in _MADE}
LISTED: Final = tuple(
    Mutant(name, file, bug["old"], bug["new"], bug["breaks"], tuple(bug["tests"]))
    for files in ROOMS.values()
    for file, bugs in files.items()
    for name, bug in bugs.items()
)
MUTANTS: Final[tuple[Mutant, ...]] = (*LISTED, *mutants_of_draws.MUTANTS, *mutants_of_limits.MUTANTS)
