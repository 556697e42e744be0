"""Rules for the files that commands write. They are checked before a charge, and again when a file is put in its place.

An output is a new file. An existing one is replaced only on request (`overwrite`), and even then never

- a file or folder that the command reads (`inputs`: its source, plan, keys) or another of its outputs,
- a database (a ledger is one), a session, anything in the folder of a stream, or a file that belongs to one of them,
- anything but a regular file with a name of its own: no device, pipe, socket, folder or link.

Files are the same if they are one file on the disk, whatever they are called.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from dphist.errors import InvalidParameter
from dphist.files import systems
from dphist.files.interruption import held, note_output
from dphist.files.scratch import private_directory

OVERWRITE: Final = "choose another name, or add --overwrite (overwrite=True in Python)."
OTHER_NAME: Final = "choose another name."
LATE: Final = "free space, or choose another place."
_NEW: Final = "new"

_STATE: Final = "state.arrow"
_COMPANIONS: Final = ("-journal", "-wal", "-shm", ".lock")
_HEAD: Final = 1 << 20
_KINDS: Final = (
    ("a database, which may be a ledger", re.compile(rb"SQLite format 3\0")),
    ("a session", re.compile(rb'\s*\{\s*"format":\s*"dphist-session"')),
    ("the state of a stream", re.compile(rb'ARROW1.*"dphist-continual"', re.DOTALL)),
)


def check_outputs(*outputs: Path | None, inputs: Iterable[Path] = (), overwrite: bool = False) -> None:
    """Refuse outputs that would destroy something or cannot be written. Leaves nothing behind.

    outputs: the files that one command writes; None counts for nothing. inputs: the files and folders that it reads.
    """
    named = [path for path in outputs if path is not None]
    for number, path in enumerate(named):
        _check_name(path)
        if not path.parent.is_dir():
            raise InvalidParameter("an existing folder for the output", str(path.parent), "create it first.")
        if any(_is_one_name(path, other) for other in named[:number]):
            raise InvalidParameter("a different name for every output", f"{path} twice", OTHER_NAME)
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise InvalidParameter("a regular file as the output", f"{path}, which is something else", OTHER_NAME)
        check_precious(path, inputs)
        if os.path.lexists(path):
            _check_existing(path, overwrite=overwrite)
        _check_writable(path)


def check_precious(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over, into or around files that nobody may lose, even with --overwrite."""
    for read in inputs:
        if is_same(path, read) or _is_within(path, read) or _is_within(read, path):
            raise InvalidParameter("an output that is not read by the same command", str(path), OTHER_NAME)
    for folder in _folders(path):
        if _kind_of(folder / _STATE) is not None:
            raise InvalidParameter("an output outside the folder of a stream", str(path), OTHER_NAME)
    check_companion(path)
    if (kind := _kind_of(path)) is not None:
        raise InvalidParameter("an output that replaces no ledger, session or stream", f"{path}, {kind}", OTHER_NAME)


def check_companion(path: Path) -> None:
    """Refuse a name that belongs to a ledger, a session or a stream: a database would remove our file as its journal."""
    for end in _COMPANIONS:
        owner = path.with_name(path.name.removesuffix(end)) if path.name not in ("", end) else path
        if owner != path and (kind := _kind_of(owner)) is not None:
            raise InvalidParameter(
                "a name that belongs to nothing else", f"{path}, which belongs to {kind}", OTHER_NAME
            )


def near(path: str | Path) -> str:
    """A hint for a file that is not there: files of its folder with almost the same name.

    It names no folder such as user=alice, whose name holds a key of records.
    """
    path = Path(path)
    names: list[str] = []
    with suppress(OSError):
        names = [other.name for other in path.parent.iterdir() if "=" not in other.name and other.name != path.name]
    close = get_close_matches(path.name, sorted(names), n=2, cutoff=0.85)
    folder = Path() if path.is_absolute() else path.parent
    return f"did you mean {' or '.join(repr(str(folder / name)) for name in close)}?" if close else "check the path."


def is_same(one: Path, other: Path) -> bool:
    """Whether two names mean one file, through links and other spellings."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def replacement(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file in a private directory beside `path`. It takes the place of `path` if the block ends well, else it vanishes.

    Without `overwrite` it does not replace a file that appeared meanwhile.
    """
    with replacements(path, overwrite=overwrite) as (partial,):
        yield partial


