"""Parquet files as Arrow: their columns by the schema, and their values where the engine's own reader does not take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dphist.engines.duckdb.pages import rows_at_a_time
from dphist.engines.duckdb.types import LONGEST_KEY
from dphist.engines.frames import Arrow, plain_field, reader_of
from dphist.errors import UnreadableSource

_BUFFER = 1 << 20


def readable_parquet(path: str, names: Sequence[str]) -> Arrow:
    """Columns of a Parquet file, under these names, with null for what DuckDB's reader would not take or has no room for."""
    file = _opened(path)
    found = {name.casefold(): name for name in file.schema_arrow.names}
    own = [found[name.casefold()] for name in names]

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(file.num_row_groups):
            rows, coded = rows_at_a_time(path, file.metadata, number, own)
            for batch in _opened(path, coded).iter_batches(rows, row_groups=[number], columns=own):
                columns = [
                    _short(_as_stored(batch.column(name))).cast(kind) for name, kind in zip(own, kinds, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))

    kinds = [_stored_type(file.schema_arrow.field(name).type) for name in own]
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


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Durations are stored as numbers, and DuckDB reads what is stored."""
    return pa.int64() if pa.types.is_duration(kind) else kind


def _as_stored(column: pa.Array) -> pa.Array:
    return column.view(pa.int64()) if pa.types.is_duration(column.type) else column


def _short(column: pa.Array) -> pa.Array:
    """Null for what `types.guarded` would make null: nothing that is too long is held for longer than a few rows."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _short(column.dictionary))
    if not any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return column
    is_short = pc.less_equal(pc.binary_length(column), LONGEST_KEY)
    return column if is_short.false_count == 0 else pc.if_else(is_short, column, pa.scalar(None, kind))
