"""From a statement to its answer: the same release as a command makes, and the rest computed from published values alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.engines import parser

PEOPLE = 3_000
EVENTS = pa.table(
    {
        "user_id": [row % PEOPLE for row in range(3 * PEOPLE)],
        "url": [f"/{row % 7}" for row in range(3 * PEOPLE)],
        "likes": [row % 4 for row in range(3 * PEOPLE)],
        "amount": [float(row % 11) for row in range(3 * PEOPLE)],
    }
)
URLS = pa.table({"url": ["/0", "/1", "/2", "/nobody"], "topic": ["news", "art", "news", "none"]})
CLAUSE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 3"
PRIVATE = f"SELECT {CLAUSE})"


@pytest.fixture
def con() -> Any:
    return dp.connect(tables={"events": EVENTS, "urls": dp.public(URLS)}, unit="user_id")


def test_a_statement_is_read_once(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines get the trees that were checked: to run a statement, DuckDB's parser reads no expression of it again."""
    texts: list[str] = []

    def noted(sql: str) -> dict[str, Any]:
        texts.append(sql)
        return read(sql)

    read = parser.serialized
    monkeypatch.setattr(parser, "serialized", noted)
    parser.read_expression.cache_clear()
    rest = "UPPER(url) AS u, SUM(likes * 2, contribution_bounds_per_group => (0, 2)) FROM events WHERE amount < 9"
    script = con.prepare(f"{PRIVATE} {rest} GROUP BY 1")
    before = set(texts)
    assert len(before) == len(texts) >= 3
    script.check()
    script.run()
    assert set(texts) == before
    assert len(texts) == len(before)


@pytest.mark.parametrize(
    "rest",
    [
        "url, COUNT(DISTINCT user_id) AS n FROM events GROUP BY url",
        "url, COUNT(*, contribution_bounds_per_group => (0, 4)) FROM events WHERE likes > 1 AND amount < 9 GROUP BY url",
        "SUM(likes * amount, contribution_bounds_per_group => (-1.5, 100)) AS x FROM events",
        "UPPER(url) AS u, AVG(amount), VAR_POP(likes, contribution_bounds_per_row => (0, 3)) FROM events GROUP BY 1",
        "url, PERCENTILE_CONT(amount, 0.9, contribution_bounds_per_row => (0, 10)) FROM events GROUP BY url",
        "url, APPROX_QUANTILES(amount, 3, contribution_bounds_per_row => (0, 10)) q FROM events GROUP BY url",
        "url, COUNT(DISTINCT likes, contribution_bounds_per_group => (0, 2)) FROM events GROUP BY url",
        "url, SUM(likes, contribution_bounds_per_group => (0, 1), epsilon => 0.25) FROM events GROUP BY url",
        "url, STDDEV_POP(amount), SUM(amount, contribution_bounds_per_group => (0, 9)), SUM(amount) FROM events GROUP BY 1",
        "COUNT(likes, contribution_bounds_per_group => (0, 3), report_format => 'JSON') FROM events",
    ],
)
def test_the_command_of_an_explanation_makes_the_same_plan(rest: str, tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    con = dp.connect(tables={"events": str(tmp_path / "events.parquet")}, unit="user_id")
    script = con.prepare(f"{PRIVATE} {rest}")
    words = shlex.split(script.explain().partition("command:\n")[2].partition("\n\n")[0])
    done = dphist(*words[1:-2], "--dry-run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(script.jobs[0].plan.to_json())
    assert script.jobs[0].selection.where == (words[words.index("--where") + 1] if "--where" in words else None)


def test_rows_that_a_statement_derives_are_those_of_a_prepared_file(con: Any) -> None:
    joined = EVENTS.join(URLS, "url", join_type="inner")
    statement = f"{PRIVATE} topic, COUNT(DISTINCT user_id) n FROM events JOIN urls USING (url) GROUP BY topic"
    derived, prepared = (
        job.engine.histogram(job.source, job.query, bounds, seed=7)
        for job in (con.prepare(statement).jobs[0], dp.connect({"t": joined}, unit="user_id").prepare(
            f"{PRIVATE} topic, COUNT(DISTINCT user_id) n FROM t GROUP BY topic").jobs[0])
        for bounds in [_bounds(job)]
    )  # fmt: skip
    assert dict(zip(derived.keys["topic"].to_pylist(), derived.counts.tolist(), strict=True)) == dict(
        zip(prepared.keys["topic"].to_pylist(), prepared.counts.tolist(), strict=True)
    )


def _bounds(job: Any) -> Any:
    from dphist.run.strategies import bounds_of

    return bounds_of(job.plan)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"SELECT peple FROM ({PRIVATE} url, COUNT(DISTINCT user_id) people FROM events GROUP BY url)", "peple"),
        (f"SELECT FOOBAR(n) FROM ({PRIVATE} url, COUNT(*) n FROM events GROUP BY url)", "foobar"),
        (f"{PRIVATE} url, COUNT(*) n FROM events GROUP BY url UNION ALL {PRIVATE} COUNT(*) FROM events", "columns"),
        (f"SELECT RAND(), n FROM ({PRIVATE} COUNT(*) n FROM events)", "random"),
        (f"SELECT n FROM ({PRIVATE} COUNT(*) n FROM events), read_csv('/etc/passwd')", "READ_CSV"),
    ],
)
def test_an_outer_query_that_cannot_run_is_refused_before_the_charge(
    statement: str, words: str, tmp_path: Path
) -> None:
    address = tmp_path / "ledger.db"
    with dp.Ledger(address, create=True) as ledger:
        ledger.create(dp.DataSet("events", 5, 1e-6, "user_id", "gdp"))
    con = dp.connect(tables={"events": EVENTS}, unit="user_id", ledger=address, dataset="events")
    with pytest.raises(dp.InvalidParameter, match=words):
        con.sql(statement)
    with dp.Ledger(address) as ledger:
        assert len(ledger.entries("events")) == 1


