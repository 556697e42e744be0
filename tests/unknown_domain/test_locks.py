"""Whatever is done to files in the middle of a run: a session gives out no more than it promised, a round has one noise.

The process at work is a real one (lock_child.py), stopped at each point where it may be caught.
"""

import fcntl
import multiprocessing
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from lock_child import RESULTS, add, obey, query, start_session, start_stream, use_up

import dphist as dp
from dphist.errors import DphistError, InvalidParameter
from dphist.files.locks import creating, locked, replace_private

QUERY = ["reading", "choosing", "before the first rename", "behind the first rename", "before the second rename",
         "behind the second rename"]  # fmt: skip
ADD = ["reading", "drawing", "before the first rename", "behind the first rename"]


@pytest.fixture(scope="module")
def child() -> Iterator[Connection]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lock_child", "dphist.run.continual", "dphist.engines.duckdb.engine"])
    here, there = context.Pipe()
    process = context.Process(target=obey, args=(there,), daemon=True)
    process.start()
    there.close()
    yield here
    here.send(None)
    process.join()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session and a stream, to be copied: calibrating takes longer than all else."""
    folder = tmp_path_factory.mktemp("begun")
    start_session(str(folder / "s.json"))
    start_stream(str(folder / "stream"))
    return folder


# What is done to the files beside and below `state`


def nothing(state: Path) -> None:
    """Nobody touches anything."""


def remove_locks(state: Path) -> None:
    for path in state.parent.iterdir():
        if path.suffix in (".lock", ".partial"):
            path.unlink()


def replace_lock(state: Path) -> None:
    lock = state.with_name(state.name + ".lock")
    lock.with_suffix(".new").touch()
    lock.with_suffix(".new").rename(lock)


def remove_state(state: Path) -> None:
    state.unlink()


def replace_state(state: Path) -> None:
    """The same content in another file."""
    shutil.copy(state, state.with_suffix(".new"))
    state.with_suffix(".new").rename(state)


def move_folder(state: Path) -> None:
    """A copy of the folder stands where it was."""
    away = state.parent.with_name("away")
    state.parent.rename(away)
    shutil.copytree(away, state.parent)
    remove_locks(state)


def link_state(state: Path) -> None:
    state.with_suffix(".link").hardlink_to(state)
    remove_locks(state)


SABOTAGE = [nothing, remove_locks, replace_lock, remove_state, replace_state, move_folder, link_state]
Sabotage = Callable[[Path], None]


def moments(points: list[str], every: int) -> list[Any]:
    """Each point with each sabotage: in every run each of both with some of the others, in `make test-long` with all."""
    return [
        pytest.param(point, sabotage, marks=[] if (i + j) % every == 0 else [pytest.mark.long])
        for i, point in enumerate(points)
        for j, sabotage in enumerate(SABOTAGE)
    ]


def stopped(child: Connection, work: str, path: Path, point: str) -> None:
    child.send((work, str(path), point))
    assert child.recv() == "stopped"


def resumed(child: Connection) -> object:
    child.send("go")
    said, found = child.recv()
    assert said == "done"
    return found


def given_out(use: Callable[[], int]) -> int:
    try:
        return use()
    except DphistError:
        return 0


@pytest.mark.parametrize(("point", "sabotage"), moments(QUERY, 3))
def test_no_more_results_than_promised(
    tmp_path: Path, child: Connection, begun: Path, point: str, sabotage: Sabotage
) -> None:
    state = tmp_path / "folder" / "s.json"
    state.parent.mkdir()
    shutil.copy(begun / "s.json", state)
    stopped(child, "query", state, point)
    sabotage(state)
    total = sum(given_out(lambda: query(str(state))) for _ in range(2))
    total += resumed(child) or 0  # type: ignore[operator]
    total += given_out(lambda: query(str(state)))
    assert total <= RESULTS
    if sabotage in (nothing, replace_lock):
        assert total == RESULTS  # and no less: what is no harm does no harm


@pytest.mark.parametrize(("point", "sabotage"), moments(ADD, 3))
def test_a_round_has_one_noise(tmp_path: Path, child: Connection, begun: Path, point: str, sabotage: Sabotage) -> None:
    state = tmp_path / "s" / "state.arrow"
    shutil.copytree(begun / "stream", state.parent)
    stopped(child, "add", state.parent, point)
    sabotage(state)
    seen = []
    for turn in range(2):
        for look in (lambda: add(str(state.parent)), lambda: dp.Continual(state.parent).show().table.to_pylist()):
            try:
                seen.append(look())
            except DphistError:
                continue
        if turn == 0:
            seen.append(resumed(child) or [])
    shown = [rows for rows in seen if rows]
    assert all(rows == shown[0] for rows in shown)
    if sabotage in (nothing, replace_lock):
        assert shown


@pytest.mark.parametrize("point", ["before the first rename", "behind the first rename"])
@pytest.mark.parametrize("sabotage", [nothing, replace_lock])
def test_one_of_two_begins(tmp_path: Path, child: Connection, point: str, sabotage: Sabotage) -> None:
    for work, path, state, start in (
        ("start session", tmp_path / "s.json", tmp_path / "s.json", start_session),
        ("start stream", tmp_path / "s", tmp_path / "s" / "state.arrow", start_stream),
    ):
        stopped(child, work, path, point)
        sabotage(state)
        second = given_out(lambda start=start, path=path: start(str(path)))  # type: ignore[misc]
        assert bool(resumed(child)) + bool(second) <= 1


def test_four_processes_and_one_that_removes_what_it_sees(tmp_path: Path) -> None:
    path, promised = tmp_path / "s.json", 15
    start_session(str(path), promised)
    context = multiprocessing.get_context("forkserver")
    ready = context.Barrier(5)
    pipes, processes = [], []
    for seed in range(4):
        here, there = context.Pipe(duplex=False)
        processes.append(context.Process(target=use_up, args=(str(path), seed, ready, there), daemon=True))
        processes[-1].start()
        there.close()
        pipes.append(here)
    ready.wait()
    turn = 0
    while any(process.is_alive() for process in processes) and not all(pipe.poll() for pipe in pipes):
        turn += 1
        endings = (".lock", ".partial") if turn % 8 == 0 else (".lock",)  # without partial files nobody gets anywhere
        for name in os.listdir(tmp_path):
            if name.endswith(endings):
                (tmp_path / name).unlink(missing_ok=True)
        time.sleep(0.001)
    assert sum(pipe.recv() for pipe in pipes) <= promised
    for process in processes:
        process.join()
    assert dp.Session(path).account.left_results >= 0


def test_a_state_that_was_moved_in_the_last_moment_cannot_be_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, old = tmp_path / "s.json", tmp_path / "old"
    start_session(str(state))
    rename = os.rename

    def move_first(source: Path, target: Path) -> None:
        rename(state, old)
        rename(source, target)
        monkeypatch.setattr(os, "rename", rename)

    monkeypatch.setattr(os, "rename", move_first)
    assert query(str(state)) == 5
    old.rename(state)
    with pytest.raises(InvalidParameter, match="one readable JSON object"):  # it was emptied
        query(str(state))


@pytest.mark.parametrize("where", ["partial", "state"])
@pytest.mark.parametrize("use", [query, add])
def test_what_is_put_in_the_place_of_a_new_file_is_not_taken_for_it(
    tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], object], where: str
) -> None:
    """Between the last look and the rename another file gets the name of the new one, or behind it that of the state."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    path, state = ("s.json", "s.json") if use is query else ("stream", "stream/state.arrow")
    other = tmp_path / "other"
    shutil.copy(tmp_path / state, other)
    rename, times = os.rename, []

    def swap(source: Path, target: Path) -> None:
        times.append(target)
        if where == "partial":
            rename(other, source)
        rename(source, target)
        if where == "state":
            rename(other, target)

    monkeypatch.setattr(os, "rename", swap)
    with pytest.raises(InvalidParameter, match="stay in its place"):
        use(str(tmp_path / path))
    assert len(times) == 1  # and nothing more is written


