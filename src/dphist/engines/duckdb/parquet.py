"""Parquet files as Arrow: their columns by the schema, and their values where the engine's own reader does not take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dphist.engines.duckdb.pages import rows_at_a_time
from dphist.engines.duckdb.types import LONGEST_KEY
from dphist.engines.frames import Arrow, plain_field, readable, reader_of
from dphist.errors import UnreadableSource

_BUFFER = 1 << 20


def readable_parquet(path: str, names: Sequence[str], kinds: Sequence[pa.DataType]) -> Arrow:
    """Columns of a Parquet file, under these names, with null for what DuckDB's reader would not take or has no room for.

    kinds: their `stored_types`.
    """
    file = _opened(path)
    found = {name.casefold(): name for name in file.schema_arrow.names}
    own = [found[name.casefold()] for name in names]

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(file.num_row_groups):
            rows, coded = rows_at_a_time(path, file.metadata, number, own)
            for batch in _opened(path, coded).iter_batches(rows, row_groups=[number], columns=own):
                columns = [_as_stored(batch.column(name), kind) for name, kind in zip(own, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))

    return reader_of(pa.schema(list(zip(names, kinds, strict=True))), names, batches)


def _opened(path: str, coded: Sequence[str] = ()) -> pq.ParquetFile:
    """coded: texts that come as codes and a dictionary."""
    return pq.ParquetFile(
        path, coerce_int96_timestamp_unit="us", pre_buffer=False, buffer_size=_BUFFER, read_dictionary=list(coded)
    )


def parquet_columns(path: str, needed: Sequence[str]) -> list[str]:
    """All names. Refuses a needed column that `readable_parquet` and DuckDB's reader would understand in two ways."""
    schema, folded = pq.read_schema(path), {name.casefold() for name in needed}
    for name, times in Counter(name.casefold() for name in schema.names).items():
        if times > 1 and name in folded:
            raise UnreadableSource(f"one column {name!r}", "several that differ in case at most", "rename them.")
    for field in schema:
        if field.name.casefold() in folded:
            plain_field(field.with_type(_stored_type(field.type)))
    return list(schema.names)


def stored_types(path: str, names: Sequence[str]) -> list[pa.DataType]:
    """The types in which columns are read by Arrow: one for each type of the engine's, so that several files agree."""
    found = {field.name.casefold(): field for field in _opened(path).schema_arrow}
    fields = [found[name.casefold()] for name in names]
    return [plain_field(field.with_type(_stored_type(field.type))).type for field in fields]


def is_read_by_arrow(kind: pa.DataType) -> bool:
    """Whether a column is never read by the engine: times in lists and structs, whose limits it does not look at.

    Raises:
        UnreadableSource: durations are in them, which the engine would read as numbers.
    """
    inside = list(_inside(kind))
    if any(map(pa.types.is_duration, inside)):
        raise UnreadableSource("durations in columns of their own", "some in lists or structs", "take them out.")
    return any(pa.types.is_timestamp(one) or pa.types.is_date64(one) for one in inside)


def _inside(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of everything in lists and structs."""
    if pa.types.is_nested(kind):
        for number in range(kind.num_fields):
            yield kind.field(number).type
            yield from _inside(kind.field(number).type)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Durations are stored as numbers, and DuckDB reads what is stored."""
    types = pa.types
    if types.is_dictionary(kind):
        return _stored_type(kind.value_type)
    if types.is_timestamp(kind) and kind.unit != "ns":
        return pa.timestamp("us", kind.tz and "UTC")
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    for is_one, stored in (
        (types.is_duration, pa.int64()), (types.is_date64, pa.date32()), (types.is_time32, pa.time64("us")),
        (types.is_string, pa.large_string()), (types.is_string_view, pa.large_string()),
        (types.is_binary, pa.large_binary()), (types.is_binary_view, pa.large_binary()),
        (types.is_fixed_size_binary, pa.large_binary()),
    ):  # fmt: skip
        if is_one(kind):
            return stored
    return kind


def _as_stored(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times that microseconds cannot hold are null before they are cast; texts that are too long before they are copied."""
    types = pa.types
    if types.is_duration(column.type):
        return column.view(pa.int64())
    if types.is_string_view(column.type) or types.is_binary_view(column.type):
        column = column.cast(kind)
    elif types.is_timestamp(column.type) or types.is_date64(column.type):
        column = readable(column)
    # A date is a whole number of days; what is not UTF-8 becomes null later, as in any text.
    odd = types.is_date64(column.type) or (types.is_large_string(kind) and types.is_binary(column.type))
    return _short(column).cast(kind, safe=not odd)


def _short(column: pa.Array) -> pa.Array:
    """Null for what `types.guarded` would make null: nothing that is too long is held for longer than a few rows."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _short(column.dictionary))
    if not any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return column
    is_short = pc.less_equal(pc.binary_length(column), LONGEST_KEY)
    return column if is_short.false_count == 0 else pc.if_else(is_short, column, pa.scalar(None, kind))
