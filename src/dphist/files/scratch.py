"""Private directories, for spilled data and for outputs that are not whole yet. None outlives its run for long.

A directory belongs to the process that holds the lock of the file `.dphist-lock` in it. The lock goes with the process, however
it ends. So a directory whose lock is free is left from a killed process, and the next run that makes a directory beside it
removes it. Only a private directory of the same user is removed, and no link is followed. The lock file goes last, so that a
removal that is itself killed can be done again. A directory without a lock file is removed only if it is empty.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dphist.files import systems
from dphist.files.interruption import undone

PREFIX: Final = "dphist-private-"
_LOCK: Final = ".dphist-lock"
_TRIES: Final = 100
_FILE: Final = os.O_RDWR | systems.NO_LINK | systems.NO_WAIT


@dataclass(slots=True, eq=False)
class PrivateDirectory:
    """A directory that this process owns until it removes it."""

    path: Path
    _lock: int | None

    def remove(self) -> None:
        """Delete everything. A new name comes first: a late writer cannot bring the directory back under the old one."""
        target = self.path
        with suppress(OSError):
            target = self.path.replace(self.path.with_name(f".{self.path.name}"))
        try:
            _delete(target)
        except OSError:
            with suppress(OSError):  # other messages name this path
                target.replace(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def private_directory(parent: Path | None = None, prefix: str = PREFIX) -> Iterator[Path]:
    """A new directory for the block, which its owner alone can read. Directories of dead processes beside it are removed."""
    with undone(lambda: make_directory(parent, prefix), PrivateDirectory.remove) as directory:
        yield directory.path


def make_directory(parent: Path | None = None, prefix: str = PREFIX) -> PrivateDirectory:
    """A new directory, readable by its owner alone; the caller calls `remove` in the end."""
    place = Path(tempfile.gettempdir()) if parent is None else parent
    remove_dead(place, prefix)
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            handle = os.open(path / _LOCK, _FILE | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:  # another process removed it as empty
            continue
        except BaseException:
            path.rmdir()
            raise
        try:
            systems.lock(handle)
        except BlockingIOError:  # another process is about to remove it
            os.close(handle)
            continue
        except OSError:  # without locks nobody can tell whether this process lives, so nobody may remove the directory
            os.close(handle)
            (path / _LOCK).unlink()
            return PrivateDirectory(path, None)
        if os.fstat(handle).st_nlink:
            return PrivateDirectory(path, handle)
        os.close(handle)
    raise FileExistsError(17, "no directory of this name could be made", str(place))


def remove_dead(parent: Path | None = None, prefix: str = PREFIX) -> None:
    """Remove the directories of dead processes of this user. Directories that cannot be removed stay, without an error."""
    if not systems.HAS_LOCKS:  # nobody can tell which processes live
        return
    place = Path(tempfile.gettempdir()) if parent is None else parent
    names: list[str] = []
    with suppress(OSError):
        names = [name for name in os.listdir(place) if name.startswith((prefix, f".{prefix}"))]
    for name in names:
        with suppress(OSError):
            _remove_if_dead(place / name)


def _remove_if_dead(path: Path) -> None:
    folder = os.open(path, systems.FOLDER)
    try:
        if not _is_private(folder, stat.S_ISDIR):
            return
        try:
            handle = os.open(_LOCK, _FILE, dir_fd=folder)
        except FileNotFoundError:
            path.rmdir()  # an error if it is not empty
            return
        try:
            if _is_private(handle, stat.S_ISREG):
                systems.lock(handle)  # an error if its owner is alive
                _empty(folder)
                path.rmdir()
        finally:
            os.close(handle)
    finally:
        os.close(folder)


def _is_private(handle: int, kind: Callable[[int], bool]) -> bool:
    found = os.fstat(handle)
    return kind(found.st_mode) and systems.is_ours(found) and not found.st_mode & 0o077


def _delete(path: Path) -> None:
    if not systems.HAS_LOCKS:
        shutil.rmtree(path)
        return
    folder = os.open(path, systems.FOLDER)
    try:
        _empty(folder)
    finally:
        os.close(folder)
    path.rmdir()


def _empty(folder: int) -> None:
    """Empty an open directory, the lock file last. Links are deleted, not followed."""
    for name in sorted(os.listdir(folder), key=lambda name: name == _LOCK):
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