def test_an_outer_query_that_fails_gives_the_tables_that_are_paid_for(con: Any) -> None:
    fails = f"SELECT CAST(url AS INT64) FROM ({PRIVATE} url, COUNT(DISTINCT user_id) n FROM events GROUP BY url)"
    with pytest.raises(dp.InvalidParameter, match="paid for") as caught:
        con.sql(fails)
    (release,) = caught.value.releases  # type: ignore[attr-defined]
    assert sorted(release.table.column("url").to_pylist()) == [f"/{number}" for number in range(7)]


def test_names_of_a_statement_cannot_be_taken_for_ours(con: Any) -> None:
    """Keys, aliases and queries that are called like the columns and tables that are published."""
    statement = (
        f"WITH private_1 AS (SELECT 'x' AS key_1) {PRIVATE} url AS value_2, COUNT(DISTINCT user_id) AS key_1,"
        " SUM(likes, contribution_bounds_per_group => (0, 9)) AS value_1 FROM events GROUP BY url ORDER BY key_1, value_2"
    )
    table = con.sql(statement).table
    assert table.column_names == ["value_2", "key_1", "key_1_std_error", "value_1", "value_1_std_error"]
    counts = table.column("key_1").to_pylist()
    assert counts == sorted(counts)
    assert min(counts) > 1_000
    named = con.sql(f"{PRIVATE} url AS count, likes AS sum_likes, SUM(likes) FROM events GROUP BY url, sum_likes").table
    assert named.column_names[:3] == ["count", "sum_likes", "sum_likes_3"]
    with pytest.raises(dp.InvalidParameter, match="private_1"):
        con.sql(f"SELECT * FROM private_1, ({PRIVATE} COUNT(*) FROM events)")


def test_public_groups_are_all_there_and_no_others(con: Any) -> None:
    statement = (
        f"SELECT {CLAUSE}, group_selection_strategy = PUBLIC_GROUPS) url, COUNT(DISTINCT user_id) AS n FROM events"
        " RIGHT JOIN (SELECT DISTINCT url FROM urls) USING (url) GROUP BY url"
    )
    answer = con.sql(statement)
    assert sorted(answer.table.column("url").to_pylist()) == ["/0", "/1", "/2", "/nobody"]
    assert answer.releases[0].plan.mechanism.threshold is None
    swapped = statement.replace(
        "events RIGHT JOIN (SELECT DISTINCT url FROM urls)", "(SELECT DISTINCT url FROM urls) k LEFT JOIN events"
    )
    assert con.prepare(swapped).jobs[0].query.public_keys.num_rows == 4
    for wrong in (
        statement.replace("GROUP BY url", "GROUP BY likes").replace(") url,", ") likes,"),
        statement.replace("SELECT DISTINCT url FROM urls", "SELECT url FROM urls"),
        statement.replace("SELECT DISTINCT url FROM urls", "SELECT DISTINCT url, topic FROM urls"),
        statement.replace("RIGHT JOIN", "JOIN"),
        statement.replace(
            " GROUP BY", " RIGHT JOIN (SELECT DISTINCT url AS other FROM urls) o ON o.other = url GROUP BY"
        ),
    ):
        with pytest.raises(dp.InvalidParameter):
            con.prepare(wrong)


