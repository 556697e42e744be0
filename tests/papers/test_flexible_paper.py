"""papers/flexible.py with few data sets: what it writes, and what must come out of every mechanism."""

import contextlib
import csv
import io
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = "truncated Laplace (ours)"
Errors = dict[tuple[int, str, float], tuple[float, float]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, path, printed = tmp_path_factory.mktemp("flexible") / "new", ROOT / "papers" / "flexible.py", io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.syspath_prepend(str(path.parent))
        patch.setattr(sys, "argv", [str(path), "--sets", "6", "--runs", "10", "--out", str(made)])
        runpy.run_path(str(path), run_name="__main__")
    assert len(printed.getvalue().splitlines()) == 4
    return made


@pytest.fixture(scope="module")
def errors(folder: Path) -> Errors:
    with (folder / "flexible_figure_4.csv").open(encoding="utf-8", newline="") as file:
        return {
            (int(row["experiment"]), row["mechanism"], float(row["epsilon"])): (
                float(row["actual_error_percent"]),
                float(row["flexible_error_percent"]),
            )
            for row in csv.DictReader(file)
        }


def test_picture_and_tables(folder: Path) -> None:
    assert (folder / "flexible_figure_4.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "flexible_q.md").read_text(encoding="utf-8").splitlines()[
        2
    ] == "| 2⁻²⁰ | 218 | 116 | 50 | 27 | 14 |"
    shown = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert (folder / "flexible_q.md").read_text(encoding="utf-8") in shown
    assert "(pictures/flexible_figure_4.png)" in shown


def test_flexible_errors_are_never_larger_than_actual_ones(errors: Errors) -> None:
    assert len(errors) == 6 * 8 * 5
    assert all(flexible <= actual + 1e-9 for actual, flexible in errors.values())


def test_what_reproduces(errors: Errors) -> None:
    """Experiment 2 is hard without flexible accuracy; noise that only takes away never overshoots in experiment 4."""
    for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0):
        assert errors[2, OURS, epsilon] == (50, 0)
    assert errors[4, OURS, 0.5] == (0, 0)
    golden = {0.1: (35.6, 29.0), 0.2: (31.2, 24.6), 0.5: (21.8, 15.2), 1.0: (11.1, 4.6)}
    for epsilon, expected in golden.items():
        assert errors[1, OURS, epsilon] == pytest.approx(expected, abs=3)
    assert errors[3, OURS, 1.0][0] < 0.5
    assert errors[6, OURS, 0.5][1] < 0.5


def test_the_untruncated_shift_behaves_alike(errors: Errors) -> None:
    for number in (1, 2, 3):
        for epsilon in (0.5, 1.0, 2.0):
            assert errors[number, OURS, epsilon][0] == pytest.approx(
                errors[number, "shifted Laplace (ESA)", epsilon][0], abs=1.5
            )
