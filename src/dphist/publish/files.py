"""Files of a release: the table, its metadata inside (Parquet) and beside it, all or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter
from dphist.publish.digests import FILE, seal, with_content

METADATA_KEY: Final = b"dphist"
FOLDER_METADATA: Final = "_dphist"
"""Where a folder that Spark wrote has its metadata; readers of data skip names that begin with an underscore."""

_FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".ndjson": "json", ".jsonl": "json"}


def format_of(path: Path) -> str:
    """The format that a name asks for."""
    if path.suffix.lower() not in _FORMATS:
        raise InvalidParameter("an output name ending in .parquet, .csv, .json or .ndjson", path.name)
    return _FORMATS[path.suffix.lower()]


def sidecar(path: Path) -> Path:
    """Where the metadata of a file is written beside it."""
    return path.with_name(path.name + ".dphist.json")


def check_writable(path: Path) -> None:
    """Find out before any budget is spent that the result could not be written."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InvalidParameter("an existing folder for the output", str(path.parent), "create it first.")
    if path.is_dir():
        raise InvalidParameter("a file as the output", str(path))
    if not os.access(folder, os.W_OK):
        raise InvalidParameter("a folder that can be written to", str(path.parent))


def check_new_folder(path: Path) -> None:
    """Find out before any budget is spent that Spark would refuse to write; paths on other file systems are left to Spark."""
    if "://" not in str(path) and ":/" not in str(path) and path.exists():
        raise InvalidParameter("a new folder for the output of Spark", str(path), "remove it or choose another name.")


def check_outputs(table: Path | None, report: Path | None) -> None:
    """The same for a table, whose name says its format, and a report."""
    for path in (table, report):
        if path is not None:
            check_writable(path)
    if table is not None:
        format_of(table)


def write_table(table: pa.Table, metadata: dict[str, Any], path: Path) -> None:
    """Write the table and its metadata. A killed run leaves the old files or the new ones, never half of one."""
    kind = format_of(path)
    with _replacement(path) as partial:
        if kind == "parquet":
            metadata = with_content(metadata, table)
            tagged = table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata, allow_nan=False)})
            pq.write_table(tagged, partial, compression="zstd")
        else:
            _copy_as_text(table, partial, kind)
        record = seal({**metadata, FILE: {"name": path.name, "sha256": sha256(partial)}})
        with _replacement(sidecar(path)) as beside:
            beside.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _copy_as_text(table: pa.Table, path: Path, kind: str) -> None:
    import duckdb

    options = "FORMAT csv, HEADER" if kind == "csv" else "FORMAT json"
    with duckdb.connect(":memory:") as connection:
        connection.register("released", table)
        target = str(path).replace("'", "''")
        connection.execute(f"COPY (SELECT * FROM released) TO '{target}' ({options})")  # noqa: S608


@contextmanager
def _replacement(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well, and vanishes when it does not."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.resolve().parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(text: str, path: Path) -> None:
    """Write a text file, all or nothing."""
    with _replacement(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
