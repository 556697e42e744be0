"""The number of distinct values of a column, of which one unit adds only so many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dphist import checks
from dphist.aggregates.base import Aggregate, most_in_words
from dphist.aggregates.measures import MOST_RECORDS, Floats, Lattice, Measure, Of
from dphist.aggregates.noisy_sums import NoisyMeasure
from dphist.columns import split_name
from dphist.errors import InvalidParameter
from dphist.words import number

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect


@dataclass(frozen=True, slots=True)
class DistinctOfUnit(Measure):
    """How many values of any type a unit takes, at most `upper` that nobody has taken before it."""

    kind: ClassVar[str] = "distinct"
    size: ClassVar[Of] = "distinct"
    counted: ClassVar[bool] = True
    sized_by_record: ClassVar[bool] = False
    any_type: ClassVar[bool] = True
    added: ClassVar[bool] = False

    def _check_bounds(self, bounds: str) -> None:
        checks.check_between("how many distinct values one unit takes in one group", self.upper, 1, MOST_RECORDS)
        if self.lower != 0 or self.upper != math.floor(self.upper) or self.lattice not in (None, Lattice(0.0, 1.0)):
            raise InvalidParameter(f"a whole number of values, counted from 0, for {self.name}", self.upper)

    def _usual_lattice(self) -> Lattice:
        """Counted from 0: fewer than its most new values are new ones where others have them, too."""
        return Lattice(0.0, 1.0)

    def sizes(self, value: str, dialect: Dialect) -> tuple[list[str], str]:
        """How many different values a unit has in one of its groups."""
        return [f"COUNT(DISTINCT {value}) AS number"], "CAST(number AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class Distinct(Aggregate):
    """The number of distinct values that units take."""

    kind: ClassVar[str] = "distinct"
    option: ClassVar[str] = "distinct"
    main: ClassVar[type[Measure]] = DistinctOfUnit
    from_zero: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    needs_max_groups: ClassVar[bool] = True
    states_excess: ClassVar[bool] = False

    @classmethod
    def asked(cls, options: Mapping[str, Any], records: int) -> list[Self]:
        """Columns with how many values of a group one unit may add."""
        return [cls.of(*split_name(text), (0, most)) for text, most in (options[cls.option] or {}).items()]

    def ask(self, written: str, options: dict[str, Any]) -> None:
        """The upper bound alone."""
        options.setdefault(self.option, {})[written] = "auto" if self.upper is None else int(self.upper)

    def noise_of_sum(self, std: float, lower: Floats, upper: Floats) -> Floats:
        """Nothing is counted from a centre."""
        return np.asarray(std * upper / math.sqrt(self.measures[0].weight))

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return (
            f"the number of distinct values of {self.column}, of which one unit adds at most {most_in_words(self)} that nobody"
            " else has added: a lower bound where units have more of them"
        )

    def _noise_in_words(self, noisy: NoisyMeasure) -> str:
        return f"{number(noisy.noise_std)}{' times that number' if self.open else ''}"
