"""Tables in memory as Arrow: Arrow itself, pandas and Polars frames, DuckDB relations, readers.

A frame has the types of its schema. A column without a type (Python objects in pandas) becomes text, value by value: a
guess would let one record decide the type. A value that the engine cannot take is null. A lazy source (a LazyFrame, a
relation, a reader) is not computed before its first record is needed.
"""

from __future__ import annotations

import datetime as dt
import numbers
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, Inexact, localcontext
from fractions import Fraction
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dphist.errors import InvalidParameter, UnreadableSource
from dphist.words import printable

Arrow: TypeAlias = "pa.Table | pa.RecordBatchReader"

_MOST_DIGITS: Final = 400
_ROWS: Final = 2**17
_IN_ARROW: Final = {
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "DECIMAL(38, 0)"),
    **dict.fromkeys(("BIT", "TIME WITH TIME ZONE"), "VARCHAR"),
}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_SECONDS: Final = _LAST_SECOND - _FIRST_SECOND
_COLLATIONS: Final = ("NOCASE", "NOACCENT")
"""DuckDB can compare a text with both collations only if the text itself has none."""

_EXTENSION: Final = b"ARROW:extension:name"
_EXPECTED: Final = "a path, an Arrow table, a pandas or Polars frame or a DuckDB relation"


def as_arrow(source: object, needed: Callable[[Sequence[str]], list[str]]) -> tuple[Arrow, list[str], bool]:
    """The needed columns as Arrow, the names of all columns, and whether the source declares their types.

    No record of a lazy source is read here. The module of a frame tells its kind, so no package must be installed.
    """
    try:
        return _convert(source, needed)
    except InvalidParameter:
        raise
    except Exception:
        kind = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    raise UnreadableSource(
        "columns of types that Arrow can hold", f"a {kind} that has others", "cast the unusual ones."
    )


def _convert(source: Any, needed: Callable[[Sequence[str]], list[str]]) -> tuple[Arrow, list[str], bool]:
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(source, needed)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        names = list(source.schema.names)
        places = [names.index(name) for name in needed(names)]
        schema = _plain_schema(source.schema, places)
        columns = [_as_plain(source.column(place), kind) for place, kind in zip(places, schema.types, strict=True)]
        return pa.table(columns, schema=schema), names, True
    if isinstance(source, pa.RecordBatchReader):
        names = list(source.schema.names)
        return reader_of(source.schema, needed(names), lambda: source), names, True
    if isinstance(source, duckdb.DuckDBPyRelation):
        return _from_relation(source, needed), list(source.columns), True
    if module == "polars":
        if hasattr(source, "collect"):
            names = list(source.collect_schema().names())
            lazy = source.select(needed(names))
            _check_objects(lazy.collect_schema())
            schema = lazy.collect_schema().to_frame().to_arrow().schema
            return reader_of(schema, schema.names, lambda: lazy.collect().to_arrow().to_batches()), names, True
        names = list(source.columns)
        narrow = source.select(needed(names))
        _check_objects(narrow.schema)
        return _convert(narrow.to_arrow(), needed)[0], names, True
    raise UnreadableSource(_EXPECTED, type(source).__name__)


def _check_objects(schema: Mapping[str, Any]) -> None:
    """Refuse Python objects: Polars gives Arrow their addresses, which differ between equal objects."""
    for name, kind in schema.items():
        if "Object" in str(kind):
            raise UnreadableSource(
                f"{name!r} to be of a simple type", "Python objects of Polars", "cast them to text first."
            )


