"""Files that only their owner may read, replaced all or nothing, used by one process at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dphist.errors import InvalidParameter

_PARTIAL = ".partial"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that belongs to `path`; refuse at once if another process has it.

    The lock goes with the process: a killed one leaves nothing behind.
    """
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidParameter(
                f"{path.name} to be free", "a lock of another process", "try again when it has ended."
            ) from None
        yield
    finally:
        os.close(handle)


def replace_private(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name, make it durable, and put it in the place of `path`: the old one or the new one.

    Readable by the owner alone from the first byte. When this returns, the new file survives a loss of power.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_PARTIAL, dir=path.parent)  # made with mode 0600
    os.close(handle)
    partial = Path(name)
    try:
        write(partial)
        _sync(partial)
        partial.replace(path)
        _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def make_durable(path: Path) -> None:
    """Let a file that another process put in its place survive a loss of power, before anything is built on it."""
    _sync(path)
    _sync(path.parent)


def check_single_name(path: Path) -> None:
    """Refuse a file that has another name: replacing it under one would leave the other behind, with a budget of its own."""
    if not path.exists():
        return
    if path.is_symlink() or path.stat().st_nlink > 1:
        raise InvalidParameter(
            f"{path.name} to be a file with one name", "one with a second (a link)", "remove the other name first."
        )


def remove_partial(path: Path) -> None:
    """Remove what a killed process left half written; call it under the lock."""
    for left in path.parent.glob(f".{path.name}.*{_PARTIAL}"):
        left.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
