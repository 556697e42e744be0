"""`dphist sql --engine spark`: the same statement, counted and noised by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from spark_sessions import session

PEOPLE = 1_500
EVENTS = pa.table({"user": list(range(PEOPLE)) * 2, "item": [f"i{row % 3}" for row in range(2 * PEOPLE)]})


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join with a public file; the answer is one file, which verifies."""
    monkeypatch.setattr("dphist.engines.spark.session.open_session", lambda *_: session())
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    (tmp_path / "items.csv").write_text("item,kind\ni0,soft\ni1,hard\ni9,none\n")
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, delta = 1e-6, max_groups_contributed = 2)"
        " kind, COUNT(DISTINCT user) AS people FROM events JOIN items USING (item) GROUP BY kind ORDER BY kind"
    )
    # The session's own folder is another: it was started before.
    tables = ["--table", f"events={tmp_path}/events.parquet", "--table", f"items={tmp_path}/items.csv"]
    tables += ["--public", "items", "--unit", "user"]
    done = dphist("sql", statement, *tables, "--engine", "spark", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column("kind").to_pylist() == ["hard", "soft"]
    assert table.column("people").to_pylist() == pytest.approx([PEOPLE / 3] * 2, abs=PEOPLE / 10)
    assert not [check for check in dp.verify(tmp_path / "out.parquet") if check.failed]
