"""What each record yields, in plain Python: the rules of docs/release.md, obviously right and slow.

NaN is null wherever it stands. A date or time out of its range is null. Zero has one sign. Text and binary values of more than
65,536 bytes are null. A record without a unit is dropped, and so is one for which the condition is not true.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from nasty_tables import UNIT
from record_expressions import Expression, Value, number

from dphist.aggregates.measures import Amount, Measure
from dphist.columns import unit_of
from dphist.engines.query import GroupByQuery, Key

Group = tuple[Value, ...]
Amounts = tuple[int, ...]
Groups = dict[Group, Amounts]
"""For each group its units, and the steps of each measure."""

LONGEST: Final = 65_536
_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY: Final = 86_400 * 10**9
_TIMESTAMPS_NS: Final = (-106_751 * _DAY, 106_751 * _DAY)
_RANGES: Final = {
    "date": (-719_162, 2_932_896),
    "timestamp": (-719_162 * _DAY, 2_932_897 * _DAY - 1),
    "instant": (-719_161 * _DAY, 2_932_896 * _DAY - 1),
    "time": (0, _DAY - 1),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A key or a condition: a column, or an expression of it."""

    column: str
    expression: Expression | None = None

    @property
    def sql(self) -> str | None:
        """The expression over the column."""
        return None if self.expression is None else self.expression.sql.replace("{c}", self.column)

    @property
    def has_meaning(self) -> bool:
        """Whether the oracle knows it."""
        return self.expression is None or self.expression.meaning is not None

    def on(self, record: dict[str, Value]) -> Value:
        """Its value for one record."""
        value = record[self.column]
        return value if self.expression is None else self.expression.on(value)


@dataclass(frozen=True, slots=True)
class Question:
    """A query, as this oracle and the engine both read it."""

    keys: tuple[Part, ...]
    measures: tuple[Measure, ...] = ()
    where: Part | None = None
    null_keys: Literal["group", "drop"] = "group"
    unit: tuple[Part, ...] = (Part(UNIT),)

    @property
    def has_meaning(self) -> bool:
        """Whether the oracle can answer it."""
        return all(part.has_meaning for part in (*self.keys, *([self.where] if self.where else [])))

    def query(self) -> GroupByQuery:
        """For the engine."""
        keys = tuple(Key(part.column if part.sql is None else f"key_{i}", part.sql) for i, part in enumerate(self.keys))
        where = None if self.where is None else self.where.sql
        unit = [part.column if part.sql is None else f"part={part.sql}" for part in self.unit]
        return GroupByQuery(unit_of(unit), keys, self.measures, where=where, null_keys=self.null_keys)


def answer(table: pa.Table, question: Question) -> Groups:
    """Units and steps per group."""
    own: dict[tuple[Group, Group], list[dict[str, Value]]] = {}
    for record in records_of(table):
        unit = unit_on(record, question.unit)
        group = tuple(canonical(part.on(record)) for part in question.keys)
        if unit is None or (question.where is not None and question.where.on(record) != ("bool", True)):
            continue
        if question.null_keys == "group" or None not in group:
            own.setdefault((unit, group), []).append(record)
    added = [{group: (1, *(_steps(m, mine) for m in question.measures))} for (_, group), mine in own.items()]
    return add_up(added)


def add_up(parts: Sequence[Groups]) -> Groups:
    """The sum of histograms."""
    total: Groups = {}
    for part in parts:
        for group, amounts in part.items():
            before = total.get(group, (0,) * len(amounts))
            total[group] = tuple(a + b for a, b in zip(before, amounts, strict=True))
    return total


def take_away(whole: Groups, part: Groups) -> Groups:
    """The difference of histograms, without groups that nobody is left in."""
    negative = {group: tuple(-amount for amount in amounts) for group, amounts in part.items()}
    return {group: amounts for group, amounts in add_up([whole, negative]).items() if any(amounts)}


def records_of(table: pa.Table) -> Iterator[dict[str, Value]]:
    """The records, as expressions see them."""
    columns = {name: [readable(value) for value in values_of(table.column(name))] for name in table.column_names}
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def unit_on(record: dict[str, Value], parts: Sequence[Part]) -> Group | None:
    """The unit of a record; None without any of its parts."""
    unit = tuple(canonical(part.on(record)) for part in parts)
    return None if None in unit else unit


def units_of(table: pa.Table, parts: Sequence[Part] = (Part(UNIT),)) -> list[Group | None]:
    """The unit of each record; None for records without."""
    return [unit_on(record, parts) for record in records_of(table)]


def canonical(value: Value) -> Value:
    """A key or unit in the one form it may be published in; floats by their bits."""
    if value is None:
        return None
    tag, inner = value
    if tag.startswith("float"):
        return _in_bits((tag, inner + 0.0))
    return _in_bits(readable(value))