def reader_of(schema: pa.Schema, names: Sequence[str], open_batches: Callable[[], Iterable[pa.RecordBatch]]) -> Arrow:
    """The needed columns of batches, which are not opened before the first record is needed."""
    places = [schema.names.index(name) for name in names]
    plain = _plain_schema(schema, places)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in open_batches():
            columns = [_as_plain(batch.column(place), kind) for place, kind in zip(places, plain.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=plain)

    return pa.RecordBatchReader.from_batches(plain, batches()) if places else pa.table({})


def _plain_schema(schema: pa.Schema, places: Sequence[int]) -> pa.Schema:
    """Types that mean one thing to Arrow and to DuckDB, whatever one record holds; others are refused."""
    return pa.schema([plain_field(schema.field(place)) for place in places])


def plain_field(field: pa.Field) -> pa.Field:
    """A column in plain form: a dictionary as its words, JSON as text."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json":
        kind = kind.storage_type
    if not _is_plain(pa.field(field.name, kind, metadata=field.metadata)):
        unknown = (field.metadata or {}).get(_EXTENSION, b"").decode("utf-8", "replace")
        got = f"{kind} as {printable(unknown)}" if unknown else str(kind)
        hint = "cast it first; text and numbers always work."
        raise UnreadableSource(f"{field.name!r} to be of a simple type", got, hint)
    return pa.field(field.name, kind)


def _is_plain(field: pa.Field) -> bool:
    """Whether equal values of a type are known to be equal. Of extension types this is not known, even if Python knows
    the type.
    """
    kind, types = field.type, pa.types
    if _EXTENSION in (field.metadata or {}):
        return False
    if types.is_struct(kind):
        return all(map(_is_plain, kind))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_plain(kind.value_field)
    if isinstance(kind, pa.BaseExtensionType):
        return bool(kind.extension_name == "arrow.uuid")
    odd = (types.is_dictionary, types.is_nested, types.is_float16, types.is_decimal256, types.is_run_end_encoded)
    return not any(is_odd(kind) for is_odd in odd)


def _as_plain(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_as_plain(chunk, kind) for chunk in column.chunks], kind)
    if pa.types.is_dictionary(column.type):
        words = pa.DictionaryArray.from_arrays(column.indices, readable(_storage(column.dictionary)))
        return readable(words.dictionary_decode())
    return readable(_storage(column))


def _storage(column: pa.Array) -> pa.Array:
    is_json = isinstance(column.type, pa.BaseExtensionType) and column.type.extension_name == "arrow.json"
    return column.storage if is_json else column


def readable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column with null for every value that would end DuckDB's run, or that DuckDB would accept unchecked.

    Such values are texts that are not UTF-8, and times that do not fit into microseconds.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([readable(chunk) for chunk in column.chunks], column.type)
    if (inside := _inside(column)) is not None and inside.true_count < len(column):
        inside = pc.and_(inside, column.is_valid())
        numbers = pc.if_else(inside, _numbers(column), 0)  # DuckDB also converts the value under a null
        return pc.if_else(inside, numbers.view(column.type), pa.scalar(None, column.type))
    if _is_readable(column):
        return column
    if pa.types.is_struct(column.type):
        fields = [readable(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(column.type), mask=column.is_null())
    if len(column) == 1:
        return pa.nulls(1, column.type)
    middle = len(column) // 2
    return pa.concat_arrays([readable(column[:middle]), readable(column[middle:])])


def _inside(column: pa.Array) -> pa.BooleanArray | None:
    """Which times are of the years 1 to 9999 and which durations fit between them; None for other types."""
    is_date = pa.types.is_date64(column.type)
    if not (is_date or pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)):
        return None
    ticks = 10**3 if is_date else {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
    first, last = (-_SECONDS, _SECONDS) if pa.types.is_duration(column.type) else (_FIRST_SECOND, _LAST_SECOND)
    least, most = max(first * ticks, -(2**63)), min((last + 1) * ticks - 1, 2**63 - 1)
    return pc.and_(pc.greater_equal(_numbers(column), least), pc.less_equal(_numbers(column), most))


def _numbers(column: pa.Array) -> pa.Array:
    """Times as 64-bit integers, also under nulls."""
    return pa.Array.from_buffers(pa.int64(), len(column), [None, column.buffers()[1]], offset=column.offset)


def _is_readable(column: pa.Array) -> bool:
    """Whether DuckDB takes every value, nested values included."""
    kind = column.type
    if pa.types.is_struct(kind):
        return all(map(_is_readable, column.flatten()))
    if pa.types.is_nested(kind):
        return not hasattr(column, "flatten") or _is_readable(column.flatten())
    if (inside := _inside(column)) is not None:
        return bool(inside.true_count == len(column))
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return True
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _from_relation(relation: duckdb.DuckDBPyRelation, needed: Callable[[Sequence[str]], list[str]]) -> Arrow:
    """Arrow has no 128-bit integers, bits or times with a zone. An integer of 39 digits would become another number, so it is
    null.
    """
    from dphist.columns import quote_identifier

    columns, texts = [], {}
    wanted = set(needed(relation.columns))
    for name, kind in zip(relation.columns, relation.types, strict=True):
        quoted = quote_identifier(name)
        target = _IN_ARROW.get(str(kind))
        if name in wanted:
            columns.append(quoted if target is None else f"TRY_CAST({quoted} AS {target}) AS {quoted}")
            texts[name] = list(_texts_in(quoted, kind))
    if not columns:
        return pa.table({})
    _check_collations(relation, texts)
    narrow = relation.project(", ".join(columns))
    schema = narrow.limit(0).to_arrow_table().schema
    return reader_of(schema, schema.names, narrow.to_arrow_reader)


def _texts_in(sql: str, kind: Any) -> Iterator[str]:
    """The texts in a value, as SQL: the value itself, or its elements and fields."""
    from dphist.engines.duckdb.session import quote_text

    if kind.id == "varchar":
        yield sql
    elif kind.id in ("list", "array"):
        yield from _texts_in(f"{sql}[1]", dict(kind.children)["child"])
    elif kind.id == "struct":
        for name, child in kind.children:
            yield from _texts_in(f"struct_extract({sql}, {quote_text(name)})", child)


def _check_collations(relation: duckdb.DuckDBPyRelation, texts: Mapping[str, Sequence[str]]) -> None:
    """Refuse texts with a collation: DuckDB would call equal what is several people here. Only types are read.

    The type of a relation's column does not name a collation, but texts of two collations cannot be compared.
    """
    setting = "COUNT(*) AS nothing, current_setting('default_collation') AS collation"
    usual = relation.limit(0).aggregate(setting).fetchall() == [(0, "")]
    for name, found in texts.items():
        compared = [f"{sql} = ('' COLLATE {other})" for sql in found for other in _COLLATIONS]
        if compared and not (usual and _is_possible(relation, ", ".join(compared))):
            raise UnreadableSource(
                f"{name!r} to be compared byte by byte",
                "text with a collation of DuckDB's",
                "derive a column that spells equal values in one way, such as decode(encode(lower(x))), which has none.",
            )


def _is_possible(relation: duckdb.DuckDBPyRelation, columns: str) -> bool:
    try:
        return bool(relation.project(columns).columns)
    except duckdb.BinderException:
        return False


def _from_pandas(frame: Any, needed: Callable[[Sequence[str]], list[str]]) -> tuple[Arrow, list[str], bool]:
    names = [str(name) for name in frame.columns]
    wanted = needed(names)
    places = [names.index(name) for name in wanted]
    empty = [_column(frame.iloc[:0, place]) for place in places]
    schema = pa.schema([pa.field(name, column.type) for name, column in zip(wanted, empty, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(frame), _ROWS):
            columns = [_column(frame.iloc[start : start + _ROWS, place]) for place in places]
            yield from pa.table(columns, names=wanted).cast(schema).to_batches()

    typed = not any(_is_untyped(frame.dtypes.iloc[place]) for place in places)
    return reader_of(schema, wanted, batches), names, typed


def _column(column: Any) -> pa.Array:
    return _texts(column) if _is_untyped(column.dtype) else _typed(column)


def _is_untyped(dtype: Any) -> bool:
    """Whether a column holds Python objects, perhaps as its categories."""
    return "object" in (str(dtype), str(getattr(getattr(dtype, "categories", None), "dtype", "")))


def _typed(column: Any) -> pa.Array:
    try:
        return readable(pa.Array.from_pandas(column))
    except (pa.ArrowException, UnicodeError, TypeError, ValueError):
        pass
    if str(column.dtype) in ("str", "string", "category"):  # a text that is not Unicode becomes null
        return _texts(column)
    raise UnreadableSource(
        f"a type that Arrow can hold in {column.name!r}", type(column.dtype).__name__, "cast the column first."
    )


def _texts(column: Any) -> pa.Array:
    texts = [None if gone else _text(value) for value, gone in zip(column, column.isna(), strict=True)]
    return pa.array(texts, pa.large_string())


def _text(value: object) -> str | None:
    """One spelling for values that Python calls equal (1, 1.0, True): one person must not become three.

    Values of other types are null, since equal ones may be spelled differently: lists, durations, objects of a user.
    """
    try:
        if isinstance(value, str):
            text = str.__str__(value)
            text.encode()
            return text
        if isinstance(value, numbers.Real | Decimal | np.bool):
            return number_in(value.item() if isinstance(value, np.generic) else value)
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return str(value.astimezone(dt.UTC))
        if isinstance(value, dt.date | uuid.UUID | bytes) or (isinstance(value, dt.time) and value.tzinfo is None):
            return str(value)
    except Exception:
        pass
    return None


def number_in(value: Any) -> str | None:
    """A number of a frame as text; None for NaN and for one with too many digits."""
    if value != value:
        return None
    if value in (float("inf"), float("-inf")):
        return str(float(value))
    if isinstance(value, Decimal) and (
        len(value.as_tuple().digits) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS
    ):
        return None if value else "0"  # its fraction could have millions of digits
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    if Fraction(float(exact)) == exact:
        return repr(float(exact))
    with localcontext(prec=4 * _MOST_DIGITS) as context:
        decimal = Decimal(exact.numerator) / Decimal(exact.denominator)
        return str(exact) if context.flags[Inexact] else format(decimal.normalize(), "f")
