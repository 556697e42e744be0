"""Whatever was made on one kind of processor is the same, and holds, on every other.

NumPy and OpenBLAS choose their code by the processor; variables make them choose as on an older one. `make test-processors`
compares all golden cases under each of `KINDS`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import CLOSE, settled

AVX512 = "X86_V4 AVX512_ICL AVX512_SPR"
KINDS = {
    "this one": {},
    "without AVX-512": {"NPY_DISABLE_CPU_FEATURES": AVX512, "OPENBLAS_CORETYPE": "Haswell"},
    "of 2009": {"NPY_DISABLE_CPU_FEATURES": f"X86_V3 {AVX512}", "OPENBLAS_CORETYPE": "Nehalem"},
}
"""Every x86-64 processor of today runs the last; elsewhere only the first is tested."""

MAKE = """
import sys
from pathlib import Path
import dphist as dp
from real_files import EVENTS
folder = Path(sys.argv[1])
folder.mkdir()
budget = {"epsilon": 1.0, "delta": 1e-6}
sums = {"sums": {"spent": (0, 12)}, "means": {"spent": (0, 12)}}
for name, asked in {
    "default": sums, "sparse-gaussian": {"max_groups": 3, **sums}, "laplace": {"max_groups": 3, "mechanism": "laplace"},
    "correlated": {"sparsity": 20},
}.items():
    dp.plan(**budget, **asked).save(folder / f"{name}.json")
dp.release(EVENTS, unit="user", by="item", **budget, **sums).write(folder / "default.parquet")
dp.release(EVENTS, unit="user", by="item", **budget, sparsity=20).write(folder / "correlated.csv")
session = dp.Session.start(folder / "session.json", unit="user", **budget, results=9, queries=3, shortlist=20)
session.query(EVENTS, by="item", k=4)
"""

CHECK = """
import sys
from pathlib import Path
import dphist as dp
from real_files import EVENTS
folder = Path(sys.argv[1])
for path in sorted(folder.iterdir()):
    if path.name == "session.json":
        dp.Session(path).query(EVENTS, by="item", k=1)
    elif path.suffix in (".parquet", ".csv"):
        failed = [str(check) for check in dp.verify(path) if check.failed]
        assert not failed, (path.name, failed)
    elif not path.name.endswith(".dphist.json"):
        dp.Plan.load(path)
"""


def run(script: str, kind: str, folder: Path) -> None:
    tests = Path(__file__).parents[1]
    others = map(str, (tests.parent / "src", tests / "stored", tests / "golden"))
    variables = {**os.environ, **KINDS[kind], "PYTHONPATH": os.pathsep.join(others)}
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{kind}: {done.stderr}"


needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the variables choose between x86-64 processors")


@needs_x86
def test_plans_files_and_sessions_of_one_processor_hold_on_another(tmp_path: Path) -> None:
    newest, _, oldest = KINDS
    for maker, reader in ((newest, oldest), (oldest, newest)):
        folder = tmp_path / maker
        run(MAKE, maker, folder)
        run(CHECK, reader, folder)
        run(CHECK, reader, folder)


@needs_x86
def test_the_variables_choose_other_code() -> None:
    """Or the comparison would compare a processor with itself."""
    script = "import numpy as np; print(np.show_config('dicts')['SIMD Extensions'].get('found', []))"
    command = [sys.executable, "-c", script]
    found = {
        kind: subprocess.check_output(command, env={**os.environ, **variables}, text=True)
        for kind, variables in KINDS.items()
    }
    assert "X86_V4" not in found["without AVX-512"]
    assert "X86_V3" not in found["of 2009"]
    assert "X86_V3" in found["without AVX-512"]


def test_numbers_settle_in_their_last_digits_only() -> None:
    """What golden cases compare: any number in any place, and nothing but numbers."""
    words = "noise 1.2345678901234567 on 3 counts"
    stored = {"rows": [[1.0, 12345.678901234567, words, f"{10**40}", 7, None, True]]}
    found = json.loads(json.dumps(stored).replace("1234567", "1234568").replace(f"{10**40}", f"{10**40 + 10**20}"))
    assert found != stored
    assert settled(found, stored) == stored
    for number in (1 + 2 * CLOSE, 1 - 2 * CLOSE, -1.0, float(np.nextafter(0, 1))):
        assert settled(number, 1.0) == number
    assert settled(1 + CLOSE / 2, 1.0) == 1.0
    for other in ("noise 1.2345678901234567 on 4 counts", "noise 1.23457 on 3 counts", "noise on 3 counts"):
        assert settled(other, words) == other
    assert settled(8, 7) == 8
    assert settled([1.0], [1.0, 2.0]) == [1.0]
    assert settled({"a": 1.0}, {"a": 1.0, "b": 2.0}) == {"a": 1.0}
    assert settled({"a": 1.0, "b": 2.0}, {"a": 1.0}) == {"a": 1.0, "b": 2.0}
