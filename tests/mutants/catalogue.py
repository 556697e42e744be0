"""All mutants, room by room."""

from __future__ import annotations

from itertools import chain
from typing import Final

import mutants_of_draws
import mutants_of_limits
import mutants_of_mathematics
import mutants_of_relations
import mutants_of_sql
import mutants_of_the_road

from mutants import Mutant

_ROOMS: Final = (
    mutants_of_mathematics,
    mutants_of_relations,
    mutants_of_sql,
    mutants_of_the_road,
    mutants_of_draws,
    mutants_of_limits,
)
MUTANTS: Final[tuple[Mutant, ...]] = tuple(chain.from_iterable(room.MUTANTS for room in _ROOMS))
