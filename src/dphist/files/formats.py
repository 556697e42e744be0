"""Files of a release: the table, with its metadata in it (Parquet) and beside it. All of them are written, or none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter
from dphist.files.digests import FILE, seal, with_content, without_content
from dphist.files.interruption import held, note_output, undone
from dphist.files.outputs import OTHER_NAME, OVERWRITE, check_outputs, check_precious, replacements
from dphist.files.spreadsheet import ESCAPED, escaped_table

if TYPE_CHECKING:
    from dphist.engines.base import StoredTable

METADATA_KEY: Final = b"dphist"
FOLDER_METADATA: Final = "_dphist"
"""The metadata in a folder of Spark. Readers of data skip names that begin with an underscore."""

SIDECAR: Final = ".dphist.json"
"""The suffix of metadata beside a file."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".ndjson": "json", ".jsonl": "json"}


def format_of(path: Path) -> str:
    """The format of a path, by its suffix."""
    if path.suffix.lower() not in _FORMATS:
        hint = "for example out.parquet, or out.csv for a spreadsheet."
        raise InvalidParameter("a name ending in .parquet, .csv, .json or .ndjson", path.name, hint)
    return _FORMATS[path.suffix.lower()]


def sidecar(path: Path) -> Path:
    """The path of the metadata beside a file."""
    return path.with_name(path.name + SIDECAR)


def local(address: str) -> Path | None:
    """An address as a path of this machine; None if it is on another file system."""
    if address.startswith("file:"):
        return Path(unquote(urlsplit(address).path))
    return None if _SCHEME.match(address) and not os.path.lexists(address) else Path(address)


def check_table(
    table: Path | None, report: Path | None, *, inputs: Iterable[Path] = (), overwrite: bool = False
) -> None:
    """Refuse outputs (the table, the metadata beside it, the report) that cannot be written or would destroy something."""
    if table is not None:
        format_of(table)
    beside = None if table is None else sidecar(table)
    check_outputs(table, beside, report, inputs=inputs, overwrite=overwrite)


def check_folder(
    folder: str | Path | None, report: Path | None, *, inputs: Iterable[Path] = (), overwrite: bool = False
) -> None:
    """Refuse a folder or a report that could not be written. Spark writes a new folder, or with `overwrite` one of dphist.

    Spark itself checks folders on other file systems.
    """
    here = None if folder is None else local(str(folder))
    if folder is not None:
        format_of(Path(folder))
    if here is not None:
        check_precious(here, inputs)
        if os.path.lexists(here):
            if here.is_symlink() or not (here / FOLDER_METADATA).is_dir():
                got = f"{here}, which is something else"
                raise InvalidParameter("a new folder for the output, or one that dphist wrote", got, OTHER_NAME)
            if not overwrite:
                raise InvalidParameter("a new folder for the output", f"{here}, which exists", OVERWRITE)
        # Spark makes missing folders. So the test file, of a new name, goes into the last folder that exists.
        existing = next(parent for parent in Path(os.path.abspath(here)).parents if parent.exists())
        check_outputs(existing / f"{here.name}.{os.getpid()}")
    kept = () if here is None else (here,)
    check_outputs(report, inputs=(*inputs, *kept), overwrite=overwrite)


def write_table(
    table: pa.Table,
    metadata: dict[str, Any],
    path: Path,
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    raw_csv: bool = False,
) -> None:
    """Write the table and its metadata. A killed run leaves the old files or the new ones, never half of one."""
    check_table(path, None, inputs=inputs, overwrite=overwrite)
    kind = format_of(path)
    if escapes(kind, raw_csv=raw_csv) and not (harmless := escaped_table(table)).equals(table):
        table, metadata = harmless, {**metadata, ESCAPED: True}
    with replacements(path, sidecar(path), overwrite=overwrite) as (partial, beside):
        if kind == "parquet":
            metadata = with_content(metadata, table)
            tagged = table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata, allow_nan=False)})
            with partial.open("wb") as sink:
                pq.write_table(tagged, sink, compression="zstd")
        else:
            _copy_as_text(table, partial, kind)
        record = seal({**metadata, FILE: {"name": path.name, "sha256": sha256(partial)}})
        beside.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def escapes(kind: str, *, raw_csv: bool) -> bool:
    """Whether texts are written so that no spreadsheet runs them."""
    return kind == "csv" and not raw_csv


def _copy_as_text(table: pa.Table, path: Path, kind: str) -> None:
    import duckdb

    options = "FORMAT csv, HEADER" if kind == "csv" else "FORMAT json"
    path.touch()
    with duckdb.connect(":memory:") as connection:
        connection.register("released", table)
        target = str(path).replace("'", "''")
        try:
            connection.execute(f"COPY (SELECT * FROM released) TO '{target}' ({options}, USE_TMP_FILE false)")  # noqa: S608
        except duckdb.IOException:  # its words change from version to version
            raise OSError(errno.EIO if shutil.disk_usage(path.parent).free else errno.ENOSPC, "") from None


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def write_folder(
    table: StoredTable,
    metadata: dict[str, Any],
    path: str,
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    raw_csv: bool = False,
) -> None:
    """Let an engine write a folder of files with the metadata in it. The one before it comes back if that fails."""
    kind = format_of(Path(path))
    check_folder(path, None, inputs=inputs, overwrite=overwrite)
    escape = escapes(kind, raw_csv=raw_csv)
    text = json.dumps(without_content({**metadata, **({ESCAPED: True} if escape else {})}), allow_nan=False)
    with out_of_the_way(local(path)):
        table.save(path, kind, text, FOLDER_METADATA, escape=escape)


@contextmanager
def out_of_the_way(folder: Path | None) -> Iterator[None]:
    """Put a folder aside while another is written in its place; it comes back if that fails, and is deleted if not."""
    if folder is None:
        yield
        return
    done = False

    def put_aside() -> Path | None:
        if not folder.exists():
            return None
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        folder.rename(aside / folder.name)
        return aside

    def put_back(aside: Path | None) -> None:
        if not done:
            shutil.rmtree(folder, ignore_errors=True)
            if aside is not None and (aside / folder.name).exists():
                (aside / folder.name).rename(folder)
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)

    with undone(put_aside, put_back):
        yield
        with held():
            done = True
            note_output(folder)
