"""Every file of a folder, with its state.

A folder that Spark wrote counts as one file, and metadata beside a file (`.dphist.json`) belongs to it. Every other file of the
folder and of its folders is examined, whatever its name. Links to folders are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from dphist.errors import DphistError, EngineFailure, InvalidParameter, UnusableLedger
from dphist.files.formats import FOLDER_METADATA, SIDECAR
from dphist.files.outputs import reason_of
from dphist.show.page import PAGES
from dphist.verification.isolated import verify_apart
from dphist.verification.state import INTACT, PAID, UNPAID, UNREADABLE, State, check_head


@dataclass(frozen=True, slots=True)
class Examined:
    """A file, its state, and why."""

    path: Path
    state: State
    reason: str
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether the file is intact and, if a ledger was compared, paid."""
        return self.state in (PAID, INTACT)

    def to_data(self) -> dict[str, object]:
        """The file's state for JSON, in the form of a ledger's checks."""
        words = {"state": self.state, "detail": self.reason}
        return {"check": "file", "file": str(self.path), "passed": self.is_good, **words}

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"  {'ok  ' if self.is_good else 'FAIL'}  {self.path}: {self.state}{why}"


def examine_all(
    places: Sequence[Path], *, ledger: str | Path | None = None, head: str | None = None, apart: bool = False
) -> list[Examined]:
    """The state of every file of these places, which are files or folders. apart: examine each file in its own process."""
    check_head(ledger, head)
    found = [one for place in places for one in _files_in(place)]
    if not found:
        raise InvalidParameter("a released file", "a folder without any file", "name the folder that has them.")

    if apart:
        examine = verify_apart
    else:
        from dphist.verification.verify import verify as examine  # loads Arrow

    def examined(path: Path | Examined) -> Examined:
        if isinstance(path, Examined):
            return path
        try:
            checks = examine(path, ledger=ledger, head=head)
        except (UnusableLedger, EngineFailure):  # the fault is not the file's
            raise
        except DphistError as problem:
            return Examined(path, UNREADABLE, str(problem))
        return Examined(path, checks.state, checks.reason, checks.named)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return _compared(list(pool.map(examined, found)))


def _compared(found: Sequence[Examined]) -> list[Examined]:
    """An entry paid for one table. If files with different tables name it, nobody knows for which it paid."""
    tables: dict[str, set[str]] = {}
    for one in found:
        for entry, table in one.named.items() if one.is_good else ():
            tables.setdefault(entry, set()).add(table)
    twice = {entry for entry, different in tables.items() if len(different) > 1}
    words = "another file of this folder names the same entry and has another table"
    return [
        replace(one, state=UNPAID, reason=words) if one.is_good and twice & one.named.keys() else one for one in found
    ]


def is_folder_of_files(path: Path) -> bool:
    """Whether a path is a folder of files, not a table that Spark wrote."""
    return os.path.isdir(path) and not os.path.isdir(path / FOLDER_METADATA)


def _files_in(place: Path) -> Iterator[Path | Examined]:
    """The files of a place in the order of names. A folder that cannot be listed is unreadable as a whole."""
    if not is_folder_of_files(place):
        yield _table_of(place)
        return
    try:
        inside = sorted(place.iterdir())
    except OSError as problem:
        yield Examined(place, UNREADABLE, f"the folder cannot be listed: {reason_of(problem)}")
        return
    for path in dict.fromkeys(map(_table_of, inside)):
        if path.is_symlink():
            yield path
        else:
            yield from _files_in(path)


def _table_of(path: Path) -> Path:
    """Of metadata beside a file the path of this file, which may be missing; any other path itself."""
    name = path.name.removesuffix(SIDECAR)
    table = path.with_name(name) if name else path
    has_none = name.endswith(SIDECAR) or table.suffix.lower() in PAGES or is_folder_of_files(table)
    return path if has_none or path.is_dir() else table
