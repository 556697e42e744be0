"""Where a session of our own writes records: in processes of their own, each with a JVM."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dphist.files.scratch import remove_dead

MARK = b"SECRETMARK"
SESSION = f"""
import os, sys
import pyarrow as pa
from pyspark import SparkContext
from dphist.engines.spark.session import open_session

spark = open_session("local[1]", None)
spark.conf.set("spark.sql.shuffle.partitions", "2")
people = spark.createDataFrame(pa.table({{"u": [f"{MARK.decode()}-{{i % 997}}" for i in range(2000)]}}))
people.repartition(2).persist().groupBy("u").count().agg({{"count": "sum"}}).collect()
print(SparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
"""


def private(path: Path, top: Path) -> bool:
    """Whether some directory above a file keeps everybody but its owner out."""
    above = [folder for folder in path.parents if folder.is_relative_to(top) and folder != top]
    return any(stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0 for folder in above)


@pytest.mark.cluster
@pytest.mark.parametrize("end", ["in peace", "by SIGKILL"])
def test_nobody_else_reads_what_spark_writes_and_none_of_it_stays(end: str, tmp_path: Path) -> None:
    """Shuffle files, cached rows, tables from Python: all below a directory of ours, whatever the umask says."""
    script, place = tmp_path / "session.py", tmp_path / "place"
    script.write_text(SESSION)
    place.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_LOCAL_DIRS"}
    environment |= {"TMPDIR": str(place), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    run = [sys.executable, "-W", "ignore", str(script)]
    with subprocess.Popen(run, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, umask=0o022) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        jvm = int(process.stdout.readline())
        limits = Path(f"/proc/{jvm}/limits").read_text().splitlines()
        assert [line.split()[4] for line in limits if line.startswith("Max core file size")] == ["0"]
        found = [path for path in place.rglob("*") if path.is_file() and MARK[1:] in path.read_bytes()]
        assert any("blockmgr" in str(path) for path in found)
        assert not [path for path in found if not private(path, place)]
        if end == "by SIGKILL":
            os.kill(jvm, signal.SIGKILL)
            process.kill()
            process.wait()
            assert any(path.is_file() and MARK[1:] in path.read_bytes() for path in place.rglob("*"))
            remove_dead(place)  # as the next command does
        else:
            process.stdin.close()
            assert process.wait() == 0
    assert not list(place.glob("*private*"))
