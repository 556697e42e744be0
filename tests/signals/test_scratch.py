"""Private directories: the next start removes what dead processes left, and never what is somebody else's or in use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import dphist as dp
from dphist.engines.duckdb.session import session
from dphist.engines.query import PerformanceSettings
from dphist.files.outputs import check_outputs, replacement
from dphist.files.scratch import make_directory, private_directory, remove_dead


def in_a_process(work: Callable[[], object]) -> int:
    """Do it in a process that ends as a killed one does, without cleaning up."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def spill(parent: Path, prefix: str = "dphist-private-") -> None:
    directory = make_directory(parent, prefix).path
    (directory / "spill").mkdir()
    (directory / "spill" / "records").write_text("private")
    (directory / "link").symlink_to(parent.parent)


def test_what_a_dead_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir()
    other.write_text("not ours to remove")
    assert in_a_process(lambda: spill(place)) == 0
    assert len(list(place.iterdir())) == 1
    with private_directory(place) as directory:
        assert list(place.iterdir()) == [directory]
        assert directory.stat().st_mode & 0o777 == 0o700
        remove_dead(place)
        assert directory.exists(), "its owner is alive"
    assert list(place.iterdir()) == []
    assert other.exists(), "links are not followed"


def test_a_removal_that_was_killed_can_be_done_again(tmp_path: Path) -> None:
    def half_removed() -> None:
        directory = make_directory(tmp_path)
        (directory.path / "spill").write_text("private")
        directory.path = directory.path.replace(directory.path.with_name(f".{directory.path.name}"))

    assert in_a_process(half_removed) == 0
    remove_dead(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_lock_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make_directory(tmp_path)
    (directory.path / "a").write_text("private")
    (directory.path / "z").write_text("private")
    removed: list[str] = []
    unlink = os.unlink

    def note(name: str, *, dir_fd: int) -> None:
        removed.append(name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", note)
    directory.remove()
    assert sorted(removed) == [".dphist-lock", "a", "z"]
    assert removed[-1] == ".dphist-lock"


def test_what_nobody_proves_to_be_dead_stays(tmp_path: Path) -> None:
    place, target = tmp_path / "place", tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / ".dphist-lock").touch(mode=0o600)
    (target / "mine").write_text("mine")
    place.mkdir()
    for name, mode, lock in (("open", 0o755, True), ("unlocked", 0o700, False), ("linked-lock", 0o700, None)):
        folder = place / f"dphist-private-{name}"
        folder.mkdir(mode=mode)
        (folder / "mine").write_text("mine")
        if lock:
            (folder / ".dphist-lock").touch(mode=0o600)
        if lock is None:
            (folder / ".dphist-lock").symlink_to(target / ".dphist-lock")
    (place / "dphist-private-link").symlink_to(target)
    (place / "dphist-private-file").write_text("mine")
    os.mkfifo(place / "dphist-private-fifo")
    (place / "else").mkdir(mode=0o700)
    (place / "else" / ".dphist-lock").touch(mode=0o600)
    if os.geteuid() == 0:
        (place / "dphist-private-theirs").mkdir(mode=0o700)
        (place / "dphist-private-theirs" / ".dphist-lock").touch(mode=0o600)
        os.chown(place / "dphist-private-theirs", 12345, 12345)
    before = sorted(tmp_path.rglob("*"))
    (place / "dphist-private-empty").mkdir(mode=0o700)
    remove_dead(place)
    assert sorted(tmp_path.rglob("*")) == before, "but for the empty one"


def test_who_makes_and_who_removes_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    def work() -> None:
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            with private_directory(tmp_path) as directory:
                (directory / "file").write_text("here")
                remove_dead(tmp_path)
                assert (directory / "file").read_text() == "here"

    def several() -> None:
        pids = []
        for _ in range(4):
            if (pid := os.fork()) == 0:
                code = 1
                try:
                    work()
                    code = 0
                finally:
                    os._exit(code)
            pids.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4

    assert in_a_process(several) == 0
    remove_dead(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_half_an_output_is_removed_by_the_next_run(tmp_path: Path) -> None:
    def half() -> None:
        with replacement(tmp_path / "out.csv", overwrite=False) as partial:
            partial.write_text("half")
            os._exit(0)

    assert in_a_process(half) == 0
    assert [path.name.startswith(".out.csv.") for path in tmp_path.iterdir()] == [True]
    check_outputs(tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [dp.EngineFailure("nothing"), KeyboardInterrupt(), SystemExit()])
def test_an_engine_leaves_nothing_whatever_ends_it(error: BaseException, tmp_path: Path) -> None:
    assert in_a_process(lambda: spill(tmp_path)) == 0

    def fail() -> None:
        with session(PerformanceSettings(temp_directory=tmp_path)):
            assert len(list(tmp_path.iterdir())) == 1, "its own alone"
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_directory_is_checked_before_anything_is_charged(tmp_path: Path) -> None:
    table = pa.table({"user": [1], "item": ["a"]})
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    for directory in (tmp_path / "missing", odd):
        with pytest.raises(dp.InvalidParameter, match="a directory for temporary files"):
            dp.release(
                table, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=1,
                settings=dp.PerformanceSettings(temp_directory=directory),
            )  # fmt: skip
