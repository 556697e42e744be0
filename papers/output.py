"""What every reproduction writes: a picture, a CSV with the numbers in it, and tables for docs/results.md."""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_FOLDER = Path("build/papers")


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a paper beside ours, which `layout` formats. None: the paper does not say, or we cannot know."""

    where: str
    quantity: str
    paper: float | None
    ours: float | None
    layout: str
    remark: str = ""

    def cells(self) -> list[str]:
        """The row of a table, the relative difference included."""
        return [
            self.where,
            self.quantity,
            "" if self.paper is None else f"{self.paper:.10g}",
            "" if self.ours is None else format(self.ours, self.layout),
            self.difference,
            self.remark,
        ]

    @property
    def difference(self) -> str:
        """Ours relative to the paper's, in per cent."""
        if self.paper is None or self.ours is None:
            return ""
        percent = round((self.ours / self.paper - 1) * 100, 3)
        return f"{percent:+.3f} %" if percent else "0.000 %"


NUMBER_HEADER = ("where", "quantity", "paper", "ours", "difference", "remark")


def arguments(description: str) -> argparse.Namespace:
    """--out and --points, which every reproduction has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help=f"folder to write to ({DEFAULT_FOLDER})")
    parser.add_argument("--points", type=_at_least_two, default=80, help="points per curve (80)")
    parsed = parser.parse_args()
    parsed.out.mkdir(parents=True, exist_ok=True)
    return parsed


def _at_least_two(text: str) -> int:
    points = int(text)
    if points < 2:
        raise argparse.ArgumentTypeError(f"expected at least 2 points, got {points}")
    return points


@contextmanager
def progress(what: str, *files: Path) -> Iterator[None]:
    """One line per figure: what it is, where it went, how long it took."""
    begin = time.perf_counter()
    print(f"{what} ... ", end="", flush=True)
    yield
    names = ", ".join(str(file) for file in files)
    print(f"{names} ({time.perf_counter() - begin:.1f} s)", flush=True)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows as CSV; floats with all the digits that matter."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.12g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Rows as CSV and, beside it, as the Markdown table that docs/results.md shows; columns in `right` are numbers."""
    write_csv(path, header, rows)
    rule = ["---:" if i in right else "---" for i in range(len(header))]
    lines = ["| " + " | ".join(row) + " |" for row in (header, rule, *rows)]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_numbers(path: Path, numbers: Iterable[Number]) -> None:
    """A table of paper against ours."""
    write_table(path, NUMBER_HEADER, [number.cells() for number in numbers], right=(2, 3, 4))


def mark(axes: Axes, curve: int, x: float, y: float) -> None:
    """A point in the colour of the curve that was drawn as number `curve`."""
    axes.plot(x, y, "o", color=axes.lines[curve].get_color(), markersize=7, zorder=5)