def published(column: pa.ChunkedArray) -> list[Value]:
    """A key column of the engine's as it is, bit by bit: what is not canonical stays so, to be found."""
    return [_in_bits(value) for value in values_of(column)]


def _in_bits(value: Value) -> Value:
    if value is None:
        return None
    tag, inner = value
    if tag.startswith("float"):
        return (tag, struct.pack(">d", inner).hex())
    return (tag, Fraction(inner)) if tag == "decimal" else value


def readable(value: Value) -> Value:
    """What a step may see: no NaN, no date or time out of range, no text without end, inside of lists and structs too."""
    if value is None:
        return None
    tag, inner = value
    if tag.startswith("float"):
        return None if math.isnan(inner) else value
    if tag in ("text", "binary"):
        return value if len(inner.encode() if tag == "text" else inner) <= LONGEST else None
    if tag == "struct":
        return (tag, {name: readable(part) for name, part in inner.items()})
    if tag == "list":
        return (tag, [readable(part) for part in inner])
    if tag not in _RANGES:
        return value
    first, last = _RANGES[tag]
    return value if first <= inner <= last else None


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Value]:
    """An Arrow column as values with tags. Nothing is rounded, nothing is dropped."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values_of(chunk)]
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = values_of(column.dictionary)
        return [None if index is None else words[index] for index in column.indices.to_pylist()]
    valid = column.is_valid().to_pylist()
    tag, raw = _untyped(column, kind)
    return [(tag, value) if there and value is not None else None for there, value in zip(valid, raw, strict=True)]


def _untyped(column: pa.Array, kind: pa.DataType) -> tuple[str, Sequence[Any]]:
    types = pa.types
    if types.is_floating(kind):
        stored = np.frombuffer(column.buffers()[1] or b"", kind.to_pandas_dtype())
        return tag_of(kind), [float(x) for x in stored[column.offset : column.offset + len(column)]]
    if types.is_timestamp(kind):
        scale = _NANOSECONDS[kind.unit]
        first, last = _TIMESTAMPS_NS if scale == 1 else (-math.inf, math.inf)
        times = [None if x is None else x * scale for x in column.view(pa.int64()).to_pylist()]
        kept = [None if x is None or not first <= x <= last else x for x in times]
        return tag_of(kind), kept
    if types.is_date32(kind):
        return "date", column.view(pa.int32()).to_pylist()
    if types.is_date64(kind):
        return "date", [None if x is None else x // 86_400_000 for x in column.view(pa.int64()).to_pylist()]
    if types.is_time(kind):
        whole = pa.int32() if types.is_time32(kind) else pa.int64()
        return "time", [None if x is None else x * _NANOSECONDS[kind.unit] for x in column.view(whole).to_pylist()]
    if types.is_struct(kind):
        parts = {f.name: values_of(column.field(i)) for i, f in enumerate(kind)}
        return "struct", [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    if types.is_list(kind) or types.is_large_list(kind):
        return "list", [values_of(one.values) if one.is_valid else None for one in column]
    return tag_of(kind), column.to_pylist()


def tag_of(kind: pa.DataType) -> str:
    """The tag of values of an Arrow type."""
    types = pa.types
    for tag, tests in {
        "bool": (types.is_boolean,),
        "int": (types.is_integer,),
        "float64": (types.is_float64,),
        "float32": (types.is_float32,),
        "decimal": (types.is_decimal,),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "binary": (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view),
        "date": (types.is_date,),
        "time": (types.is_time,),
        "struct": (types.is_struct,),
        "list": (types.is_list, types.is_large_list),
        "null": (types.is_null,),
    }.items():
        if any(test(kind) for test in tests):
            return tag
    if types.is_timestamp(kind):
        zone = "instant_ns" if kind.unit == "ns" else "instant"
        return zone if kind.tz else "timestamp"
    return tag_of(kind.value_type) if types.is_dictionary(kind) else str(kind)


def _steps(measure: Measure, records: Sequence[dict[str, Value]]) -> int:
    """What one unit adds to one group."""
    if measure.column is None:
        amount = float(len(records))
    else:
        assert isinstance(measure, Amount)
        numbers = [x for x in (_double(record[measure.column]) for record in records) if x is not None]
        scaled = [min(max(x / measure.record_step, -(2.0**62)), 2.0**62) for x in numbers]
        total = float(sum(map(round, scaled)))
        if measure.kind == "mean":
            amount = total / len(numbers) * measure.record_step if numbers else measure.centre
        else:
            amount = total * measure.record_step
    clamped = min(max(amount, measure.lower), measure.upper)
    return math.trunc((clamped - measure.centre) / measure.step)


def _double(value: Value) -> float | None:
    if value is None:
        return None
    found = number(value[1]) if value[0] == "text" else ("float64", float(value[1]))
    return None if found is None else float(found[1])


def as_multiset(groups: Groups) -> Counter[tuple[Group, Amounts]]:
    """For a comparison that shows what is missing and what is too much."""
    return Counter(groups.items())