def test_a_report_has_value_interval_and_bounds(con: Any) -> None:
    mean = "AVG(likes, contribution_bounds_per_group => (0, 3), report_format => 'JSON') AS m"
    (row,) = con.sql(f"{PRIVATE} SUM(likes, report_format => 'JSON') AS r, {mean} FROM events").table.to_pylist()
    summed, averaged = json.loads(row["r"]), json.loads(row["m"])
    interval = summed["result"]["noise_confidence_interval"]
    assert interval["confidence_level"] == 0.95
    assert interval["lower_bound"] < 0 < interval["upper_bound"]
    assert summed["bounding_report"]["upper_bound"] > 0
    around = averaged["result"]["noise_confidence_interval"]
    assert around["lower_bound"] < averaged["result"]["value"] < around["upper_bound"]
    assert "bounding_report" not in averaged


def test_errors_can_be_left_out_and_are_not_added_to_unions(con: Any) -> None:
    plain = con.sql(f"SELECT {CLAUSE}, std_errors = FALSE) url, COUNT(*) AS n FROM events GROUP BY url").table
    assert plain.column_names == ["url", "n"]
    both = con.sql(f"{PRIVATE} COUNT(*) AS n FROM events UNION ALL {PRIVATE} COUNT(DISTINCT user_id) FROM events")
    assert both.table.column_names == ["n"]
    assert both.metadata()["epsilon"] == 2


def test_a_statement_says_how_many_rows_of_a_unit_a_join_makes(con: Any) -> None:
    """Everybody is in one group, with as many rows as the limit has."""
    rows = f"SELECT user_id, COUNT(*) AS m FROM events, UNNEST({[*range(9)]}) GROUP BY user_id"
    many = f"SUM(m, contribution_bounds_per_group => (0, 100)) AS n FROM ({rows})"
    every = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 30, delta = 1e-8"
    people = con.sql(f"{every}) COUNT(DISTINCT user_id) AS n FROM events").table["n"][0].as_py()
    limited = con.sql(f"{every}, max_joined_rows = 4) {many}").table["n"][0].as_py()
    assert round(limited / people, 1) == 4
    assert con.sql(f"{every}) {many}").table["n"][0].as_py() > 8 * people


def test_having_order_and_limit_see_published_values(con: Any) -> None:
    statement = f"{PRIVATE} url, COUNT(DISTINCT user_id) AS n FROM events GROUP BY url"
    table = con.sql(f"{statement} HAVING n > 10 AND url <> '/3' ORDER BY 2 DESC, url LIMIT 3 OFFSET 1").table
    counts = table.column("n").to_pylist()
    assert len(counts) == 3
    assert counts == sorted(counts, reverse=True)
    assert con.sql(f"{statement} HAVING n < -5").table.num_rows == 0


def test_no_word_of_a_first_line_is_shown(tmp_path: Path) -> None:
    """It may be a record: the file has no header, perhaps."""
    path = tmp_path / "people.csv"
    path.write_text("alice,secret\nbob,other\n")
    con = dp.connect(tables={"t": str(path)})
    for rest in ("privacy_unit_column = alic) COUNT(*) FROM t", "privacy_unit_column = alice) secre FROM t GROUP BY 1"):
        with pytest.raises(dp.InvalidParameter) as caught:
            con.prepare(f"{CLAUSE.replace('WITH', 'SELECT WITH')}, {rest}")
        assert "secret" not in str(caught.value)
        assert "'alice'" not in str(caught.value)