@contextmanager
def replacements(*paths: Path, overwrite: bool) -> Iterator[list[Path]]:
    """Files in a private directory that take the places of `paths`, in one folder, when the block ends well: all or none."""
    first = paths[0]
    try:
        with private_directory(first.parent, _prefix(first)) as directory:
            (directory / _NEW).mkdir()
            partials = [directory / _NEW / path.name for path in paths]
            yield partials
            for partial in partials:
                with partial.open("rb+") as file:
                    os.fsync(file.fileno())
                partial.chmod(0o666 & ~_umask())
            with held():
                _put_all_in_place(partials, paths, overwrite=overwrite)
                note_output(first)
    except OSError as problem:
        raise InvalidParameter("an output that can be written", f"{first} ({reason_of(problem)})", LATE) from None


def reason_of(problem: OSError) -> str:
    """Why the system refused, in its own words."""
    return (os.strerror(problem.errno) if problem.errno else problem.strerror) or type(problem).__name__


def write_text(text: str, path: Path, *, inputs: Iterable[Path] = (), overwrite: bool = False) -> None:
    """Check and write a text file, all or nothing."""
    check_outputs(path, inputs=inputs, overwrite=overwrite)
    with replacement(path, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8")


def as_path(path: str | Path) -> Path:
    """A path for the system. Refuse a NUL in it, which no name of a file can have."""
    if "\0" in str(path):
        raise InvalidParameter("a path", "one with a NUL in it", OTHER_NAME)
    return Path(path)


def _check_name(path: Path) -> None:
    """Refuse a name that is not UTF-8 before the charge: most writers would refuse it after."""
    as_path(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidParameter("an output with a name in UTF-8", ascii(str(path)), OTHER_NAME) from None


def _check_existing(path: Path, *, overwrite: bool) -> None:
    if not overwrite:
        raise InvalidParameter("a new file for the output", f"{path}, which exists", OVERWRITE)
    folder = path.parent.stat()
    theirs = not (systems.is_administrator() or systems.is_ours(folder) or systems.is_ours(path.stat()))
    if folder.st_mode & stat.S_ISVTX and theirs:
        raise InvalidParameter("an output that you may replace", f"{path}, which is someone else's", OTHER_NAME)


def _check_writable(path: Path) -> None:
    """Write a file as a test: rights, quotas, read-only disks and long names have too many rules to ask about."""
    try:
        with private_directory(path.parent, _prefix(path)) as directory:
            (directory / path.name).touch()
            (directory / path.name).write_bytes(b"\0")
    except OSError as problem:
        raise InvalidParameter("an output that can be written", f"{path} ({reason_of(problem)})") from None


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _put_all_in_place(partials: list[Path], paths: tuple[Path, ...], *, overwrite: bool) -> None:
    """Put files in their places, the last first: the metadata of a table is there before the table."""
    done: list[Path] = []
    try:
        for partial, path in reversed(list(zip(partials, paths, strict=True))):
            if overwrite:
                partial.replace(path)
            else:
                _put_in_place(partial, path)
            done.append(path)
    except BaseException:
        for path in done if not overwrite else ():
            path.unlink(missing_ok=True)
        raise


def _put_in_place(partial: Path, path: Path) -> None:
    """Give a file a name that is free. A hard link does it in one step and fails where there is a file."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise InvalidParameter("a new file for the output", f"{path}, which exists", OVERWRITE) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise InvalidParameter("a new file for the output", f"{path}, which exists", OVERWRITE) from None
        partial.replace(path)


def _is_one_name(one: Path, other: Path) -> bool:
    """Whether two outputs would be one file, even on a file system that ignores upper and lower case."""
    return is_same(one, other) or os.path.realpath(one).casefold() == os.path.realpath(other).casefold()


def _is_within(path: Path, folder: Path) -> bool:
    return folder.is_dir() and any(is_same(parent, folder) for parent in Path(os.path.realpath(path)).parents)


def _folders(path: Path) -> tuple[Path, ...]:
    """Paths where the state of a stream would be, if `path` belonged to one: a stream has a folder for its rounds."""
    parents = Path(os.path.realpath(path)).parents
    return (path, *parents[:2])


def _kind_of(path: Path) -> str | None:
    """Which file of dphist this is, by its first bytes; a file that cannot be read may be any."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as opened:
            head = opened.read(_HEAD)
    except OSError:
        return "a file that cannot be read"
    return next((kind for kind, begins in _KINDS if begins.match(head)), None)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
