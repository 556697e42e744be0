"""The wheel of this checkout, installed without extras, and the tables of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from dphist.demo import write_tables


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    from first_hour import build

    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def program(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from first_hour import put_together

    return put_together(packages[0], tmp_path_factory.mktemp("install") / "venv")


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    return folder
