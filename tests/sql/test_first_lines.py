"""The first line of a CSV file may be a record: no explanation and no refusal has a word of it that nobody typed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp

FIELDS = ("user", "Zyxwv", "q\u2028uu", '77"66', "jkjk jk", "ab'ab")
LINE = 'user,Zyxwv,q\u2028uu,"77""66",jkjk jk,ab\'ab\n'
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, privacy_unit_column = user)"
COUNT = f"{CLAUSE} COUNT(*) AS n FROM"
FROM = (
    "t",
    "(SELECT * FROM t)",
    "(SELECT t.* FROM t)",
    "(SELECT DISTINCT * FROM t)",
    "(SELECT * FROM t UNION ALL SELECT * FROM t)",
    "(SELECT * FROM t UNION DISTINCT SELECT * FROM t)",
    "(SELECT * FROM t INTERSECT DISTINCT SELECT * FROM t)",
    "(SELECT * FROM t EXCEPT DISTINCT SELECT * FROM t)",
    "(SELECT DISTINCT * EXCEPT (zyxwv) FROM t)",
    "(SELECT DISTINCT * FROM t JOIN (SELECT DISTINCT * FROM t) AS o USING (user))",
    "(SELECT DISTINCT * FROM (SELECT * FROM t WHERE user <> 'x')) AS a JOIN items ON user = item",
)
REFUSED = (
    "(SELECT * EXCEPT (zyxw) FROM t)",
    "(SELECT DISTINCT * EXCEPT (user) FROM t)",
    "(SELECT DISTINCT * FROM t) AS a JOIN (SELECT * FROM t) AS b ON a.zyx = b.user",
    "(SELECT DISTINCT * FROM t UNION ALL SELECT user FROM t)",
    "(SELECT *, jkj FROM t)",
)


@pytest.fixture
def con(tmp_path: Path) -> dp.Connection:
    (tmp_path / "t.csv").write_text(f"{LINE}a,1,2,3,4,5\n", encoding="utf-8")
    (tmp_path / "items.csv").write_text("item,price\nx,1\n", encoding="utf-8")
    return dp.connect(tables={"t": str(tmp_path / "t.csv"), "items": dp.public(str(tmp_path / "items.csv"))})


def words_in(text: str, asked: str = "user") -> list[str]:
    """The fields of the first line in a text, but for those that somebody asked for."""
    others = [field for field in FIELDS if field.casefold() not in asked.casefold()]
    parts = [part for field in others for part in (field, field.replace('"', '""'), field.split("\u2028")[-1])]
    return [part for part in parts if part.casefold() in text.casefold()]


@pytest.mark.parametrize("rows", FROM)
def test_no_explanation_names_a_column_that_nobody_asked_for(rows: str, con: dp.Connection) -> None:
    assert con.columns("t") == list(FIELDS)
    told = con.explain(f"{COUNT} {rows}")
    assert '"user"' in told
    assert words_in(told, "user zyxwv" if "zyxwv" in rows else "user") == []
    assert ('"column_3"' in told) == ("DISTINCT *" in rows or "DISTINCT SELECT" in rows)


@pytest.mark.parametrize("rows", REFUSED)
def test_no_refusal_names_a_column_that_nobody_asked_for(rows: str, con: dp.Connection) -> None:
    with pytest.raises(dp.InvalidParameter) as caught:
        con.prepare(f"{COUNT} {rows}").check()
    assert words_in(f"{caught.value} {caught.value.pointer}") == []


def test_columns_that_one_asked_for_are_named(con: dp.Connection) -> None:
    told = con.explain(f"{COUNT} (SELECT DISTINCT * FROM t) WHERE zyxwv > '1'")
    assert '"Zyxwv"' in told
    assert words_in(told, "user zyxwv") == []
    declared = dp.connect(tables={"t": con.tables["t"].source}, unit='person=lower("Zyxwv")')
    told = declared.explain(f"{COUNT.replace(', privacy_unit_column = user', '')} (SELECT DISTINCT * FROM t)")
    assert 'lower("Zyxwv")' in told
    assert words_in(told, "zyxwv") == []


def test_columns_of_other_files_have_their_names(tmp_path: Path) -> None:
    rows = pa.table({"user": ["a"], "Zyxwv": ["b"]})
    pq.write_table(rows, tmp_path / "t.parquet")
    for source in (rows, str(tmp_path / "t.parquet")):
        told = dp.connect(tables={"t": source}).explain(f"{COUNT} (SELECT DISTINCT * FROM t)")
        assert '"Zyxwv"' in told
