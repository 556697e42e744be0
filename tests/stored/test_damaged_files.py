"""Damaged files of every kind: each is read, or refused with one error; never a traceback, a crash, or a long wait."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import fuzz
import pytest
from real_files import make_all

import dphist as dp
from dphist.ledger import Ledger

HERE = Path(__file__).parent
WORKERS = os.cpu_count() or 1
HOSTILE_TO_THIS_PROCESS = ("Parquet", "Parquet, large inside", "Spark folder, part", "another file")
"""What only a process of its own should read: in the full run."""

SAMPLE = 220


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "all"
    make_all(folder)
    return folder


def read_here(path: Path) -> bool:
    return not any(check.failed for check in dp.verify(path))


def test_undamaged_files_are_read_and_verified(real: Path, tmp_path: Path) -> None:
    for plan in sorted((real / "plans").iterdir()):
        dp.Plan.load(plan).save(tmp_path / plan.name)
        assert (tmp_path / plan.name).read_text() == plan.read_text()
    published = sorted(path for path in (real / "releases").iterdir() if not path.name.endswith(".dphist.json"))
    address = real / "ledger" / "ledger.db"
    for path, ledger in (*((path, None) for path in published), (real / "ledger" / "paid.parquet", address)):
        assert not [check for check in dp.verify(path, ledger=ledger) if check.failed]
    with Ledger(address) as opened:
        assert all(check.passed for name in opened.names() for check in opened.verify(name))
    fuzz.read_session(Path(shutil.copy(real / "lists" / "session.json", tmp_path)))


@pytest.mark.filterwarnings("ignore")  # of numbers out of range, which a user sees at worst beside the refusal
def test_a_sample_of_damaged_files_is_read_or_refused(real: Path, tmp_path: Path) -> None:
    outcomes: Counter[tuple[str, bool]] = Counter()
    for place, (name, kind, number) in enumerate(fuzz.all_cases(real)[:SAMPLE]):
        if name in HOSTILE_TO_THIS_PROCESS or (name.startswith("ledger") and number % 5):  # which take the longest
            continue
        target = tmp_path / str(place)
        target.mkdir()
        path, read = fuzz.prepare(real, kind, number, f"{name} {number}", target)
        try:
            accepted = (read_here if read is fuzz.read_published else read)(path)
        except dp.DphistError:
            accepted = False
        outcomes[name, accepted] += 1
    assert outcomes["plan", True] > 0, "some damage changes nothing that matters"
    assert sum(number for (_, accepted), number in outcomes.items() if not accepted) > 0.8 * outcomes.total()


@pytest.mark.fuzz
def test_thousands_of_damaged_files_are_read_or_refused(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    last = len(fuzz.all_cases(real))
    workers = [
        subprocess.Popen(
            [sys.executable, str(HERE / "fuzz.py"), str(real), str(first), str(WORKERS), str(last)],
            stdout=subprocess.PIPE,
            env={**os.environ, **settings},
        )
        for first in range(WORKERS)
    ]
    found = [json.loads(line) for worker in workers for line in worker.communicate()[0].splitlines()]
    with capsys.disabled():
        print(table(found))
    assert len(found) == last >= 3000
    wrong = [case for case in found if case["outcome"] in ("traceback", "crash")]
    wrong += [case for case in found if case["seconds"] > fuzz.SECONDS or case["megabytes"] > fuzz.MEGABYTES]
    assert not wrong, json.dumps(wrong[0], indent=2)


def table(found: list[dict[str, Any]]) -> str:
    """The counts, a line for each kind."""
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in found:
        by_kind[case["kind"]].append(case)
    outcomes = ("accepted", "refused", "ended apart", "traceback", "crash")
    lines = [f"\n{'kind':<24}{'files':>7}{''.join(f'{name:>12}' for name in outcomes)}{'slowest s':>11}{'peak MB':>9}"]
    for name, cases in [*by_kind.items(), ("all", found)]:
        counts = Counter(case["outcome"] for case in cases)
        numbers = "".join(f"{counts[outcome]:>12,}" for outcome in outcomes)
        slowest, peak = max(case["seconds"] for case in cases), max(case["megabytes"] for case in cases)
        lines.append(f"{name:<24}{len(cases):>7,}{numbers}{slowest:>11.1f}{peak:>9.0f}")
    return "\n".join(lines)
