"""Types that do not fit are shown where the statement brings them together, before anything is read or charged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import dphist as dp

TABLES = {
    "events": pa.table({"user_id": [1, 2], "url": ["a", "b"], "likes": ["1", "2"]}),
    "ages": pa.table({"user_id": ["1", "2"], "age": [30, 40]}),
    "urls": dp.public(pa.table({"url": [1, 2], "site": ["A", "B"]})),
}
FIRST = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1)\n"
GOOD = f"{FIRST}  COUNT(DISTINCT user_id) AS n FROM events"


@pytest.mark.parametrize(
    ("rest", "types", "line", "marked"),
    [
        ("site, COUNT(*) AS n FROM events\nJOIN urls USING (url) GROUP BY site", "VARCHAR and BIGINT", 3, "JOIN urls"),
        (
            "COUNT(*) AS n FROM (SELECT user_id FROM events\n  UNION ALL SELECT user_id FROM ages)",
            "BIGINT and VARCHAR",
            2,
            "SELECT user_id",
        ),
        (
            "COUNT(*) AS n FROM events AS e\n  JOIN ages AS a ON e.user_id = a.user_id",
            "BIGINT and VARCHAR",
            3,
            "JOIN ages",
        ),
        ("COUNT(*) AS n FROM events\nWHERE url IN (SELECT url FROM urls)", "VARCHAR and BIGINT", 3, "url IN"),
    ],
)
def test_a_refusal_by_types_points_at_its_place(rest: str, types: str, line: int, marked: str) -> None:
    con = dp.connect(TABLES, unit="user_id")
    script = con.prepare(FIRST + "  " + rest)
    for refused in (script.check, script.run, script.explain):
        with pytest.raises(dp.InvalidParameter, match=f"one type on both sides of .*, got {types}.*CAST") as refusal:
            refused()
        place, text, carets = refusal.value.pointer.splitlines()
        assert place.startswith(f"line {line}, column")
        assert text[carets.index("^") :].startswith(marked)


def test_nothing_is_charged_if_a_later_statement_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with dp.Ledger(path, create=True) as ledger:
        ledger.create(dp.DataSet("events", 10, 1e-6, "user_id", "basic"))
    con = dp.connect(TABLES, unit="user_id", ledger=path, dataset="events")
    with pytest.raises(dp.InvalidParameter, match="one type"):
        con.script(f"{GOOD};\n{FIRST} COUNT(*) AS n FROM events JOIN urls USING (url)")
    with dp.Ledger(path) as ledger:
        assert [entry.kind for entry in ledger.entries("events")] == ["create"]


def test_a_sum_of_text_says_how_to_cast_it() -> None:
    con = dp.connect({**TABLES, "urls": dp.public(pa.table({"url": ["a"]}))}, unit="user_id")
    text = f"{FIRST}  SUM(likes, contribution_bounds_per_group => (0, 1)) AS s FROM events JOIN urls USING (url)"
    with pytest.raises(dp.InvalidParameter, match=r"numbers in 'likes'.*write CAST\(likes AS DOUBLE\)"):
        con.sql(text)
