"""CSV and JSON files as Arrow batches: one line is one record, and a bad line costs only itself.

If a quoted field could run past the end of a line, one person's open quote would swallow other people's lines. So lines
are cut first, at every line feed. A CSV line is then read like Python's csv module in strict mode. A line is dropped if
it has an open quote, text after a closing quote, another number of fields than the header, bytes that are not UTF-8, or
more than LONGEST_LINE bytes. Byte order marks are dropped at the start of every line. Neither these marks nor the line
end are bytes of a record, so its place in the file does not decide whether it stays. JSON arrays are refused: their
commas and brackets belong to no record. A file in another encoding becomes UTF-8 first, letter by letter. Bytes that
are no letter there become bytes that are not UTF-8, and cost their line.

Arrow parses ordinary lines in bulk. Odd lines, which most files lack, are parsed one by one.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from dphist.engines.source import ENCODINGS, CsvFormat
from dphist.errors import UnreadableSource

LONGEST_LINE: Final = 2**20
"""Bytes of a record: a line in UTF-8 without marks at its start and without its line end. A longer one is dropped."""

BLOCK: Final = 2**23
_AHEAD: Final = 3
_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_LINE_FEED, _RETURN, _QUOTE = 10, 13, 34
_MARK: Final = b"\xef\xbb\xbf"
_MARKS: Final = re.compile(rb"\A(?:%b)+" % _MARK)
_T = TypeVar("_T")
_U = TypeVar("_U")


def first_line(path: str, form: CsvFormat) -> list[str]:
    """The fields of a file's first line, read from its first bytes: nothing of another line gets in."""
    with _open(path, form.encoding) as stream:
        start = stream.read(size := LONGEST_LINE + len(_MARK + b"\r\n"))
    if form.encoding == "utf-8" and start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnreadableSource("a file in UTF-8", "one with the mark of UTF-16", "add --encoding utf-16.")
    line, feed, _ = start.partition(b"\n")
    line = _record(line)
    if len(line) > LONGEST_LINE or (not feed and len(start) == size):
        raise UnreadableSource("a first line of at most 1 MiB", "a longer one", "is this a text file with lines?")
    try:
        fields = _parse_line(line.decode(), form)
    except UnicodeDecodeError:
        fields = None
    if fields is None:
        others = ", ".join(name for name in ENCODINGS if name != form.encoding)
        raise UnreadableSource(
            f"a first line of text in {form.encoding.upper()} with closed quotes in {Path(path).name}",
            "another one",
            f"if it is in {others}, say so with --encoding.",
        )
    return fields


def csv_batches(path: str, form: CsvFormat, names: Sequence[str], needed: Sequence[str]) -> pa.RecordBatchReader:
    """The needed columns of all records, as text; an empty field is null."""
    schema = pa.schema([(name, pa.large_string()) for name in needed])

    def batches() -> Iterator[pa.RecordBatch]:
        blocks = _lines_of(path, form.header, form.encoding)
        for block in _ahead(lambda block: _parse_block(block, form, names, schema), blocks):
            yield from block

    return pa.RecordBatchReader.from_batches(schema, batches())