def cut(state: Path) -> None:
    state.write_text("{}")


@pytest.mark.parametrize("change", [cut, link_state, remove_state, replace_state])
def test_what_is_changed_while_it_is_locked_is_refused(
    tmp_path: Path, begun: Path, change: Callable[[Path], None]
) -> None:
    state = tmp_path / "s.json"
    shutil.copy(begun / "s.json", state)
    with locked(state) as file:
        change(state)
        left = {path.name: path.read_text() for path in tmp_path.iterdir()}
        with pytest.raises(InvalidParameter, match="removed, replaced, linked or cut"):
            file.replace(lambda sink: sink.write(b"new"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == left


def test_a_state_that_was_replaced_before_it_was_locked_is_opened_again(
    tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "s.json"
    shutil.copy(begun / "s.json", state)
    flock = fcntl.flock

    def be_slow(handle: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        query(str(state))
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", be_slow)
    assert query(str(state)) == 5
    assert dp.Session(state).account.left_results == 0


def test_a_lock_file_of_an_earlier_version_is_no_harm(tmp_path: Path) -> None:
    start_session(str(tmp_path / "s.json"))
    (tmp_path / "s.json.lock").touch()
    assert query(str(tmp_path / "s.json")) == 5


def test_a_stream_that_is_refused_changes_nothing(tmp_path: Path, begun: Path) -> None:
    folder, mode = tmp_path / "s", 0o755
    shutil.copytree(begun / "stream", folder)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "notes").write_text("mine")
    for path in (folder, plain):
        path.chmod(mode)
    (tmp_path / "file").touch()
    before = {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in folder.rglob("*")}
    with pytest.raises(InvalidParameter, match="never overwritten"):
        start_stream(str(folder))
    asked = {"unit": "user", "by": "page", "rounds": 4, "max_groups": 1, "epsilon": 1.0, "delta": 1e-6}
    for path in (plain, tmp_path / "new"):
        with pytest.raises(InvalidParameter):  # no such ledger
            dp.Continual.start(path, **asked, ledger=tmp_path / "none.db", dataset="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="folder for the stream"):
        start_stream(str(tmp_path / "file"))
    assert {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in folder.rglob("*")} == before
    assert {path.name: path.stat().st_mode & 0o777 for path in (folder, plain)} == {"s": mode, "plain": mode}
    assert not (tmp_path / "new").exists()
    assert os.listdir(plain) == ["notes"]


def test_a_session_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    asked = {"unit": "user", "epsilon": 1.0, "delta": 1e-6, "results": 3, "queries": 2}
    with pytest.raises(InvalidParameter):
        dp.Session.start(tmp_path / "s.json", **asked, ledger=tmp_path / "none.db", dataset="x")  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []
    (tmp_path / "s.json").touch()  # what a killed start leaves
    with pytest.raises(InvalidParameter):
        dp.Session(tmp_path / "s.json")
    assert start_session(str(tmp_path / "s.json")) == 1
    with pytest.raises(InvalidParameter, match="a regular file"):
        start_session(str(tmp_path))


def test_nothing_but_a_regular_file_becomes_a_session_or_a_stream(tmp_path: Path) -> None:
    """As root a device would be replaced."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stream").mkdir()
    os.mkfifo(tmp_path / "stream" / "state.arrow")
    with pytest.raises(InvalidParameter, match="a regular file"):
        start_session(str(tmp_path / "pipe"))
    with pytest.raises(InvalidParameter, match="a regular file"):
        start_stream(str(tmp_path / "stream"))
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "stream" / "state.arrow").is_fifo()


def test_what_replaces_a_state_is_on_disk_before_it_has_the_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power the old state is there or the new one; both are readable by their owner alone."""
    path = tmp_path / "state"
    told: list[tuple[bool, bytes]] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        told.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.read_bytes()))
        sync(handle)

    def write(content: bytes) -> Callable[[Any], None]:
        def to(sink: Any) -> None:
            sink.write(content)

        return to

    monkeypatch.setattr(os, "fsync", noted)
    with creating(path, "state") as file:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        file.replace(write(b"old"))
    replace_private(path, write(b"new"))
    assert told == [(False, b""), (True, b"old"), (False, b"old"), (True, b"new")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