def test_answers_are_written_verified_and_reported(con: Any, tmp_path: Path) -> None:
    answer = con.sql(f"{PRIVATE} url, COUNT(DISTINCT user_id) AS n FROM events GROUP BY url ORDER BY url LIMIT 2")
    for name in ("a.parquet", "a.csv", "a.json"):
        answer.write(tmp_path / name)
        checks = dp.verify(tmp_path / name)
        assert not [check for check in checks if check.failed]
        assert "rows" in {check.name for check in checks if check.passed is None}
    answer.report(tmp_path / "a.html")
    assert "SELECT WITH DIFFERENTIAL_PRIVACY" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_an_answer_that_claims_more_than_its_tables_fails(con: Any, tmp_path: Path) -> None:
    from dphist.files.digests import seal

    answer = con.sql(f"{PRIVATE} COUNT(DISTINCT user_id) AS n FROM events; {PRIVATE} COUNT(*) AS n FROM events")
    answer.write(tmp_path / "a.json")
    beside = tmp_path / "a.json.dphist.json"
    written = json.loads(beside.read_text(encoding="utf-8"))
    changes: tuple[dict[str, Any], ...] = (
        {"epsilon": 0.5},
        {"guarantee": "nothing is told"},
        {"releases": [{**written["releases"][0], "epsilon": 0.5}]},
        {"releases": []},
        {"statement": ""},
        {"outer": written["outer"].replace("private_1", "private_2") + " UNION ALL " + written["outer"]},
    )
    for change in changes:
        forged = {name: value for name, value in {**written, **change}.items() if name != "digest"}
        beside.write_text(json.dumps(seal(forged)), encoding="utf-8")
        assert [check for check in dp.verify(tmp_path / "a.json") if check.failed], change


def test_the_unit_of_joined_tables_is_the_one_that_a_ledger_knows(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with dp.Ledger(address, create=True) as ledger:
        ledger.create(dp.DataSet("events", 5, 1e-6, "user_id", "gdp"))
    tables = {"events": EVENTS, "visits": EVENTS.slice(0, PEOPLE)}
    con = dp.connect(tables=tables, unit="user_id", ledger=address, dataset="events")
    rows = "visits v RIGHT JOIN events e USING (user_id)"
    answer = con.sql(f"{PRIVATE} e.url, COUNT(DISTINCT e.user_id) AS n FROM {rows} GROUP BY 1")
    assert answer.metadata()["unit"] == "user_id"
    assert [receipt.dataset for receipt in answer.receipts] == ["events"]


def test_tables_may_have_any_name_and_be_read_often(tmp_path: Path) -> None:
    """Names of tables are quoted wherever an engine sees them; a CSV file is read twice if it is named twice."""
    odd = 'a"b; DROP TABLE private_1 --'
    (tmp_path / "urls.csv").write_text("url,topic\n/0,news\n/1,art\n")
    con = dp.connect(tables={"events": EVENTS, odd: dp.public(str(tmp_path / "urls.csv"))}, unit="user_id")
    quoted = f"`{odd}`"
    statement = f"{PRIVATE} url, COUNT(DISTINCT user_id) AS n FROM events JOIN {quoted} x USING (url) GROUP BY url"
    both = f"JOIN {quoted} a USING (url) JOIN {quoted} b USING (url)"
    answer = con.sql(f"SELECT n, a.topic, b.topic AS t FROM ({statement}) {both}")
    assert sorted(answer.table.column("topic").to_pylist()) == ["art", "news"]
    assert answer.table.column("topic").to_pylist() == answer.table.column("t").to_pylist()


def public_sources(folder: Path) -> dict[str, object]:
    """One public table as everything that a table can be."""
    pq.write_table(URLS, folder / "urls.parquet")
    for name, part in (("part=a", URLS.slice(0, 2)), ("part=b", URLS.slice(2))):
        (folder / name).mkdir()
        pq.write_table(part, folder / name / "urls.parquet")
    pacsv.write_csv(URLS, folder / "urls.csv")
    (folder / "urls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in URLS.to_pylist()))
    return {
        "parquet": folder / "urls.parquet",
        "several": [folder / "part=a/urls.parquet", folder / "part=b/urls.parquet"],
        "folders": str(folder / "part=*/*.parquet"),
        "csv": str(folder / "urls.csv"),
        "json": dp.Files((folder / "urls.jsonl",), types={"url": "text", "topic": "text"}),
        "arrow": URLS,
        "reader": URLS.to_reader(),
        "pandas": URLS.to_pandas(),
        "polars": pl.from_arrow(URLS),
        "lazy": pl.scan_parquet(folder / "urls.parquet"),
        "relation": duckdb.sql(f"SELECT * FROM '{folder}/urls.parquet'"),
    }


def test_an_outer_query_reads_a_public_table_wherever_it_is(tmp_path: Path) -> None:
    private = f"{PRIVATE} url, COUNT(DISTINCT user_id) AS n FROM events GROUP BY url"
    statement = f"SELECT url, topic FROM ({private}) JOIN urls USING (url) WHERE n > 0 ORDER BY url"
    for name, source in public_sources(tmp_path).items():
        con = dp.connect(tables={"events": EVENTS, "urls": dp.public(source)}, unit="user_id")
        assert con.sql(statement).table.to_pylist() == URLS.slice(0, 3).to_pylist(), name


def test_private_rows_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in EVENTS.to_pylist()))
    source = dp.Files((tmp_path / "events.jsonl",), types={"user_id": "integer", "url": "text"})
    con = dp.connect(tables={"events": source}, unit="user_id")
    assert con.columns("events") == ["user_id", "url"]
    answer = con.sql(f"{PRIVATE} url, COUNT(DISTINCT user_id) AS n FROM events GROUP BY url")
    assert sorted(answer.table.column("url").to_pylist()) == [f"/{number}" for number in range(7)]


