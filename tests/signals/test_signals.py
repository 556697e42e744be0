"""Signals while modules are loaded, signals that are ignored, and KeyboardInterrupt in somebody's own program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dphist as dp
from dphist.files.interruption import held, interruptible, raising, undone, watching
from dphist.ledger import DataSet, Ledger

TABLE = pa.table({"user": list(range(3000)), "item": [f"i{n % 3}" for n in range(3000)]})
WHILE_LOADING = """
import os, signal, sys, time
class Finder:
    def find_spec(self, name, *_):
        if name == "scipy":
            os.kill(os.getpid(), signal.{name})
            time.sleep(60)
sys.meta_path.insert(0, Finder())
sys.argv = ["dphist", "plan", "--epsilon", "1", "--delta", "1e-6"]
from dphist.__main__ import main
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_modules_are_loaded(name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_LOADING.format(name=name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr in ("dphist: Interrupted. Nothing was charged.\n", "dphist: Terminated. Nothing was charged.\n")


IN_A_SHELL = """
import os, signal, sys, time
from dphist.files.interruption import held, raising, watching
with watching():
    for turn in range(2):
        with raising():
            try:
                with held():
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(0.1)
                    print("the step ends")
                time.sleep(20)
            except KeyboardInterrupt:
                print("the statement ends")
        time.sleep(0.1)
    os.kill(os.getpid(), signal.{name})
    time.sleep(20)
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_in_a_shell_an_interrupt_ends_a_statement_after_its_step_and_not_the_process(name: str, code: int) -> None:
    """Outside of the block, and for every other signal, the watch has the last word."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", IN_A_SHELL.replace("{name}", name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines() == ["the step ends", "the statement ends"] * 2
    assert done.stderr.endswith("Nothing was charged.\n")


def test_an_ignored_interrupt_stays_ignored_in_a_shell(python_handler: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with watching(), raising():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_what_is_ignored_stays_ignored_and_handlers_come_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    theirs = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with watching():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGINT) is not before[signal.SIGINT]
        assert {number: signal.getsignal(number) for number in before} == before
        assert not [thread for thread in threading.enumerate() if thread.name == "dphist signals"]
    finally:
        signal.signal(signal.SIGHUP, theirs)


@pytest.fixture
def python_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handler")
def test_an_interrupt_waits_for_the_end_of_a_step_and_what_was_made_is_undone() -> None:
    steps: list[str] = []

    def step() -> None:
        with held():
            signal.raise_signal(signal.SIGINT)
            steps.append("done")

    with pytest.raises(KeyboardInterrupt):
        step()

    def make() -> str:
        signal.raise_signal(signal.SIGINT)
        return "made"

    with pytest.raises(KeyboardInterrupt), undone(make, steps.append):
        raise AssertionError("not reached")
    assert steps == ["done", "made"]

    def call() -> None:
        with interruptible(lambda: steps.append("engine stopped")):
            signal.raise_signal(signal.SIGINT)
            raise ValueError("what an engine makes of it")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert steps[-1] == "engine stopped"


@pytest.mark.usefixtures("python_handler")
@pytest.mark.parametrize("options", [{"max_groups": 1}, {"mechanism": "adaptive"}])
def test_an_interrupt_inside_of_a_callback_of_the_engine_is_not_swallowed(
    options: dict[str, object], tmp_path: Path
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(TABLE.to_batches(max_chunksize=500)):
            if number == 2:
                signal.raise_signal(signal.SIGINT)
            yield batch

    settings = dp.PerformanceSettings(temp_directory=tmp_path)
    source = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with pytest.raises(KeyboardInterrupt):
        dp.release(source, unit="user", by="item", epsilon=1, delta=1e-6, settings=settings, **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("python_handler")
def test_an_interrupt_between_a_charge_and_its_note_names_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "basic"))
    reserve = Ledger.reserve

    def reserve_and_interrupt(*given: object, **named: object) -> object:
        entry = reserve(*given, **named)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGINT)
        return entry

    monkeypatch.setattr(Ledger, "reserve", reserve_and_interrupt)
    with pytest.raises(KeyboardInterrupt, match="Charged to 'people', entry 1"):
        dp.release(
            TABLE,
            unit="user",
            by="item",
            epsilon=1,
            delta=1e-6,
            max_groups=1,
            ledger=tmp_path / "l.db",
            dataset="people",
        )
