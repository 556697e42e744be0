"""Files that only their owner may read, replaced all or nothing, used by one process at a time.

The lock of a state is on the state itself, not on a file beside it that can be removed. A replacement is a new file: it is
locked before it gets the name, and the old file stays locked until then. Whoever opens the name therefore finds a locked file,
or a file that has lost the name. Before and after each replacement the name must belong to the locked file.

This does not notice an old copy that is put back while nobody uses the state. Files cannot know that they were copied.
"""

from __future__ import annotations

import glob
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from dphist.errors import InvalidParameter
from dphist.files import systems
from dphist.files.interruption import held, undone
from dphist.files.outputs import check_companion

Write = Callable[[BinaryIO], object]

_PARTIAL: Final = ".partial"
_TRIES: Final = 100
_OPEN: Final = os.O_RDWR | systems.NO_LINK


class LockedFile:
    """A file that this process alone may replace. `locked` and `creating` make one and end it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self._size = os.fstat(handle).st_size

    def read(self) -> bytes:
        """The content of the locked file, whatever file has its name by now."""
        with open(self._handle, "rb", closefd=False) as opened:
            opened.seek(0)
            return opened.read()

    def check(self) -> None:
        """Refuse if the file was removed, replaced, linked or cut since it was locked."""
        held = os.fstat(self._handle)
        if not (_names(self.path, self._handle) and held.st_nlink == 1 and held.st_size == self._size):
            raise _changed(self.path)

    def make_durable(self) -> None:
        """Make the file's name survive a loss of power: another process may have renamed it and been killed."""
        os.fsync(self._handle)
        _sync_folder(self.path.parent)
        self.check()

    def replace(self, write: Write, note: Callable[[], object] = lambda: None) -> None:
        """Put a new file in the place of this one, all or nothing, and hold its lock from then on.

        When this returns, the new file survives a loss of power. If it raises, either file may have the name. `note` is
        called as soon as the new file has it.
        """
        before = self._handle
        with _partial(self.path) as (partial, handle):
            systems.lock(handle)  # before the rename, so that a process that opens the new name has to wait
            _fill(handle, write)
            self.check()
            with held():
                os.rename(partial, self.path)
                self._handle, self._size = os.dup(handle), os.fstat(handle).st_size  # copies keep the lock
                note()
        try:
            _sync_folder(self.path.parent)
            self.check()
            if os.fstat(before).st_nlink:  # somebody moved it after the first check, and could bring it back
                os.ftruncate(before, 0)
        finally:
            os.close(before)

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._handle)


@contextmanager
def locked(path: Path) -> Iterator[LockedFile]:
    """Hold the lock of the file at `path`; refuse at once if another process has it.

    The lock goes with the process. A killed process leaves at most a file half written, which is removed here.
    """
    check_single_name(path)
    file = _lock(path, _OPEN)
    try:
        file.check()
        remove_partial(path)
        yield file
    finally:
        file.close()


@contextmanager
def creating(path: Path, what: str) -> Iterator[LockedFile]:
    """Hold a new, empty file for `what` (a session, a stream). Unless `replace` fills it, it is removed again.

    Only one process gets the file. An empty file without a lock is left from a killed process, and is taken over.
    """
    check_single_name(path)
    check_companion(path)
    with undone(lambda: _lock(path, _OPEN | os.O_CREAT), _remove_empty) as file:
        try:
            if file.read():
                hint = f"a {what} is never overwritten; choose another name."
                raise InvalidParameter(f"a new place for the {what}", str(path), hint)
            file.check()
            remove_partial(path)
            yield file
        except BaseException:
            _remove_empty(file)
            raise
        finally:
            file.close()


def replace_private(path: Path, write: Write) -> None:
    """Write a file that belongs to a state, under the lock of that state.

    Only the owner can ever read it. A loss of power leaves the old file or the new one.
    """
    with _partial(path) as (partial, handle):
        _fill(handle, write)
        os.rename(partial, path)
        _sync_folder(path.parent)


def check_single_name(path: Path) -> None:
    """Refuse a file that has a second name: a replacement would leave the old file under it, with a budget of its own."""
    try:
        linked, regular = path.is_symlink() or path.stat().st_nlink > 1, path.is_file()
    except FileNotFoundError:
        return
    if not regular:
        raise InvalidParameter(f"{path.name} to be a regular file", "a folder, a device or something else")
    if linked:
        raise InvalidParameter(
            f"{path.name} to be a file with one name", "one with a second (a link)", "remove the other name first."
        )


def remove_partial(path: Path) -> None:
    """Remove files that a killed process left half written. Call it under the lock."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{_PARTIAL}"):
        left.unlink(missing_ok=True)


def _lock(path: Path, flags: int) -> LockedFile:
    """Open and lock a file, and check that it still has the name: another process may have replaced it meanwhile."""
    if not systems.HAS_LOCKS:
        raise InvalidParameter(
            "a system with locks of files", "one without", "keep sessions and streams on Linux or macOS."
        )
    for _ in range(_TRIES):
        try:
            handle = os.open(path, flags | systems.NO_WAIT, 0o600)  # `open` would wait for the other end of a pipe
        except (FileNotFoundError, IsADirectoryError):
            raise InvalidParameter(f"a file {path.name}", "none", "was it removed or moved?") from None
        try:
            systems.lock(handle)
            if _names(path, handle):
                return LockedFile(path, handle)
        except BlockingIOError:
            os.close(handle)
            break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise InvalidParameter(f"{path.name} to be free", "a lock of another process", "try again when it has ended.")


def _names(path: Path, handle: int) -> bool:
    try:
        opened = os.fstat(handle)
        return stat.S_ISREG(opened.st_mode) and os.path.samestat(path.lstat(), opened)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _changed(path: Path) -> InvalidParameter:
    return InvalidParameter(
        f"{path.name} to stay in its place while it is in use",
        "one that was removed, replaced, linked or cut",
        "nothing was given out. If it was moved, move it back; never put an old copy in its place.",
    )


@contextmanager
def _partial(path: Path) -> Iterator[tuple[Path, int]]:
    """A file beside `path` that the owner alone can read. It is removed at the end unless it was renamed."""

    def make() -> tuple[Path, int]:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_PARTIAL, dir=path.parent)  # with mode 0600
        return Path(name), handle

    try:
        with undone(make, lambda partial: partial[0].unlink(missing_ok=True)) as (partial, handle):
            try:
                yield partial, handle
            finally:
                os.close(handle)
    except FileNotFoundError:  # somebody removed the partial file, or moved its folder
        raise _changed(path) from None
    except OSError as problem:  # an error such as a full disk has no file name
        problem.filename = problem.filename or str(path)
        raise


def _fill(handle: int, write: Write) -> None:
    """Write through the descriptor: by now the name may belong to another file, which others can read."""
    with open(handle, "wb", closefd=False) as sink:
        write(sink)
    os.fsync(handle)


def _remove_empty(file: LockedFile) -> None:
    with suppress(InvalidParameter, OSError):
        if not file.read():
            file.check()
            file.path.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
