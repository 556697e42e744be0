"""Parquet files: their columns by the schema, who reads their values, and how much memory the values may take meanwhile.

Arrow reads a column where the engine's own reader fails on a value or has no room for it. One record can hold a value of any
length that compresses to nothing, and a reader holds it before a check can see it. So the sizes in footers and page headers
are read first. If columns do not fit beside what a run needs, fewer threads read them. If one thread is too many, Arrow reads
texts a few rows at a time, so that a text beyond `LONGEST_KEY` is null before the next one comes. Both readers give the same
values: sizes decide on speed and memory only.

No reader can take a part of a list or struct. A row group is refused if its lists and structs do not fit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dphist.engines.expressions import LONGEST_KEY
from dphist.engines.frames import Arrow, plain_field, readable, reader_of
from dphist.errors import UnreadableSource

_BUFFER = 1 << 20


def readable_parquet(path: str, names: Sequence[str], kinds: Sequence[pa.DataType]) -> Arrow:
    """Columns of a Parquet file, under these names, with null for values that DuckDB's reader refuses or has no room for.

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
    """Whether Arrow alone reads a column: the engine does not check the limits of times in lists and structs.

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
    # A date is a whole number of days; a text that is not UTF-8 becomes null later.
    odd = types.is_date64(column.type) or (types.is_large_string(kind) and types.is_binary(column.type))
    return _short(column).cast(kind, safe=not odd)


def _short(column: pa.Array) -> pa.Array:
    """Null for texts that `types.guarded` would make null, so that a long text is held for a few rows only."""
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _short(column.dictionary))
    if not any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return column
    is_short = pc.less_equal(pc.binary_length(column), LONGEST_KEY)
    return column if is_short.false_count == 0 else pc.if_else(is_short, column, pa.scalar(None, kind))


VECTOR: Final = 2048
"""Rows that the engine holds at a time, together with all their pages."""

BATCH: Final = 1 << 16
"""Rows that Arrow reads at a time where they are small."""

_BESIDE: Final = 1 << 26
"""Bytes of a batch beside its largest row."""

_CODED: Final = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "BYTE_ARRAY": 16}


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The pages of a column in a row group: the rows after which they end, their bytes, and the bytes of the dictionary.

    coded: Arrow can leave the values in the dictionary until long ones are null. It copies the dictionary with each batch.
    prefixed: a value takes a shared beginning from the value before it, so each may be as long as its page.
    """

    ends: Any
    sizes: Any
    dictionary: int = 0
    coded: bool = False
    prefixed: bool = False

    def held(self, rows: int) -> float:
        """The most bytes that `rows` rows keep in a reader that takes so many at a time without copying them."""
        values = np.maximum(np.diff(self.ends, prepend=0), 1) if self.prefixed else 1
        return self._most(self.sizes * values, rows) + self.dictionary

    def copied(self, rows: int) -> float:
        """The most bytes in a reader that copies its rows, each with its word of the dictionary."""
        if self.prefixed:
            return (2 + rows) * float(self.sizes.max(initial=0)) + self.dictionary * (1 + rows)
        share = np.minimum(1, rows / np.maximum(np.diff(self.ends, prepend=0), 1))
        whole, each = (3, min(self.dictionary, LONGEST_KEY)) if self.coded else (1, self.dictionary)
        return self._most(self.sizes * (1 + share), rows) + whole * self.dictionary + rows * each

    def _most(self, sizes: Any, rows: int) -> float:
        if not len(sizes):
            return 0
        sums, total = np.concatenate([[0], np.cumsum(sizes)]), self.ends[-1]
        # Rows in which no page begins lie in one page. They take no more than the rows in which that page begins.
        first = np.unique(np.append(0, self.ends[:-1]) // rows * rows)
        begin = np.searchsorted(self.ends, first, "right")
        end = np.searchsorted(self.ends, np.minimum(first + rows, total), "left") + 1
        return float((sums[np.minimum(end, len(sizes))] - sums[np.minimum(begin, len(sizes))]).max())


def fit(connection: duckdb.DuckDBPyConnection, paths: Sequence[str], needed: Sequence[str]) -> bool:
    """Whether the engine's own reader has room for the columns that are needed. It gets fewer threads if that makes room."""
    from dphist.engines.duckdb.session import memory_limit

    # A power of two: a user who may choose the limit learns only the magnitude of a refused size.
    room = 2.0 ** math.floor(math.log2(memory_limit(connection) / 4))
    threads = int(connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
    folded, most = {name.casefold() for name in needed}, 0.0
    for path in paths:
        metadata = pq.read_metadata(path)
        flat, nested = _leaves(metadata, folded)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            inside = sum(_stored(path, group, metadata.schema, leaf, room) for leaf in nested)
            if inside > room:
                name = metadata.schema.column(nested[0]).path.partition(".")[0]
                hint = "raise --memory-limit, or write the file with fewer rows in a row group."
                raise UnreadableSource(f"lists and structs such as {name!r} that fit into memory", "larger ones", hint)
            columns = [group.column(leaf) for leaf in flat]
            taken = inside + sum(column.total_uncompressed_size for column in columns)
            if taken * threads > room or any(map(_is_prefixed, columns)):
                taken = inside + sum(pages_of(path, group.column(leaf)).held(VECTOR) for leaf in flat)
            most = max(most, taken)
    if most * threads > room and most <= room:
        connection.execute(f"SET threads = {int(room // most)}")
    return most <= room


def rows_at_a_time(path: str, metadata: Any, number: int, names: Sequence[str]) -> tuple[int, list[str]]:
    """How many rows of a row group Arrow can read with little more memory than the largest row, and texts to read as codes."""
    flat, _ = _leaves(metadata, {name.casefold() for name in names})
    group = metadata.row_group(number)
    columns = [pages_of(path, group.column(leaf)) for leaf in flat]
    coded = [group.column(leaf).path_in_schema for leaf, column in zip(flat, columns, strict=True) if column.coded]

    def taken(rows: int) -> float:
        return sum(column.copied(rows) for column in columns)

    room, rows = _BESIDE + 1.25 * taken(1), BATCH
    while rows > 1 and taken(rows) > room:
        rows //= 2
    return rows, coded


def _leaves(metadata: Any, folded: set[str]) -> tuple[list[int], list[int]]:
    """The stored columns behind the needed ones: plain columns, and columns inside lists and structs."""
    flat: list[int] = []
    nested: list[int] = []
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        path = column.path.casefold()
        if any(path == name or path.startswith(f"{name}.") for name in folded):
            (nested if column.path != column.name or column.max_repetition_level else flat).append(leaf)
    return flat, nested


def _stored(path: str, group: Any, schema: Any, leaf: int, room: float) -> float:
    """The bytes that the engine needs for a column inside lists or structs: a list grows by doubling.

    A dictionary's word is copied for each element of the rows that the engine holds, at the average number per row.
    """
    column, kind = group.column(leaf), schema.column(leaf)
    values, size = int(column.num_values), int(column.total_uncompressed_size)
    stored = 2 * values * int(_WIDTHS.get(column.physical_type, kind.length))
    if column.physical_type != "BYTE_ARRAY":
        return stored
    if _is_prefixed(column):
        return stored + (1 + values) * size
    dictionary = pages_of(path, column).dictionary
    copies = min(values, VECTOR * math.ceil(values / max(group.num_rows, 1)))
    if stored + size + copies * dictionary > room >= dictionary:
        dictionary = _longest_word(path, column, dictionary)
    return float(stored + size + copies * dictionary)


def _is_prefixed(column: Any) -> bool:
    return "DELTA_BYTE_ARRAY" in column.encodings


def _longest_word(path: str, column: Any, dictionary: int) -> int:
    """The bytes of a dictionary's longest word, or of all words if they cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(column.dictionary_page_offset)
            header = _struct(file)
            content = file.read(header[_COMPRESSED])
        if column.compression != "UNCOMPRESSED":
            content = pa.Codec(column.compression.lower()).decompress(content, header[_UNCOMPRESSED], asbytes=True)
        place = longest = 0
        while place < len(content):
            length = int.from_bytes(content[place : place + 4], "little")
            place, longest = place + 4 + length, max(longest, length)
        return longest if place == len(content) else dictionary
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException):
        return dictionary


def pages_of(path: str, column: Any) -> Pages:
    """The pages of a column in a row group, or one page with everything if they cannot be read."""
    try:
        return _pages(path, column)
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        whole = np.array([float(column.total_uncompressed_size)])
        return Pages(np.array([column.num_values]), whole, prefixed=_is_prefixed(column))


_MOST_LISTED: Final = 1 << 16
_UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_2, _NUMBER = 2, 3, 5, 7, 8, 1
"""Fields of a page's header, as the format numbers them."""


def _pages(path: str, column: Any) -> Pages:
    start, dictionary, rows, sizes = column.data_page_offset, 0, [], []
    if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < start:
        start = column.dictionary_page_offset
    with open(path, "rb", buffering=1 << 12) as file:
        file.seek(start)
        while file.tell() < start + column.total_compressed_size:
            header = _struct(file)
            size, stored = header.get(_UNCOMPRESSED), header.get(_COMPRESSED)
            if not (isinstance(size, int) and isinstance(stored, int) and size >= 0 and stored >= 0):
                raise ValueError("no page")
            if data := header.get(_DATA) or header.get(_DATA_2):
                rows.append(int(data[_NUMBER]))
                sizes.append(float(size))
            elif header.get(_DICTIONARY):
                dictionary += size
            file.seek(stored, 1)
    if sum(rows) != column.num_values or min(rows, default=0) < 0:
        raise ValueError("other pages")
    coded = dictionary > 0 and column.physical_type == "BYTE_ARRAY" and _CODED.issuperset(column.encodings)
    return Pages(np.cumsum(rows), np.array(sizes), dictionary, coded, _is_prefixed(column))


def _struct(file: BinaryIO) -> dict[int, Any]:
    """A struct of Thrift's compact protocol: its numbers and structs; the rest is skipped."""
    found: dict[int, Any] = {}
    field = 0
    while head := _byte(file):
        field = field + (head >> 4) if head >> 4 else _zigzag(file)
        found[field] = _value(file, head & 15)
    return found


def _value(file: BinaryIO, kind: int) -> Any:
    match kind:
        case 1 | 2:  # the kind itself says true or false
            return None
        case 3:
            file.seek(1, 1)
        case 4 | 5 | 6:
            return _zigzag(file)
        case 7:
            file.seek(8, 1)
        case 8:
            file.seek(_varint(file), 1)
        case 9 | 10:
            _skip_list(file)
        case 12:
            return _struct(file)
        case _:
            raise ValueError("no field of a header")
    return None


def _skip_list(file: BinaryIO) -> None:
    head = _byte(file)
    length = head >> 4 if head >> 4 < 15 else _varint(file)
    if length > _MOST_LISTED:
        raise ValueError("no list of a header")
    for _ in range(length):
        _value(file, 3 if head & 15 in (1, 2) else head & 15)


def _byte(file: BinaryIO) -> int:
    return file.read(1)[0]


def _varint(file: BinaryIO) -> int:
    number = shift = 0
    while shift < 64:
        byte = _byte(file)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
        shift += 7
    raise ValueError("no number")


def _zigzag(file: BinaryIO) -> int:
    number = _varint(file)
    return (number >> 1) ^ -(number & 1)
