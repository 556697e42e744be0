"""The command `dphist verify`: a published file is examined in a process of its own, with limits on time and memory.

Anyone may have made the file, and its bytes can make the readers of Arrow and Parquet end a process or fill its memory. So
whatever happens in that process, this one gets a list of checks or one DphistError. The limits grow with the file: an honest
release of millions of groups needs more than a small one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from dphist import errors
from dphist.checks import Check
from dphist.errors import DphistError, EngineFailure, InvalidParameter
from dphist.files import systems
from dphist.verification.state import Checks

START: Final = (
    "import json, sys; asked = json.loads(sys.stdin.readline()); sys.path[:] = asked.pop('modules');"
    " from dphist.verification.isolated import answer; answer(**asked)"
)
SETTINGS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # other allocators reserve gigabytes of addresses, which the limit counts
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

LEAST_SECONDS: Final = 7
_SECONDS_PER_BYTE: Final = 1e-6
"""Processor time for a byte. JSON, the slowest format, takes a tenth."""

LEAST_MEMORY: Final = 700 << 20
_MEMORY_PER_BYTE: Final = 100
"""Memory for a byte of the file. To check a group that is ten bytes in a compressed table takes four hundred."""


def verify_apart(path: str | Path, *, ledger: str | Path | None = None, head: str | None = None) -> Checks:
    """`dphist.verify` in a process of its own: a damaged or hostile file ends only that process.

    Raises:
        DphistError: what `dphist.verify` raises, and InvalidParameter where the file ended the process.
    """
    asked = {"path": str(path), "ledger": None if ledger is None else str(ledger), "head": head, "modules": sys.path}
    try:
        done = subprocess.run(  # noqa: S603, our own code; arguments go in as its input
            [sys.executable, "-I", "-c", START],
            input=json.dumps(asked).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **SETTINGS},
            check=False,
        )
    except OSError as problem:
        raise EngineFailure("a process that examines the file", f"the reason was: {problem.strerror}.") from None
    try:
        outcome = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        outcome = None
    if isinstance(outcome, dict) and outcome.get("error") in errors.__all__:
        raise getattr(errors, outcome["error"])(*outcome["words"])
    if not isinstance(outcome, dict) or not {"checks", "state", "named"} <= outcome.keys():
        got = "one that ended its reader, or took too much time or memory"
        raise InvalidParameter(
            f"a released file at {path} that can be examined", got, "it is damaged, or made to harm."
        )
    return Checks([Check(*found) for found in outcome["checks"]], outcome["state"], outcome["named"])


def answer(path: str, ledger: str | None, head: str | None) -> None:
    """The work of the other process: verify within the limits, and print the outcome as JSON."""
    sys.meta_path.insert(0, _NoPandas())
    from dphist.verification.verify import verify

    limit_process_for(0)
    outcome: dict[str, Any]
    try:
        limit_process_for(_size_of(Path(path)))
        checks = verify(path, ledger=ledger, head=head)
        told = [(check.name, check.passed, check.detail) for check in checks]
        outcome = {"checks": told, "state": checks.state, "named": checks.named}
    except MemoryError:
        outcome = {}
    except DphistError as problem:
        outcome = {"error": type(problem).__name__, "words": [str(word) for word in problem.__reduce__()[1]]}
    print(json.dumps(outcome))


class _NoPandas:
    """Hides pandas: Arrow would load it, in half a second, to ask of every list whether it is a frame."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _size_of(path: Path) -> int:
    """The bytes of a file, or of the files in a folder. A path without a size counts as 0; reading it fails later."""
    try:
        files = path.rglob("*") if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files if file.is_file())
    except (OSError, ValueError):
        return 0


def limit_process_for(size: int) -> None:
    """Set limits on time and memory for a file of this size."""
    systems.limit_process(LEAST_SECONDS + size * _SECONDS_PER_BYTE, max(LEAST_MEMORY, size * _MEMORY_PER_BYTE))
