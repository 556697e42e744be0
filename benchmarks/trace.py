"""How far one release travels in the package: the files it crosses, and how often consecutive calls switch package.

    python benchmarks/trace.py

docs/architecture.md has the numbers before and after the seams were opened.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa

import dphist as dp

PACKAGE: Final = Path(dp.__file__).parent
EVENTS: Final = pa.table(
    {
        "user": pa.array([n // 3 for n in range(3000)]),
        "item": pa.array([f"item {n * n % 11}" for n in range(3000)]),
        "likes": pa.array([n % 2 for n in range(3000)]),
    }
)


def release(path: Path, epsilon: float) -> None:
    """A table with a count and a sum, from records to a file."""
    dp.release(EVENTS, unit="user", by="item", epsilon=epsilon, delta=1e-6, max_groups=3, sums={"likes": (0, 1)}).write(
        path
    )


def traced(path: Path) -> list[Path]:
    """The file of every call inside the package, in order, relative to the package."""
    crossed: list[Path] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            crossed.append(file.relative_to(PACKAGE))

    sys.setprofile(note)
    try:
        release(path, 1)
    finally:
        sys.setprofile(None)
    return crossed


def switches(crossed: list[Path]) -> int:
    """How often two consecutive calls are in different folders of the package; a file beside the folders counts as one."""
    return sum(before.parts[0] != after.parts[0] for before, after in pairwise(crossed))


def main() -> None:
    """Print the numbers. A first release with another budget loads every module and leaves no calibration behind."""
    with tempfile.TemporaryDirectory() as folder:
        release(Path(folder) / "first.parquet", 2)
        crossed = traced(Path(folder) / "second.parquet")
    inside = [file for file in crossed if len(file.parts) > 1]
    print(f"{len(set(crossed))} files, {switches(crossed):,} switches between packages", end=" ")
    print(f"({switches(inside):,} without the files beside the folders)")


if __name__ == "__main__":
    main()
