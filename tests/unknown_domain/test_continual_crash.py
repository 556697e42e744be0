"""Kill the process at random points while it adds batches: no round lost, none counted twice, noise of past nodes unchanged."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from crash_child import ROUNDS, add, add_until_killed, pages_of

import dphist as dp
from dphist.run.continual import STATE
from dphist.run.stream import State


def _expected(rounds: int) -> dict[str, int]:
    totals: dict[str, int] = {}
    for number in range(rounds):
        for page, count in pages_of(number).items():
            totals[page] = totals.get(page, 0) + count
    return totals


def _crash(folder: Path, kills: int, seed: int) -> None:
    dp.Continual.start(folder, unit="user", by="page", rounds=ROUNDS, max_groups=1, epsilon=1.0, delta=1e-6)
    choose = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["crash_child", "dphist.run.continual", "dphist.engines.duckdb.engine"])
    nodes: dict[tuple[int, int, str], int] = {}
    done = 0
    for _ in range(kills):
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=add_until_killed, args=(str(folder), done, there))
        child.start()
        there.close()
        acknowledged = done
        for _ in range(choose.randint(0, 3)):
            acknowledged = here.recv() + 1
        time.sleep(choose.uniform(0.0, 0.05))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        while here.poll():
            try:
                acknowledged = here.recv() + 1
            except EOFError:
                break
        state = State.load(folder / STATE)
        assert state.round >= acknowledged  # what was said to be in is in
        done = state.round
        assert state.batches == tuple(f"batch {number}" for number in range(done))
        keys = state.keys["key_1"].to_pylist() if done else []
        assert dict(zip(keys, state.counts.tolist(), strict=True)) == _expected(done)
        for level, values in state.noise.items():
            for key, value in zip(keys, values.tolist(), strict=True):
                assert nodes.setdefault((level, done >> level, key), value) == value
    shown = dp.Continual(folder).show().table
    assert shown == dp.Continual(folder).show().table
    add(dp.Continual(folder), done)  # the lock of a killed process is free, leftovers are gone
    assert not list(folder.rglob("*.partial"))
    kept = sorted(int(file.stem) for file in (folder / "rounds").iterdir())
    assert kept == list(range(1, done + 2))  # what was released is kept for every round
    assert done > kills
    assert np.all(State.load(folder / STATE).counts > 0)


def test_four_kills(tmp_path: Path) -> None:
    _crash(tmp_path / "s", 4, seed=1)


@pytest.mark.crash
def test_two_hundred_kills(tmp_path: Path) -> None:
    _crash(tmp_path / "s", 200, seed=2)