def test_columns_of_every_type_bind_before_they_are_read() -> None:
    values = {
        "nothing": pa.nulls(1), "code": pa.array(["a"]).dictionary_encode(), 'odd "name"': pa.array([{"x y": 1, "z": [0.5]}]),
        "cents": pa.array([1], pa.decimal128(5, 2)), "at": pa.array([1], pa.timestamp("us", "UTC")), "raw": pa.array([b"a"]),
        "two": pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "small": pa.array([1], pa.uint8()),
    }  # fmt: skip
    con = dp.connect(tables={"events": EVENTS, "odd": dp.public(pa.table(values))}, unit="user_id")
    statement = f"SELECT odd.*, small + 1 AS more FROM ({PRIVATE} COUNT(DISTINCT user_id) AS n FROM events), odd"
    assert con.sql(statement).table.column_names == [*values, "more"]


@pytest.mark.parametrize("bound", [5.0, -2.5, 0.0])
def test_bounds_may_be_equal(bound: float) -> None:
    """A sum is so many times the bound as people have a value, at the same price; anything else is known before."""
    people = pa.table(
        {"id": list(range(4_000)), "x": [n if n % 4 else None for n in range(4_000)], "k": ["a", "b"] * 2_000}
    )
    con = dp.connect(tables={"t": people}, unit="id")
    pair = f"_per_group => ({bound}, {bound})"
    rows = pair.replace("group", "row")
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-8, max_groups_contributed = 1) k,"
        f" SUM(x, contribution_bounds{pair}), AVG(x, contribution_bounds{pair}) AS mean, VAR_POP(x, contribution_bounds{rows})"
        f" AS var, STDDEV_POP(x, contribution_bounds{rows}) AS dev, PERCENTILE_CONT(x, 0.5, contribution_bounds{rows}) AS half,"
        f" APPROX_QUANTILES(x, 2, contribution_bounds{rows}) AS ends, COUNT(x, contribution_bounds_per_group => (0, 1)) AS n,"
        f" COUNT(*, contribution_bounds_per_group => (0, 0)) AS none,"
        f" SUM(x, contribution_bounds{pair}, report_format => 'JSON') AS r FROM t GROUP BY k ORDER BY k"
    )
    (job,) = con.prepare(statement).jobs
    assert all(one.kind == "sum" and (one.lower, one.upper) == (0, 1) for one in job.plan.request.aggregates)
    answer = con.sql(statement)
    with_value = {row["k"]: row for row in answer.releases[0].table.to_pylist()}
    for row in answer.table.to_pylist():
        known = [row[name] for name in ("mean", "var", "dev", "half", "none")]
        assert known == [bound, 0, 0, bound, 0]
        assert row["ends"] == [bound] * 3
        assert [row[f"{name}_std_error"] for name in ("mean", "var", "dev", "half", "none")] == [0] * 5
        assert row["sum_x"] == pytest.approx(bound * row["n"], abs=abs(bound) * 20)
        assert row["n"] == pytest.approx(1_000 if row["k"] == "a" else 2_000, abs=100)
        released = with_value[row["k"]] if bound else {"sum_x": 0, "sum_x_std_error": 0}
        assert row["sum_x"] == pytest.approx(bound * released["sum_x"])
        assert row["sum_x_std_error"] == pytest.approx(abs(bound) * released["sum_x_std_error"])
        interval = json.loads(row["r"])["result"]["noise_confidence_interval"]
        assert interval["lower_bound"] <= 0 <= interval["upper_bound"]


