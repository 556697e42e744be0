"""What to count: the unit, the keys, the measures and which records take part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

import pyarrow as pa

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.histogram import Measure, check_key_names

NullKeys = Literal["group", "drop"]
KeyRole = Literal["group", "value", "ordered value"]

_DERIVED: Final = re.compile(
    r"""\s*(?: (?P<plain>[^\W\d]\w*) | "(?P<quoted>(?:[^"]|"")+)" )\s*=(?!=)\s*(?P<expression>.+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Key:
    """One part of a group's key: a column, or an SQL expression over the columns of the same record.

    As a "value" it is what a statistic is of: NaN is null. An "ordered value" is compared too, and must not be text, whose
    order is not the one of the numbers or dates that it may spell. `numbers_in` names a column that must be of numbers, or of
    text that may spell some. All these rules go by the type of a column, never by a record.
    """

    name: str
    expression: str | None = None
    role: KeyRole = "group"
    numbers_in: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidParameter("a name for the key", "nothing")
        if self.expression is not None and not self.expression.strip():
            raise InvalidParameter(f"an expression for the key {self.name}", "nothing")


def parse_key(text: str) -> Key:
    """Read `country`, or `month=date_trunc('month', time)`; names of derived keys may be "quoted".

    A column that has an equals sign behind a word in its name is written as key="the=name".
    """
    match = _DERIVED.fullmatch(text)
    if match is None:
        return Key(text)
    name = match["plain"] or match["quoted"].replace('""', '"')
    return Key(name, match["expression"].strip())


@dataclass(frozen=True, slots=True, eq=False)
class GroupByQuery:
    """Units per group, with sums. Records without a unit are dropped.

    `null_keys` says whether a null in a key is a group like any other or drops the record. `public_keys` lists groups by
    the names of the keys: records of other groups are dropped before anything else, listed groups without records
    appear with zeros. `want_total` asks for the number of units that are counted in at least one group.
    """

    unit: str
    by: tuple[Key, ...]
    measures: tuple[Measure, ...] = ()
    where: str | None = None
    null_keys: NullKeys = "group"
    public_keys: pa.Table | None = None
    want_total: bool = False

    def __post_init__(self) -> None:
        if not self.unit:
            raise InvalidParameter("a column that names the unit", "nothing")
        if not self.by:
            raise InvalidParameter("at least one key", "none", "add --by COLUMN.")
        names = [key.name for key in self.by]
        check_key_names(names)
        if len(set(names)) < len(names):
            raise InvalidParameter("keys with different names", names)
        measured = [measure.name for measure in self.measures]
        if len(set(measured)) < len(measured):
            raise InvalidParameter("measures with different names", measured)
        if self.where is not None and not self.where.strip():
            raise InvalidParameter("a condition", "nothing")
        checks.check_choice("null_keys", self.null_keys, get_args(NullKeys))
        if self.public_keys is not None and sorted(self.public_keys.column_names) != sorted(names):
            raise InvalidParameter(f"public keys with the columns {names}", self.public_keys.column_names)
