"""Where Spark is told to write, before any JVM is started."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dphist.engines.spark.session import LOCAL, check_local, private_directories, told
from dphist.errors import InvalidParameter
from dphist.files.scratch import remove_dead


@pytest.mark.parametrize("given", [None, "", "one", "one,two/deep"])
def test_spark_is_told_of_private_directories(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each place that the environment names, or in the one for temporary files; and the environment is as before."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(LOCAL, raising=False)
    if given is not None:
        monkeypatch.setenv(LOCAL, given)
    directories = private_directories()
    places = [tmp_path / place for place in (given or ".").split(",")]
    assert [directory.path.parent for directory in directories] == [place.resolve() for place in places]
    with told(directories):
        assert os.environ[LOCAL].split(",") == [str(directory.path) for directory in directories]
    assert os.environ.get(LOCAL) == given
    for directory in directories:
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
        (directory.path / "blockmgr-1").mkdir()
        check_local(str(directory.path / "blockmgr-1"), directories)
        remove_dead(directory.path.parent)  # as any later command does: this one is alive
        assert directory.path.exists()
        directory.remove()
        assert not list(directory.path.parent.glob("*private*"))


def test_a_jvm_that_writes_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"only you can read, got .*elsewhere.*spark-env\.sh"):
        check_local(str(tmp_path / "elsewhere" / "pyspark-1"), [])
