"""Functions that Windows lacks: locks and owners of files, limits of a process, settings of terminals.

Linux and macOS have all; the rest of the package runs on Windows, too. Without locks a release cleans up after itself, but not
after a run that was killed, and there are neither sessions nor streams, whose budgets rest on locks.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Final

try:
    import fcntl
    import resource
    import termios

    HAS_LOCKS = True
except ImportError:
    HAS_LOCKS = False

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of `open`: follow no link, and let no other process inherit the descriptor."""
NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
FOLDER: Final = os.O_RDONLY | NO_LINK | getattr(os, "O_DIRECTORY", 0)


def lock(handle: int) -> None:
    """Take the lock of an open file, which goes with the process.

    Raises:
        BlockingIOError: Another process has it.
        OSError: There are no locks here.
    """
    if not HAS_LOCKS:
        raise OSError(errno.ENOTSUP, "no locks of files")
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to the user of this process; where files have no owners, it does."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def is_administrator() -> bool:
    """Whether this process may ignore the rights of files."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def no_core_dumps() -> None:
    """Let no crash of this process, or of processes that it starts, write its memory to a file, as far as a limit can.

    The limit is soft: a user who looks for a bug may raise it again.
    """
    if HAS_LOCKS:
        _lower(resource.RLIMIT_CORE, 0)


def limit_process(seconds: float, memory: int) -> None:
    """Let the system end this process beyond so much processor time and memory, counted from now; as far as it can."""
    if not HAS_LOCKS:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    no_core_dumps()
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 1)
    signal.alarm(int(60 + 10 * seconds) + 1)  # a process that only waits uses no processor time
    try:
        with open("/proc/self/statm") as status:
            pages = int(status.read().split()[0])
    except OSError:  # without /proc there is no limit on memory
        return
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)


def _lower(what: int, most: int) -> None:
    """Set a soft limit, or the hard limit if that is lower."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def terminal_settings(handle: int) -> Callable[[], None]:
    """A function that brings a terminal back to its settings of now. It does nothing if there is no terminal."""
    if not HAS_LOCKS or not os.isatty(handle):
        return lambda: None
    now = termios.tcgetattr(handle)
    return lambda: termios.tcsetattr(handle, termios.TCSANOW, now)
