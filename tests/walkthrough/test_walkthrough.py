"""The first hour, from the built wheel; and what wheel and sdist hold."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from first_hour import ROOT, STEPS, hurry, install, walk

pytestmark = pytest.mark.xdist_group("walkthrough")


def test_the_first_hour(program: Path, tmp_path: Path) -> None:
    assert hurry(tmp_path, program) == list(STEPS)


@pytest.mark.long
def test_the_first_hour_as_it_is(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """Installed by pip, one process for each command."""
    program = install(packages[0], tmp_path / "venv")
    assert [step for step, _ in walk(tmp_path, program)] == list(STEPS)


def test_the_package_has_the_core_alone(program: Path) -> None:
    python = program.with_name("python")
    lines = subprocess.check_output(
        [python, "-I", "-c", "import importlib.metadata as m\nfor d in m.distributions(): print(d.name)"]
    )
    names = {re.sub(r"[-_.]+", "-", name).lower() for name in lines.decode().split()}
    assert names >= {"dphist", "numpy", "scipy", "duckdb", "pyarrow", "rich", "click"}
    assert not names & {
        "pyspark",
        "pandas",
        "polars",
        "matplotlib",
        "psycopg",
        "pytest",
        "mkdocs",
        "ipykernel",
        "playwright",
    }
    loaded = subprocess.check_output(
        [python, "-I", "-c", "import dphist; print(dphist.__file__)"], cwd=program.parent, text=True
    )
    assert "site-packages" in loaded


def test_the_wheel_has_every_module_page_and_asset(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {path.relative_to(ROOT / "src").as_posix() for path in files(ROOT / "src" / "dphist")}
    assert names == modules | {f"dphist/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert "dphist/py.typed" in names


def test_the_sdist_has_what_building_and_testing_need(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[1]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    needed = {
        path for folder in ("src", "tests", "docs", "benchmarks", "examples", "papers") for path in files(ROOT / folder)
    }
    needed |= {
        ROOT / name
        for name in ("README.md", "LICENSE", "CHANGELOG.md", "Makefile", "pyproject.toml", "constraints.txt")
    }
    assert {path.relative_to(ROOT).as_posix() for path in needed} <= names
    assert not {name.split("/")[0] for name in names} & {".venv", ".git", "build", "dist", "site"}


def files(folder: Path) -> set[Path]:
    """What a checkout holds there; caches are what runs left."""
    return {path for path in folder.rglob("*") if path.is_file() and "cache" not in str(path.relative_to(ROOT))}
