"""Heads of a ledger's chains in published files: they show that a ledger was set back or is another one.

Every release names the entry that paid for it and the entry's hash, which fixes all entries before it. A ledger that was
copied back from a backup, or built anew, lacks the entry. So `dphist ledger verify --against` and every command that charges
look in the ledger for the entries that published files name: given files, or files in the folders of the command's outputs.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dphist.errors import DphistError, UnusableLedger
from dphist.files import stored
from dphist.files.formats import FOLDER_METADATA, METADATA_KEY, SIDECAR, sidecar
from dphist.ledger.charge import Receipt

if TYPE_CHECKING:
    from dphist.ledger import Ledger

MOST_FILES: Final = 2_000
"""How many of the newest files in a folder are looked at."""

Named = tuple[Path, Receipt]


def receipts_in(places: Iterable[Path], dataset: str | None = None) -> list[Named]:
    """The entries that published files name, the newest first. A folder stands for its files. dataset: None for all."""
    named = [pair for place in places for pair in _receipts(place) if dataset in (None, pair[1].dataset)]
    return sorted(named, key=lambda pair: -pair[1].entry)


def first_missing(ledger: Ledger, named: Iterable[Named]) -> Named | None:
    """The newest named entry that the ledger lacks or has under another hash; None if it has all."""
    known: dict[tuple[str, int, str], bool] = {}
    for path, receipt in named:
        key = (receipt.dataset, receipt.entry, receipt.hash)
        if key not in known:
            known[key] = ledger.has(*key)
        if not known[key]:
            return path, receipt
    return None


def check_heads(ledger: str | Path | None, dataset: str | None, outputs: Iterable[Path | None]) -> None:
    """Refuse a ledger that lacks an entry which a file beside an output names. Without outputs this folder is searched.

    Without a ledger there is nothing to compare.
    """
    if ledger is None or dataset is None:
        return
    written = [path for path in outputs if path is not None] or [Path("result")]
    folders = dict.fromkeys(Path(os.path.abspath(path)).parent for path in written)
    if not (named := receipts_in(folders, dataset)):
        return
    from dphist.ledger import Ledger  # the database is loaded only where there is one

    with Ledger(ledger) as opened:
        missing = first_missing(opened, named) if dataset in opened.names() else None
    if missing is not None:
        path, receipt = missing
        expected = f"a ledger with entry {receipt.entry:,} of {dataset!r}, hash {receipt.hash}, which {path.name} names"
        hint = (
            "it was set back to an older copy, or is another ledger under the same name. Nothing was charged. Restore the"
            " newest copy; if it is another one on purpose, write to another folder."
        )
        raise UnusableLedger(expected, "one without it", hint)


def _receipts(place: Path) -> Iterator[Named]:
    """The entry that a published file or folder names, or those of another folder's files. An unreadable file names none."""
    if place.is_dir() and not (place / FOLDER_METADATA).is_dir():
        for path in _newest(place):
            yield from _receipts(path)
        return
    with suppress(DphistError, OSError, pa.ArrowException):
        if (content := _metadata(place)) is not None:
            named = stored.parse(content, place.name).get("ledger")
            if named is not None:
                yield place, stored.build(Receipt, named, place.name)


def _metadata(place: Path) -> bytes | None:
    """The metadata of a folder of Spark, of a file with metadata beside it, or of a Parquet file with metadata inside."""
    if place.is_dir():
        files = sorted((place / FOLDER_METADATA).glob("part-*"))
        return b"".join(stored.read_file(file, "metadata") for file in files)
    beside = place if place.name.endswith(SIDECAR) else sidecar(place)
    if beside.is_file():
        return stored.read_file(beside, "metadata")
    inside: dict[bytes, bytes] = pq.read_metadata(place).metadata or {}
    return inside.get(METADATA_KEY)


def _newest(folder: Path) -> list[Path]:
    """The newest published files of a folder, each once: the metadata beside a file, or a Parquet file without such."""
    aged: list[tuple[float, Path]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # a link to nowhere, or a file that is gone by now
                if entry.name.endswith(SIDECAR) or _is_alone(entry):
                    aged.append((entry.stat().st_mtime, Path(entry)))
    return [path for _, path in heapq.nlargest(MOST_FILES, aged)]


def _is_alone(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir():
        return os.path.isdir(os.path.join(entry.path, FOLDER_METADATA))
    return entry.name.endswith(".parquet") and entry.is_file() and not os.path.lexists(sidecar(Path(entry)))
