"""The value of an expression is a function of the record alone: no engine looks at its clock."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pyarrow as pa
import pytest
from engine_oracle import Engine, every_engine, groups_of, quick

from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.query import GroupByQuery, Key
from dphist.engines.source import Files
from dphist.errors import InvalidParameter

ONE = ContributionBounds(1)
WORDS = (
    "now", "today", "NOW", "yesterday", "tomorrow", "epoch", "10:00", "T10:00", "1:2:3", "12:00:00 UTC", "now UTC",
    "2020-01-02",
    "2020-01-02 03:04:05", "+2020-01-02", " 2020-01-02", "2020", "",
)  # fmt: skip
TABLE = pa.table({
    "user": [f"u{i}" for i in range(len(WORDS))],
    "text": list(WORDS),
    "time": pa.array([0] * len(WORDS), pa.timestamp("us")),
    "zoned": pa.array([0] * len(WORDS), pa.timestamp("us", "UTC")),
    "date": pa.array([0] * len(WORDS), pa.date32()),
    "n": [1] * len(WORDS),
})  # fmt: skip
FUNCTIONS = (
    "age(time)", "epoch(age(time))", "now()", "current_date", "current_timestamp", "current_time", "localtime",
    "localtimestamp", "today()",
    "transaction_timestamp()", "get_current_time()", "get_current_timestamp()", "current_localtime()",
    "current_localtimestamp()",
    "statement_timestamp()", "clock_timestamp()", "timeofday()", "getdate()", "sysdate", "unix_timestamp()", "curdate()",
    "curtime()",
    "random()", "uuid()", "uuidv7()", "txid_current()", "nextval('s')", "date_diff('day', time, now())", "age(time, now())",
)  # fmt: skip
LITERALS = (
    "CAST('now' AS TIMESTAMP)", "'today'::DATE", "DATE 'today'", "TIMESTAMP 'now'",
    "CAST('10:00' AS TIMESTAMP WITH TIME ZONE)",
    "CAST(lower('NOW') AS TIMESTAMP)", "time > 'now'", "date < 'tomorrow'", "zoned = '10:00'", "date IN ('today')",
    "year('now')",
    "date BETWEEN '2020-01-01' AND 'now'", "date_trunc('day', 'now')", "date_part('year', 'today')",
)  # fmt: skip
COERCED = (
    "coalesce(zoned, 'now')", "CASE WHEN n = 2 THEN zoned ELSE 'now' END", "if(n = 2, zoned, 'now')", "nullif(zoned, 'now')",
    "zoned > text", "coalesce(date, text)", "zoned - 'now'",
)  # fmt: skip
"""Where text stands beside a time: Spark would read it as one; DuckDB keeps it a text or finds no such time."""


def _query(*expressions: str) -> GroupByQuery:
    return GroupByQuery("user", tuple(Key(f"key {place}", one) for place, one in enumerate(expressions)))


def test_no_function_of_the_clock_gets_through() -> None:
    engine = DuckDBEngine()
    for expression in (*FUNCTIONS, *LITERALS):
        with pytest.raises(InvalidParameter):
            engine.histogram(TABLE, _query(expression), ONE)


@every_engine
def test_no_text_is_read_by_the_clock(engine: Engine, tmp_path: Path) -> None:
    """The same at two times, and never of today: Spark dates 10:00 to the day of the run."""
    casts = [f"CAST(text AS {kind})" for kind in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")]
    (tmp_path / "texts.csv").write_text("\n".join(["user,text", *(f"u{i},{word}" for i, word in enumerate(WORDS)), ""]))
    declared = Files((tmp_path / "texts.csv",), types={"text": "TIMESTAMP"})
    days = {str(dt.datetime.now(dt.UTC).date() + dt.timedelta(days)) for days in (-1, 0, 1)}
    for source, query in ((TABLE, _query(*casts)), (declared, _query("text"))):
        first = groups_of(engine.histogram(source, query, ONE))
        if source is TABLE or not quick(engine):
            time.sleep(0.002)
            assert first == groups_of(engine.histogram(source, query, ONE))
        for place in range(len(query.by)):
            assert len({keys[place] for keys in first}) > 2
            assert not any(str(keys[place])[:10] in days for keys in first), query.by[place]


@every_engine
def test_no_constant_is_read_by_the_clock(engine: Engine) -> None:
    """Refused, or the same at two times and not of today: Spark takes a constant 'now' for the clock, also an implied one."""
    days = {str(dt.datetime.now(dt.UTC).date() + dt.timedelta(days)) for days in (-1, 0, 1)}
    on_spark = not isinstance(engine, DuckDBEngine)
    literals = LITERALS[:: 3 if quick(engine) else 1] if on_spark else ()
    for expression in (*literals, *COERCED):
        try:
            first = groups_of(engine.histogram(TABLE, _query(expression), ONE))
        except InvalidParameter:
            continue
        assert not on_spark, expression
        assert first == groups_of(engine.histogram(TABLE, _query(expression), ONE))
        assert not any(str(key)[:10] in days for (key,) in first), expression


@every_engine
def test_dates_and_times_of_constants_still_work(engine: Engine) -> None:
    query = _query(
        "date < '2020-01-01'", "zoned >= '1970-01-01 00:00:00'", "time BETWEEN '1970-01-01' AND '2020-01-01'"
    )
    assert list(groups_of(engine.histogram(TABLE, query, ONE))) == [(True, True, True)]
