"""Bugs in what is proved and drawn: privacy, noise, mechanisms, aggregates, selection, planning, flexible accuracy."""

from __future__ import annotations

from typing import Final

from mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
