"""Numbers of records, and of units with a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dphist import checks
from dphist.aggregates.base import Aggregate, most_in_words
from dphist.aggregates.measures import Measure, Number, Of
from dphist.aggregates.total import Sum
from dphist.columns import split_name
from dphist.errors import InvalidParameter

if TYPE_CHECKING:
    from dphist.engines.dialect import Dialect


@dataclass(frozen=True, slots=True)
class RowsOfUnit(Number):
    """How many records a unit has in a group, at most `upper`."""

    kind: ClassVar[str] = "rows"
    size: ClassVar[Of] = "rows"
    of_column: ClassVar[bool] = False
    counted: ClassVar[bool] = True
    sized_by_record: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """It has no column."""
        return "rows"

    def number(self, value: str) -> str:
        """All of its records count."""
        return "number_of_records"

    def totals(self, position: int, value: str, dialect: Dialect) -> dict[str, str]:
        """Also records without any value."""
        return {self.number(value): "COUNT(*)"}

    def sizes(self, value: str, dialect: Dialect) -> tuple[list[str], str]:
        """The number of records in one of the unit's groups."""
        return ["COUNT(*) AS number"], "CAST(number AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class Filled(Number):
    """1 of a unit with a value of any type, 0 of others."""

    kind: ClassVar[str] = "filled"
    any_type: ClassVar[bool] = True

    @property
    def span(self) -> tuple[float, float]:
        """It is counted once."""
        return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class Present(Number):
    """1 of a unit with a number, 0 of others."""

    kind: ClassVar[str] = "present"

    @property
    def span(self) -> tuple[float, float]:
        """It is counted once."""
        return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class RecordWeight(Number):
    """How many records with a number a unit has, which weigh at most `records` together."""

    kind: ClassVar[str] = "records"

    @property
    def span(self) -> tuple[float, float]:
        """So many records at most."""
        return 0.0, float(self.records)

    @property
    def name(self) -> str:
        """Aggregates with one weight share it."""
        return f"{self.kind}_{self.records}_{self.column}"


@dataclass(frozen=True, slots=True)
class CountOf(Aggregate):
    """The number of units with a value in a column."""

    kind: ClassVar[str] = "count_of"
    option: ClassVar[str] = "count_of"
    main: ClassVar[type[Measure]] = Filled
    from_zero: ClassVar[bool] = True

    @classmethod
    def asked(cls, options: Mapping[str, Any], records: int) -> list[Self]:
        """Columns alone."""
        return [cls.of(*split_name(text), (0, 1)) for text in options[cls.option] or ()]

    def _check(self) -> None:
        Aggregate._check(self)
        if self.chosen != "given":
            raise InvalidParameter("no bounds to choose for a count of values", self.chosen)

    def _measures(self) -> tuple[Measure, ...]:
        return (self._part(Filled, 1.0, (0.0, 1.0)),)

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the number of units with a value in {self.column}"


@dataclass(frozen=True, slots=True)
class Rows(Sum):
    """The number of records: a sum of ones."""

    kind: ClassVar[str] = "rows"
    option: ClassVar[str] = "rows"
    sql: ClassVar[tuple[str, ...]] = ()  # COUNT(*), which statements read by themselves
    main: ClassVar[type[Measure]] = RowsOfUnit
    rounded: ClassVar[bool] = True
    from_zero: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    @classmethod
    def asked(cls, options: Mapping[str, Any], records: int) -> list[Self]:
        """One number of records, or "auto"."""
        most = options[cls.option]
        if most is not None and most != "auto":
            checks.check_whole("rows", most, hint="the most records of one unit in a group that count.")
        return [] if most is None else [cls.of(None, None, (0, most))]

    @property
    def name(self) -> str:
        """It has no column."""
        return "rows"

    def ask(self, written: str, options: dict[str, Any]) -> None:
        """The upper bound alone: one for all."""
        most = "auto" if self.upper is None else int(self.upper)
        if options.setdefault(self.option, most) != most:
            raise InvalidParameter("one pair of bounds for COUNT(*)", "two", "use the wider one.")

    def _in_words(self, clamped: str, values: str, records: str) -> str:
        return f"the number of records, at most {most_in_words(self)} of a unit"
