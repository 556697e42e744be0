"""Arrow tables in private files, with a checksum behind them: Arrow's reader is no judge of damaged bytes."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Final

import pyarrow as pa

from dphist.errors import InvalidParameter

_END: Final = b"ARROW1"
_SEAL: Final = b"\ndphist-sha256:"
_LENGTH: Final = len(_SEAL) + 64


class _Hashed:
    """A sink that remembers the digest of what went through."""

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()
        self._length = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._length += len(data)
        return self._sink.write(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Nothing is kept back."""

    def seal(self) -> None:
        self._sink.write(_SEAL + self._hash.hexdigest().encode())


def write_sealed(table: pa.Table, sink: BinaryIO) -> None:
    """The table as an Arrow file, and SHA-256 over all of it."""
    hashed = _Hashed(sink)
    with pa.ipc.new_file(hashed, table.schema) as writer:
        writer.write_table(table)
    hashed.seal()


def read_sealed(content: bytes, source: str) -> pa.Table:
    """The table. Nothing is parsed before the checksum is compared, so that every flipped bit is told."""
    damaged = InvalidParameter(f"an undamaged file {source}", "another one", "it is not what dphist wrote.")
    if content.endswith(_END):
        hint = "it was cut off, or an older dphist wrote the file; start a new stream."
        raise InvalidParameter(f"the checksum of {source}", "none", hint)
    body = memoryview(content)[:-_LENGTH]
    if content[-_LENGTH:] != _SEAL + hashlib.sha256(body).hexdigest().encode():
        raise damaged
    try:
        table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
        table.validate(full=True)
        _ = table.column_names  # may be no UTF-8
    except (pa.ArrowException, OSError, ValueError):
        raise damaged from None
    return table