def test_equal_bounds_alone_release_the_count(con: Any) -> None:
    five = "AVG(likes, contribution_bounds_per_group => (5, 5), epsilon => 0.5)"
    (job,) = con.prepare(f"{PRIVATE} url, {five} AS five FROM events GROUP BY url").jobs
    assert job.plan.request.aggregates == ()
    assert con.sql(f"{PRIVATE} {five} AS five FROM events").table.to_pylist() == [{"five": 5.0, "five_std_error": 0.0}]


def test_having_in_a_subquery_knows_the_names_of_its_select(con: Any) -> None:
    rows = "SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id HAVING n > 2"
    answer = con.sql(f"{PRIVATE} COUNT(DISTINCT user_id) AS people FROM ({rows})")
    assert answer.table.column("people").to_pylist()[0] == pytest.approx(PEOPLE, abs=300)


@pytest.mark.parametrize(
    "call",
    [
        "ARRAY_LENGTH(GENERATE_ARRAY(1, 100000000))", "REPEAT('x', 1000000000)", "REPEAT(REPEAT('x', 9999), 9999)",
        "LPAD('x', 999999999)", "ARRAY_LENGTH(GENERATE_ARRAY(1, CAST(n AS INT64)))",
    ],
)  # fmt: skip
def test_an_outer_query_builds_nothing_huge(con: Any, call: str) -> None:
    with pytest.raises(dp.InvalidParameter, match="sizes of at most"):
        con.prepare(f"SELECT {call} FROM ({PRIVATE} COUNT(*) AS n FROM events)")


def test_units_that_tables_spell_otherwise_are_told_in_full(tmp_path: Path) -> None:
    """A ledger of `person` must not pay for rows whose person is an expression."""
    address = tmp_path / "ledger.db"
    with dp.Ledger(address, create=True) as ledger:
        ledger.create(dp.DataSet("events", 5, 1e-6, "person", "gdp"))
    tables = {"events": EVENTS, "visits": EVENTS}
    units = {"events": "person=user_id", "visits": "person= user_id "}
    con = dp.connect(tables=tables, unit=units, ledger=address, dataset="events")
    statement = f"{PRIVATE} COUNT(DISTINCT person) AS n FROM events JOIN visits USING (person)"
    assert con.prepare(statement).jobs[0].selection.unit == '"person"=user_id in events, user_id in visits'
    with pytest.raises(dp.InvalidParameter, match="person"):
        con.sql(statement)


def test_a_join_in_brackets_is_one(con: Any) -> None:
    joined = f"{PRIVATE} topic, COUNT(DISTINCT user_id) AS n FROM (events JOIN urls USING (url)) GROUP BY topic"
    assert con.prepare(joined).jobs[0].selection.unit == "user_id"
    with pytest.raises(dp.InvalidParameter, match="PERCENT"):
        con.prepare(f"{PRIVATE} url, COUNT(*) AS n FROM events GROUP BY url LIMIT 50 PERCENT")


def test_parts_of_a_budget_add_up_as_they_are_written() -> None:
    """0.1 and 0.2 are 0.3, not a little more; the parts of two quantiles of one column are paid for together."""
    con = dp.connect(tables={"events": EVENTS}, unit="user_id", epsilon=0.3, delta=1e-6)
    each = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}) COUNT(DISTINCT user_id) AS n FROM events"
    script = con.prepare("; ".join(each.format(part) for part in ("0.1", "0.2")))
    assert [job.plan.request.epsilon for job in script.jobs] == [0.1, 0.2]
    with pytest.raises(dp.InvalidParameter, match="at most epsilon"):
        con.prepare("; ".join(each.format(part) for part in ("0.1", "0.2000001")))
    quantile = "PERCENTILE_CONT(amount, {}, contribution_bounds_per_row => (0, 10), epsilon => {})"
    both = f"{PRIVATE} url, {quantile.format(0.25, 0.3)} a, {quantile.format(0.75, 0.2)} b FROM events GROUP BY url"
    (job,) = dp.connect(tables={"events": EVENTS}, unit="user_id").prepare(both).jobs
    assert job.plan.request.sums_budget == pytest.approx(1.0)  # 0.5 of epsilon for them, 0.5 for the count


