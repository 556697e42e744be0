"""The package as a whole: its public names, its imports, its errors."""

import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import command_line
import dphist
from dphist import errors
from dphist.errors import Infeasible, InvalidParameter, MissingExtra


def test_public_names_are_exactly_what_is_exported() -> None:
    eager = {name for name, value in vars(dphist).items() if not name.startswith("_") and not _is_module(value)}
    assert eager - {"TYPE_CHECKING", "Any"} <= set(dphist.__all__)
    assert all(getattr(dphist, name) is not None for name in dphist.__all__)
    assert all(name in dphist.__all__ for name in errors.__all__)
    with pytest.raises(AttributeError, match="no attribute 'histogramme'"):
        dphist.histogramme  # noqa: B018


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def test_importing_loads_neither_engines_nor_pictures_nor_models() -> None:
    names = ("duckdb", "pyspark", "pyarrow", "matplotlib", "sqlalchemy", "pydantic")
    code = f"import sys, dphist; print([m for m in {names} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors_say_expected_got_hint_and_survive_processes() -> None:
    problem = InvalidParameter("delta in (0, 1)", 0, "try 1e-8.")
    assert str(problem) == "Expected delta in (0, 1), got 0. Hint: try 1e-8."
    assert isinstance(problem, ValueError)
    for original in (problem, Infeasible("more noise", 1), MissingExtra("plot", "pictures")):
        assert str(pickle.loads(pickle.dumps(original))) == str(original)
    assert isinstance(MissingExtra("plot", "pictures"), ImportError)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from dphist.show import plots

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dphist\[plot\]'"):
        plots.new_figure()


def test_a_plan_is_not_saved_without_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the same command, with the extra, would find its own file."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    saved, picture = tmp_path / "plan.json", tmp_path / "p.png"
    words = ["--epsilon", "1", "--delta", "1e-8", "--max-groups", "1", "--plot", str(picture), "--save", str(saved)]
    done = command_line.dphist("plan", *words)
    assert done.returncode == 2
    assert "pip install 'dphist[plot]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_frame_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    table = pa.table({"user": ["a"], "key": ["b"]})
    release = dphist.release(table, unit="user", by="key", epsilon=1, delta=1e-6, max_groups=1)
    assert getattr(release, f"to_{name}")().shape[0] == 0
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'dphist\[{name}\]'"):
        getattr(release, f"to_{name}")()


def test_extras_that_errors_name_are_there_and_dependencies_are_bounded() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == {"plot", "accounting", "spark", "postgres", "pandas", "polars", "sql", "all", "docs", "dev"}
    asked = [*project["dependencies"], *(one for extra in extras.values() for one in extra)]
    unbounded = {re.split(r"[\[<>=]", one)[0] for one in asked if "<" not in one}
    assert unbounded == {"pyarrow", "cryptography", "dphist"}  # which have a major version every few months


def test_every_error_is_drawn_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    assert all(name in tree for name in errors.__all__)


def test_every_place_that_the_makefile_names_is_there() -> None:
    root = Path(__file__).parents[1]
    text = (root / "Makefile").read_text(encoding="utf-8")
    (covering,) = re.findall(r"addprefix tests/,([^)]+)\)", text)
    named = {f"tests/{name}" for name in covering.split()} | set(re.findall(r"tests/[\w/.]*\w", text))
    assert [name for name in sorted(named) if not (root / name).exists()] == []
