"""Bugs between records and results: engines, publishing, lists, streams, ledger, verification."""

from __future__ import annotations

from typing import Final

from mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = ()