def test_a_public_table_that_cannot_be_read_does_not_lose_what_is_paid_for() -> None:
    def batches() -> Any:
        yield pa.record_batch({"url": ["/0"]})
        raise OSError("the disk is gone")

    urls = pa.RecordBatchReader.from_batches(pa.schema({"url": pa.string()}), batches())
    con = dp.connect(tables={"events": EVENTS, "urls": dp.public(urls)}, unit="user_id")
    with pytest.raises(dp.DphistError) as caught:
        con.sql(
            f"SELECT n FROM ({PRIVATE} url, COUNT(DISTINCT user_id) n FROM events GROUP BY url) JOIN urls USING (url)"
        )
    assert [release.table.num_rows for release in caught.value.releases] == [7]  # type: ignore[attr-defined]


def test_a_plan_has_the_bounds_and_columns_that_the_statement_names(con: Any) -> None:
    statement = (
        f"{PRIVATE} url, SUM(likes, contribution_bounds_per_group => (-1, 2.5)), AVG(amount, contribution_bounds_per_group"
        " => (0, 7)), VAR_POP(likes, contribution_bounds_per_row => (1, 3)), STDDEV_POP(amount, contribution_bounds_per_row"
        " => (2, 9)), PERCENTILE_CONT(amount, 0.9, contribution_bounds_per_row => (4, 8)), COUNT(*,"
        " contribution_bounds_per_group => (0, 4)), COUNT(DISTINCT amount, contribution_bounds_per_group => (0, 3)),"
        " SUM(amount) FROM events GROUP BY url"
    )
    request = con.prepare(statement).jobs[0].plan.request
    assert {(one.kind, one.column, one.lower, one.upper) for one in request.aggregates} == {
        ("sum", "likes", -1, 2.5), ("mean", "amount", 0, 7), ("variance", "likes", 1, 3), ("std", "amount", 2, 9),
        ("quantile", "amount", 4, 8), ("rows", None, 0, 4), ("distinct", "amount", 0, 3), ("sum", "amount", None, None),
    }  # fmt: skip
    assert (request.epsilon, request.delta, request.max_groups) == (1, 1e-8, 3)


def test_an_answer_has_the_numbers_of_its_release(con: Any) -> None:
    """Each value, and beside it its own error."""
    statement = (
        f"{PRIVATE} url, COUNT(*, contribution_bounds_per_group => (0, 4)) AS views, COUNT(DISTINCT user_id) AS people,"
        " SUM(likes, contribution_bounds_per_group => (0, 9)) AS likes, AVG(amount, contribution_bounds_per_group => (0, 10))"
        " AS mean, PERCENTILE_CONT(amount, 0.5, contribution_bounds_per_row => (0, 10)) AS half FROM events GROUP BY url"
    )
    answer = con.sql(statement)
    pairs = {
        "views": "rows", "people": "count", "likes": "sum_likes", "mean": "mean_amount", "half": "p50_amount",
    }  # fmt: skip
    released = answer.releases[0].table
    assert answer.table.column("url").to_pylist() == released.column("url").to_pylist()
    for name, column in pairs.items():
        for suffix in ("", "_std_error"):
            assert answer.table.column(name + suffix).to_pylist() == released.column(column + suffix).to_pylist()


def test_selects_that_fit_alone_and_not_together_charge_nothing(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with dp.Ledger(address, create=True) as ledger:
        ledger.create(dp.DataSet("events", 1.5, 1e-6, "user_id", "basic"))
    con = dp.connect(tables={"events": EVENTS}, unit="user_id", ledger=address, dataset="events")
    count = f"{PRIVATE} COUNT(DISTINCT user_id) AS n FROM events"
    with pytest.raises(dp.BudgetExceeded, match="together"):
        con.script(f"{count}; {count}")
    with dp.Ledger(address) as ledger:
        assert len(ledger.entries("events")) == 1
    assert con.sql(count).table.num_rows == 1
