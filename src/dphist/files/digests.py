"""Digests of what is published: of the table's content, and of the metadata that holds it.

They show an edit, unless its author computed them anew. Only a ledger, or a digest that was noted elsewhere, shows that edit,
too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dphist.words import canonical, hash_of

VERSION: Final = 5
"""The version of the metadata's format."""

DIGEST: Final = "digest"
TABLE: Final = "table"
FILE: Final = "file"


def seal(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata with a digest of its other fields."""
    return {**metadata, DIGEST: digest_of(metadata)}


def digest_of(metadata: dict[str, Any]) -> str:
    """SHA-256 of the metadata as canonical JSON, without the digest itself."""
    return hash_of({name: value for name, value in metadata.items() if name != DIGEST})


def with_content(metadata: dict[str, Any], table: pa.Table) -> dict[str, Any]:
    """The sealed metadata with a digest of the table, as a reader of a Parquet file will find it."""
    return seal({**metadata, TABLE: {"sha256": table_digest(as_stored(table))}})


def without_content(metadata: dict[str, Any]) -> dict[str, Any]:
    """The sealed metadata without a digest of the table, which is in many parts."""
    return seal({**metadata, TABLE: None})


def as_stored(table: pa.Table) -> pa.Table:
    """The table with the types that Parquet gives back. It has no seconds, for example."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.schema.empty_table(), sink)
    return table.cast(pq.read_schema(pa.BufferReader(sink.getvalue())).remove_metadata())


def table_digest(table: pa.Table) -> str:
    """SHA-256 of names, types, and the places and values of each column; how they are stored does not matter."""
    fields = [[field.name, str(field.type)] for field in table.schema]
    found = hashlib.sha256(canonical([table.num_rows, fields]).encode())
    for column in table.columns:
        found.update(column.is_valid().to_numpy().astype(np.uint8).tobytes())
        for part in _content(column):
            found.update(part)
    return found.hexdigest()


def _content(column: pa.ChunkedArray) -> Iterator[bytes]:
    """The values as bytes: doubles, 64-bit integers, or lengths and texts. A null has the bytes of 0 or of an empty text."""
    try:
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        if pa.types.is_floating(plain.type):
            yield pc.fill_null(plain.cast(pa.float64()), 0.0).to_numpy().astype("<f8").tobytes()
            return
        if pa.types.is_temporal(plain.type):
            plain = plain.cast(pa.int32() if plain.type.bit_width == 32 else pa.int64())
        if pa.types.is_signed_integer(plain.type):
            yield pc.fill_null(plain.cast(pa.int64()), 0).to_numpy().astype("<i8").tobytes()
            return
        binary = pa.types.is_binary(plain.type) or pa.types.is_large_binary(plain.type)
        texts = (plain if binary else plain.cast(pa.large_string())).cast(pa.large_binary())
    except pa.ArrowException:  # no release has other types today
        texts = pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.large_binary())])
    texts = pc.fill_null(texts, b"")
    yield pc.binary_length(texts).to_numpy().astype("<i8").tobytes()
    yield from (_joined(chunk) for chunk in texts.chunks if len(chunk))


def _joined(texts: pa.LargeBinaryArray) -> bytes:
    """All texts, one behind the other."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, "<i8")[texts.offset : texts.offset + len(texts) + 1]
    return b"" if data is None else data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