def json_lines(path: str, name: str) -> pa.RecordBatchReader:
    """One text per record, in a column of this name."""
    schema = pa.schema([(name, pa.large_string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for lines in _ahead(_as_lines, _lines_of(path, skip_first=False)):
            yield pa.RecordBatch.from_arrays([lines], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def check_no_array(path: str) -> None:
    """Refuse a .json file that is one array, by its first letter. Nothing looks into files named .jsonl or .ndjson."""
    if ".json" not in Path(path).suffixes:
        return
    with _open(path) as stream:
        array = stream.read(LONGEST_LINE).removeprefix(_MARK).lstrip().startswith(b"[")
    if array:
        raise UnreadableSource(
            "JSON files with one record in each line",
            "a file that begins with [, as an array does",
            "write its elements as lines: jq -c '.[]' x.json > x.jsonl. If its lines are records, name it .jsonl.",
        )


@contextmanager
def _open(path: str, encoding: str = "utf-8") -> Iterator[pa.NativeFile | _Transcoded]:
    with pa.input_stream(path, compression=_COMPRESSIONS.get(Path(path).suffix.lower())) as stream:
        yield stream if encoding == "utf-8" else _Transcoded(stream, encoding)


class _Transcoded:
    """A file of any encoding as UTF-8. Bytes that are no letter, or half a letter, become bytes that are not UTF-8."""

    def __init__(self, stream: pa.NativeFile, encoding: str) -> None:
        self._stream, self._ready, self._over = stream, b"", False
        start = stream.read(2) if encoding == "utf-16" else b""
        if encoding == "utf-16":  # without a mark it has the byte order of Windows
            encoding = "utf-16-be" if start == codecs.BOM_UTF16_BE else "utf-16-le"
            start = b"" if start in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE) else start
        wrong = "surrogatepass" if encoding.startswith("utf-16") else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(encoding)(wrong)
        self._take(start)

    def _take(self, read: bytes) -> None:
        self._ready += self._decoder.decode(read).encode("utf-8", "surrogatepass")

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end of the file."""
        while len(self._ready) < size and not self._over:
            read = self._stream.read(size)
            self._take(read)
            if not read:
                self._over = True
                self._ready += b"\xff" if self._decoder.getstate()[0] else b""  # half a letter
        found, self._ready = self._ready[:size], self._ready[size:]
        return found


def _lines_of(path: str, skip_first: bool, encoding: str = "utf-8") -> Iterator[bytes]:
    """Blocks of whole lines, few of them too long. The last line gets a line feed if the file lacks it."""
    with _open(path, encoding) as stream:
        left, skipping = b"", skip_first
        while True:
            read = stream.read(BLOCK)
            block = left + (read or (b"\n" if left and not left.endswith(b"\n") else b""))
            if skipping and block:
                start = block.find(b"\n") + 1
                skipping, block = start == 0, block[start:] if start else b""
            end = block.rfind(b"\n") + 1
            if end:
                yield block[:end]
            left = block[end:]
            if len(left) > LONGEST_LINE and len(left := _MARKS.sub(b"", left)) > LONGEST_LINE + len(b"\r"):
                skipping, left = True, b""  # it is dropped up to its end
            if not read:
                return


def _ahead(work: Callable[[_T], _U], items: Iterable[_T]) -> Iterator[_U]:
    """`map` with a few items in work at once, in order."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting: deque[Future[_U]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _parse_block(block: bytes, form: CsvFormat, names: Sequence[str], schema: pa.Schema) -> list[pa.RecordBatch]:
    ends = np.flatnonzero(_bytes(block) == _LINE_FEED)
    odd = _odd_lines(block, ends, form)
    plain, others = _separate(block, ends, odd)
    found = []
    if plain:
        table = pa_csv.read_csv(
            pa.BufferReader(plain),
            pa_csv.ReadOptions(column_names=list(names), block_size=len(plain), use_threads=False),
            pa_csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote if form.quote is not None else False,
                invalid_row_handler=lambda _: "skip",
            ),
            pa_csv.ConvertOptions(
                column_types={name: pa.large_string() for name in names},
                include_columns=schema.names,
                null_values=["", *form.nulls],
                strings_can_be_null=True,
                check_utf8=False,  # checked above, line by line
            ),
        )
        found += table.to_batches()
    rows = [fields for line in others if (fields := _parse_line(line, form)) is not None and len(fields) == len(names)]
    if rows:
        places = [names.index(name) for name in schema.names]
        columns = [pa.array([form.value(row[place]) for row in rows], pa.large_string()) for place in places]
        found.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return found


def _odd_lines(block: bytes, ends: NDArray[np.intp], form: CsvFormat) -> NDArray[np.intp]:
    """The lines on which Arrow's parser and a strict one might differ, or which no parser should see.

    A quote is in its place if it opens a field, closes a field or stands beside another quote. Every second quote of a
    line closes. A quote elsewhere makes its line odd, and so does a carriage return before the end.
    """
    data = _bytes(block)
    odd = [np.flatnonzero(np.diff(ends, prepend=-1) > LONGEST_LINE)]  # or nearly
    if b"\r" in block:
        returns = np.flatnonzero(data == _RETURN)
        odd.append(np.searchsorted(ends, returns[data[returns + 1] != _LINE_FEED]))
    if form.quote is not None and form.quote.encode() in block:
        quote, delimiter = ord(form.quote), ord(form.delimiter)
        quotes = np.flatnonzero(data == quote)
        line = np.searchsorted(ends, quotes)
        first = np.searchsorted(quotes, np.append(0, ends[:-1] + 1))[line]
        opens = (np.arange(len(quotes)) - first) % 2 == 0
        before = np.where(quotes > 0, data[quotes - 1], _LINE_FEED)
        behind = data[quotes + 1]  # the last byte is a line feed
        opened = (before == delimiter) | (before == _LINE_FEED) | (before == quote)
        closed = (behind == delimiter) | (behind == _LINE_FEED) | (behind == _RETURN) | (behind == quote)
        last_of_line = np.append(line[1:] != line[:-1], True)
        odd.append(line[np.where(opens, ~opened | last_of_line, ~closed)])
    if _MARK in block:  # dropped at every line's start, or the place of a line would matter
        odd.append(np.array([i for i, line in enumerate(_cut(block, ends)) if line.startswith(_MARK)], np.intp))
    try:
        block.decode()
    except UnicodeDecodeError:
        odd.append(np.array([i for i, line in enumerate(_cut(block, ends)) if not _is_utf8(line)], np.intp))
    return np.unique(np.concatenate(odd))


def _separate(block: bytes, ends: NDArray[np.intp], odd: NDArray[np.intp]) -> tuple[bytes, list[str]]:
    """The block without its odd lines, and the odd lines that are text of an allowed length."""
    if not len(odd):
        return block, []
    starts = np.append(0, ends[:-1] + 1)
    kept, others, position = [], [], 0
    for start, end in zip(starts[odd].tolist(), ends[odd].tolist(), strict=True):
        kept.append(block[position:start])
        position = end + 1
        line = _record(block[start:end])
        if len(line) <= LONGEST_LINE and _is_utf8(line):
            others.append(line.decode())
    kept.append(block[position:])
    return b"".join(kept), others


def _parse_line(line: str, form: CsvFormat) -> list[str] | None:
    """The fields of one line; None if it is not one record. Empty lines have no fields."""
    reader = csv.reader(
        [line],
        delimiter=form.delimiter,
        quotechar=form.quote,
        quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the process: lines are read in several threads
    try:
        return next(reader, [])
    except csv.Error:
        return None


def _as_lines(block: bytes) -> pa.Array:
    """The lines of a block as texts. Lines that are too long or not UTF-8 are left out."""
    if _MARK in block:
        block = b"\n".join(_MARKS.sub(b"", line) for line in block.split(b"\n"))
    data = _bytes(block)
    ends = np.flatnonzero(data == _LINE_FEED)
    bad = np.diff(ends, prepend=-1) - 1 - (data[ends - 1] == _RETURN) > LONGEST_LINE
    try:
        block.decode()
    except UnicodeDecodeError:
        bad |= np.array([not _is_utf8(line) for line in _cut(block, ends)])
    if bad.any():
        lines = [line.decode() for line, wrong in zip(_cut(block, ends), bad, strict=True) if not wrong]
        return pa.array(lines, pa.large_string())
    offsets = pa.py_buffer(np.append(0, ends + 1).astype(np.int64))
    return pa.Array.from_buffers(pa.large_string(), len(ends), [None, offsets, pa.py_buffer(block)])


def _record(line: bytes) -> bytes:
    """The bytes of a line that are a record's own."""
    return _MARKS.sub(b"", line).removesuffix(b"\r")


def _cut(block: bytes, ends: NDArray[np.intp]) -> Iterator[bytes]:
    start = 0
    for end in ends.tolist():
        yield block[start:end]
        start = end + 1


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes(block: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(block, np.uint8)
