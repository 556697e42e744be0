"""Heads of a ledger's chains, kept in what was published: what shows that a ledger was set back or is another one.

Every release names the entry that paid for it and the entry's hash, which fixes all entries before it. A ledger that was copied
back from a backup, or built anew, lacks it. So `dphist ledger verify --against` and every command that charges compare the
ledger with the newest entry that files name: those that are given, or those in the folders of the command's outputs.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from dphist import stored
from dphist.errors import DphistError, UnusableLedger
from dphist.publish.charge import Receipt
from dphist.publish.files import FOLDER_METADATA, SIDECAR, sidecar

MOST_FILES: Final = 500
"""How many of the newest files in a folder are looked at."""


def newest_receipt(places: Iterable[Path], dataset: str | None = None) -> tuple[Path, Receipt] | None:
    """The highest entry of a data set, or of any, that files name; of a folder, those of the files in it."""
    named = [(path, receipt) for place in places for path, receipt in _receipts(place)]
    of_it = [pair for pair in named if dataset in (None, pair[1].dataset)]
    return max(of_it, key=lambda pair: pair[1].entry, default=None)


def check_heads(ledger: str | Path | None, dataset: str | None, outputs: Iterable[Path | None]) -> None:
    """Refuse to charge a ledger that lacks an entry which a file beside an output names; without outputs, in this folder.

    Without a ledger there is nothing to compare.
    """
    written = [path for path in outputs if path is not None] or [Path("result")]
    folders = dict.fromkeys(Path(os.path.abspath(path)).parent for path in written)
    if ledger is None or dataset is None or (newest := newest_receipt(folders, dataset)) is None:
        return
    from dphist.ledger import Ledger  # the database is loaded only where there is one

    path, receipt = newest
    with Ledger(ledger) as opened:
        if dataset in opened.names() and not opened.has(receipt.dataset, receipt.entry, receipt.hash):
            expected = (
                f"a ledger with entry {receipt.entry:,} of {dataset!r}, hash {receipt.hash}, which {path.name} names"
            )
            hint = (
                "it was set back to an older copy, or is another ledger under the same name. Nothing was charged. Restore the"
                " newest copy; if it is another one on purpose, write to another folder."
            )
            raise UnusableLedger(expected, "one without it", hint)


def _receipts(place: Path) -> Iterator[tuple[Path, Receipt]]:
    """What a published file or folder names, or the files in another folder; what cannot be read names nothing."""
    with suppress(DphistError, OSError):
        if place.is_dir() and not (place / FOLDER_METADATA).is_dir():
            for path in _newest(place):
                yield from _receipts(path)
            return
        files = sorted((place / FOLDER_METADATA).glob("part-*")) if place.is_dir() else [_metadata_file(place)]
        content = b"".join(stored.read_file(file, "metadata") for file in files)
        named = stored.parse(content, place.name).get("ledger")
        if named is not None:
            yield place, stored.build(Receipt, named, place.name)


def _metadata_file(path: Path) -> Path:
    return path if path.name.endswith(SIDECAR) else sidecar(path)


def _newest(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        published = [entry for entry in entries if entry.name.endswith(SIDECAR) or _is_spark(entry)]
    return [Path(entry) for entry in heapq.nlargest(MOST_FILES, published, key=lambda entry: entry.stat().st_mtime)]


def _is_spark(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and os.path.isdir(os.path.join(entry.path, FOLDER_METADATA))
