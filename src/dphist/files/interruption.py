"""How a command ends when SIGINT, SIGTERM or SIGHUP arrives: at a safe moment, in one sentence, with nothing left behind.

A handler in the main thread, with signal masks around the charge and the rename, is not enough: callbacks of engines swallow
its exception, and Python does not call it while C code runs. A mask on the whole process, with a thread in `sigwait`, does not
work either: processes that we start, such as a JVM, inherit it, and Windows has none. So Python writes the signal to a socket,
and a thread waits there. It takes the lock of steps that must not be cut in two (`held`), undoes all that must not outlive the
process (`undone`), says what was charged, and ends the process with 128 and the number of the signal.

Only commands are watched. In a user's program or notebook signals are the user's, and `held` only delays a KeyboardInterrupt to
the end of the step. In the shell of `dphist sql` SIGINT ends a statement (`raising`), other signals end the process.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

T = TypeVar("T")

UNCHARGED: Final = "Nothing was charged."
_WORDS: Final = {
    getattr(signal, name): words
    for name, words in (("SIGINT", "Interrupted."), ("SIGTERM", "Terminated."), ("SIGHUP", "Hung up."))
    if hasattr(signal, name)
}
_PATIENCE: Final = 20.0
"""Seconds that a signal waits for the end of a step, such as a charge that waits for another process."""

_LOCK: Final = threading.RLock()
_undo: dict[object, Callable[[], object]] = {}
_account: Callable[[], str] | None = None
_watched = False
_raising = False
"""Whether SIGINT is a KeyboardInterrupt, although the command is watched."""
_stopping: Final = threading.Event()
_depth = 0
"""How many steps the main thread is in: they may be nested."""
_written: list[Path] = []
_printed = False


def account_for(words: Callable[[], str]) -> None:
    """Let `words` say from now on what the run has spent: "" for nothing."""
    global _account
    _account = words


def account() -> str:
    """A sentence on what the run has spent so far; "" if it has spent nothing."""
    return "" if _account is None else _account()


def note_output(path: Path) -> None:
    """Note that an output of the watched command is in its place."""
    if _watched:
        _written.append(path)


def first_output() -> str | None:
    """The name of the first output that is in its place."""
    return _written[0].name if _written else None


def note_printed() -> None:
    """Note that a result is about to be printed. After a charge it is one that was paid for."""
    global _printed
    _printed = _printed or (_watched and bool(account()))


def is_printed() -> bool:
    """Whether a result that was paid for has been printed, at least in part."""
    return _printed


@contextmanager
def held() -> Iterator[None]:
    """A step that no signal cuts in two. It should be short: a signal waits for its end."""
    global _depth
    if not _watched:
        with interruptible():
            yield
        return
    go_on()
    with interruptible(), _LOCK:
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
    go_on()


@contextmanager
def undone(make: Callable[[], T], undo: Callable[[T], object]) -> Iterator[T]:
    """Make something that must not outlive the block, nor the process if a signal ends it. `undo` may be called twice."""
    key = object()
    try:
        with held():
            thing = make()
            _undo[key] = partial(undo, thing)
        yield thing
    finally:
        with held():
            if key in _undo:
                _undo[key]()
                del _undo[key]


def undo_at_stop(undo: Callable[[], object]) -> None:
    """Call `undo` if a signal ends the watched command. For things that need no `undo` at its usual end."""
    if _watched:
        _undo[undo] = undo


def go_on() -> None:
    """Wait for ever if a signal is ending the process, so that nothing follows its last sentence. Not inside of a step."""
    while _stopping.is_set() and _depth == 0:
        time.sleep(0.01)


def begin() -> None:
    """Begin a command, or a statement of a shell: nothing is spent, written or printed yet."""
    global _account, _printed
    _account = None
    _written.clear()
    _printed = False


@contextmanager
def raising() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt in the main thread instead of ending the command: a shell goes on."""
    global _raising
    theirs = signal.getsignal(signal.SIGINT)
    if theirs is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    _raising = True
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)
        _raising = False


@contextmanager
def watching(*, last: bool = False) -> Iterator[None]:
    """Watch for signals while a command runs. Signals that are ignored, as under nohup, stay ignored.

    last: the process ends after the command, and no signal cuts this end short: the exit code is the command's.
    """
    global _watched
    if _watched or threading.current_thread() is not threading.main_thread():
        yield
        return
    _undo.clear()
    begin()
    reader, writer = socket.socketpair()  # not a pipe: on Windows Python writes signals to sockets alone
    writer.setblocking(False)
    before = {number: signal.getsignal(number) for number in _WORDS}
    ours = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watch = threading.Thread(target=_wait, args=(reader,), name="dphist signals", daemon=True)
    watch.start()
    _watched = True
    for number in ours:
        signal.signal(number, _leave_it_to_the_watch)
    try:
        yield
    finally:
        go_on()
        with _LOCK:
            _watched = False
            for number in ours:
                signal.signal(number, signal.SIG_IGN if last else before[number])
            signal.set_wakeup_fd(wakeup)
        writer.send(b"\0")
        watch.join()
        reader.close()
        writer.close()
        begin()  # later commands of this process have not written these files


def _leave_it_to_the_watch(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: Python has written the number of the signal to the socket."""


def _wait(reader: socket.socket) -> None:
    while received := reader.recv(1):
        if received == b"\0":
            return
        if (number := received[0]) in _WORDS and not (_raising and number == signal.SIGINT):
            _stop(signal.Signals(number), reader)


def _stop(number: signal.Signals, reader: socket.socket) -> None:
    """End the process. The lock stays taken, so the main thread can no longer charge, write or print."""
    _stopping.set()
    until = time.monotonic() + _PATIENCE
    while not (safe := _LOCK.acquire(timeout=0.05)) and time.monotonic() < until:
        if select.select([reader], [], [], 0)[0]:  # a second signal
            reader.recv(64)
            until = min(until, time.monotonic() + _PATIENCE / 10)
    if not _watched:  # the command has ended meanwhile
        _stopping.clear()
        if safe:
            _LOCK.release()
        return
    try:
        for undo in reversed(list(_undo.values())):
            with suppress(Exception):
                undo()
        words = UNCHARGED
        with suppress(Exception):
            words = account() or UNCHARGED
        _say(f"dphist: {_WORDS[number]} {words}\n")
    finally:
        os._exit(128 + number)


def _say(text: str) -> None:
    """Write to stderr, past its buffer and its lock. Give up after a second if nobody reads."""
    with suppress(OSError, ValueError, AttributeError):
        handle = sys.__stderr__.fileno()  # type: ignore[union-attr]
        data = text.encode(sys.__stderr__.encoding or "utf-8", "backslashreplace")  # type: ignore[union-attr]
        if sys.platform == "win32" or select.select([], [handle], [], 1.0)[1]:
            os.write(handle, data)


@contextmanager
def interruptible(at_once: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Delay KeyboardInterrupt until the block ends, but call `at_once` when SIGINT arrives. Handlers of users stay.

    `at_once` ends a call into an engine that swallows exceptions of Python.
    """
    theirs: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or theirs is not signal.default_int_handler:
        yield
        return
    arrived = []

    def note(_number: int, _frame: FrameType | None) -> None:
        arrived.append(True)
        at_once()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)
        if arrived:
            raise KeyboardInterrupt
