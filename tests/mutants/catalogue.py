"""All mutants, room by room."""

from __future__ import annotations

from itertools import chain
from typing import Final

import mutants_of_mathematics
import mutants_of_sql
import mutants_of_the_road

from mutants import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    chain(mutants_of_mathematics.MUTANTS, mutants_of_the_road.MUTANTS, mutants_of_sql.MUTANTS)
)
