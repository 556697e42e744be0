"""Derived sources: what may meet, what is refused, files of every kind, and that nothing else about a run changes."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from engine_oracle import ENGINES, Engine, every_engine, groups_of, quick
from relation_oracle import engine_rows, exact_total

import dphist as dp
from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.distinct import DistinctOfUnit
from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines import engine_for, files_of
from dphist.engines.base import BOUNDING, Reading
from dphist.engines.duckdb.derived import public_rows
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.histogram import ContributionBounds
from dphist.engines.parser import read_expression
from dphist.engines.query import EngineOptions, GroupByQuery, Key, PerformanceSettings
from dphist.engines.relations import (
    Combine,
    Derived,
    Filter,
    Fold,
    Folded,
    FoldFunction,
    Join,
    Matching,
    Relation,
    Scan,
    Select,
    Unproved,
    Values,
    owner,
)
from dphist.engines.source import Files
from dphist.errors import InvalidParameter, UnreadableSource

ENGINE = DuckDBEngine()
EVENTS = Scan("events", {"user": "user", "url": "url"}, "user", unit_kind="user")
URLS = Scan("urls", {"url_2": "url", "site": "site"})
SITES = Join(EVENTS, URLS, "inner", (("url", "url_2"),))
URL_TABLE = pa.table({"url": ["a", "b", "b"], "site": ["A", "B", "C"]})
SITE = GroupByQuery("user", (Key("site"),))


def counted(source: Any, query: GroupByQuery = SITE, engine: Engine = ENGINE) -> dict[Any, Any]:
    return dict(groups_of(engine.histogram(source, query, ContributionBounds(5), seed=1)))


def scan(table: str, **types: Any) -> Scan:
    """Of a table with these columns; the first is the unit's unless the table is public."""
    names = {f"{table}_{name}": name for name in types}
    return Scan(table, names) if table == "public" else Scan(table, names, next(iter(names)), unit_kind="user")


def table_of(**types: Any) -> pa.Table:
    return pa.table({name: pa.nulls(0, kind) for name, kind in types.items()})


WHOLE, SMALL, DOUBLE, TEXT, DAY, DECIMAL = (
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.string(),
    pa.date32(),
    pa.decimal128(9),
)


@every_engine
@pytest.mark.parametrize(
    ("unit", "others", "fits"),
    [
        ((WHOLE, WHOLE), (DECIMAL, WHOLE), False),
        ((TEXT, TEXT), (SMALL, DOUBLE), True),
        ((WHOLE, SMALL), (TEXT, TEXT), True),  # no loss here; doubles would make one unit of two
        ((WHOLE, DOUBLE), (TEXT, TEXT), False),
        ((WHOLE, WHOLE), (TEXT, WHOLE), False),
        ((WHOLE, WHOLE), (DAY, TEXT), False),
        ((WHOLE, WHOLE), (WHOLE, SMALL), True),
    ],
)
def test_only_values_of_one_type_or_numbers_meet(engine: Engine, unit: Any, others: Any, fits: bool) -> None:
    left, right = ({"u": unit[i], "x": others[i]} for i in (0, 1))
    one, other = scan("one", **left), scan("other", **right)
    tables = {"one": table_of(**left), "other": table_of(**right)}
    joined = Join(one, other, "inner", (("one_u", "other_u"), ("one_x", "other_x")))
    columns = (("u", "one_u", "other_u"), ("x", "one_x", "other_x"))
    of_both = GroupByQuery("u", (Key("x"),))
    for relation, asked in (
        (joined, GroupByQuery("one_u", (Key("one_x"),))),
        (Combine(one, other, "union all", columns), of_both),
        (Combine(one, other, "except", columns), of_both),
    ):
        if fits:
            with engine.open(Derived(relation, tables), asked):
                continue
        with pytest.raises(InvalidParameter, match=r"one type on both sides of .* and .*CAST"):
            counted(Derived(relation, tables), asked, engine)


@pytest.mark.parametrize(
    ("kind", "function"), [(TEXT, "sum"), (pa.bool_(), "sum"), (DAY, "avg"), (pa.list_(WHOLE), "min")]
)
def test_aggregates_take_the_types_that_they_were_made_for(kind: Any, function: FoldFunction) -> None:
    one = {"u": WHOLE, "x": kind}
    fold = Fold(scan("one", **one), ("one_u",), {"n": Folded(function, "one_x")}, place=(3, 9))
    with pytest.raises(InvalidParameter, match=r"numbers in|simple type") as refusal:
        counted(Derived(fold, {"one": table_of(**one)}), GroupByQuery("one_u", (Key("n"),)))
    assert refusal.value.place == (3, 9)


def test_a_list_is_no_key() -> None:
    one = {"u": WHOLE, "x": pa.list_(WHOLE)}
    with pytest.raises(InvalidParameter, match="simple type"):
        counted(
            Derived(Fold(scan("one", **one), ("one_u", "one_x")), {"one": table_of(**one)}),
            GroupByQuery("one_u", (Key("all", "1"),)),
        )


@every_engine
def test_long_numbers_that_are_equal_as_doubles_are_two_units(engine: Engine) -> None:
    """And so are texts that spell one number."""
    of_texts = () if quick(engine) else (("1", "01"),)  # such are in a tree of everything
    for first, second in ((2**53, 2**53 + 1), *of_texts):
        tables = {
            "one": pa.table({"u": [first], "x": ["a"]}),
            "other": pa.table({"u": [second, first], "x": ["b", "c"]}),
        }
        joined = Join(scan("one", u=0, x=0), scan("other", u=0, x=0), "inner", (("one_u", "other_u"),))
        query = GroupByQuery("one_u", (Key("one_x"), Key("other_x")))
        assert counted(Derived(joined, tables), query, engine) == {("a", "c"): (1,)}


@every_engine
@pytest.mark.parametrize(
    ("listed", "among", "outside"),
    [([1, None], {1}, set()), ([1], {1}, {2}), ([None], set(), set()), ([], set(), {1, 2, None})],
)
def test_in_follows_the_logic_of_three_values(
    engine: Engine, listed: list[int | None], among: set[Any], outside: set[Any]
) -> None:
    tables = {"one": pa.table({"u": [7, 7, 7], "x": [1, 2, None]}), "public": pa.table({"v": pa.array(listed, WHOLE)})}
    for negated, want in ((False, among), (True, outside)):
        relation = Matching(scan("one", u=0, x=0), scan("public", v=0), "one_x", negated)
        got = counted(Derived(relation, tables), GroupByQuery("one_u", (Key("one_x"),)), engine)
        assert {key for (key,) in got} == want


@every_engine
@pytest.mark.parametrize("nobody", [True, False])
def test_a_list_of_units_is_that_of_everybody_who_has_rows_in_it(engine: Engine, nobody: bool) -> None:
    """A row of nobody, which decides for all others in a public list, decides nothing."""
    listed = pa.table({"u": pa.array([1, 1, 4, *([None] if nobody else [])], WHOLE)})
    tables = {"one": pa.table({"u": [1, 1, 2, 3], "x": ["a", "b", "b", "c"]}), "other": listed}
    for negated, want in ((False, {("a",): (1,), ("b",): (1,)}), (True, {("b",): (1,), ("c",): (1,)})):
        relation = Matching(scan("one", u=0, x=0), scan("other", u=0), "one_u", negated)
        assert counted(Derived(relation, tables), GroupByQuery("one_u", (Key("one_x"),)), engine) == want


def test_a_list_of_more_than_units_is_none_of_units() -> None:
    with pytest.raises(Unproved, match="another private list"):
        owner(Matching(scan("one", u=0, x=0), scan("other", u=0, x=0), "one_u"))


@every_engine
def test_a_sum_does_not_depend_on_the_order_of_rows(engine: Engine) -> None:
    """1e300 cancels or does not, by who comes first. Whole sums are exact; one that 64 bits cannot hold is null."""
    values = [1e300, 1.0, -1e300, 0.1, 2.0**-40, 1e16, -1e16, 3.0]
    rows = [(unit, value) for unit in range(3) for value in values[: 8 - unit]]
    relation = Fold(
        scan("one", u=0, x=0, w=0),
        ("one_u",),
        {"s": Folded("sum", "one_x"), "m": Folded("avg", "one_x"), "w": Folded("sum", "one_w")},
    )
    found = set()
    for seed in range(6 if engine is ENGINES["duckdb"] else 2):
        random.Random(seed).shuffle(rows)
        table = pa.table(
            {
                "u": [u for u, _ in rows],
                "x": [x for _, x in rows],
                "w": [2**62 if u == 2 else 2**53 + 1 for u, _ in rows],
            }
        )
        got = engine_rows(engine, Derived(relation, {"one": table}), "one_u")
        found.add(tuple(sorted(got)))
    ((first, *_, last),) = found
    assert first[3] == repr(8 * (2**53 + 1))
    assert last[3] == "None"


@every_engine
def test_sums_are_exact_over_the_whole_range_and_infinities_are_the_largest_value(engine: Engine) -> None:
    rng = random.Random(5)
    wide = [rng.gauss(0, 1) * 10.0 ** rng.randrange(-60, 60) for _ in range(500)]
    money = [round(rng.uniform(-1e9, 1e9), 2) for _ in range(5_000)]
    odd = [math.inf, -math.inf, 0.1, math.inf, -1e300]
    units = {
        1: wide,
        2: money,
        3: [math.inf, -math.inf],
        4: odd,
        5: [5e-324, -0.0],
        6: [math.nan],
        7: [3 * 2.0**-155] * 9,
    }
    rows = [(unit, value) for unit, values in units.items() for value in values]
    table = pa.table({"u": [u for u, _ in rows], "x": [x for _, x in rows]})
    fold = Fold(scan("one", u=0, x=0), ("one_u",), {"s": Folded("sum", "one_x")})
    got = {unit: total for unit, total in engine_rows(engine, Derived(fold, {"one": table}), "one_u")}  # noqa: C416
    want = {unit: exact_total(values) for unit, values in units.items() if unit != 6}
    assert got == {str(unit): repr(value) for unit, value in want.items()} | {"6": "None"}
    assert want[2] == float(sum(map(Fraction, money)))
    assert (want[3], want[4], want[5], want[7]) == (0.0, 0.1, 0.0, 27 * 2.0**-155)


@pytest.mark.parametrize("unit", ["url", "lower(user)", "other", ["user", "url"], 'who="url"'])
def test_only_the_unit_that_is_proved_is_taken(unit: Any) -> None:
    tables = {"events": pa.table({"user": ["x"], "url": ["a"]}), "urls": URL_TABLE}
    for good in ("user", 'who="user"'):
        assert counted(Derived(SITES, tables), GroupByQuery(good, (Key("site"),))) == {("A",): (1,)}
    with pytest.raises(InvalidParameter, match="Expected user as the unit, whose rows these are"):
        counted(Derived(SITES, tables), GroupByQuery(unit, (Key("site"),)))


def test_public_rows_alone_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="rows of some unit"):
        counted(Derived(URLS, {"urls": URL_TABLE}), GroupByQuery("url_2", (Key("site"),)))


@every_engine
@pytest.mark.parametrize("expression", [None, "coalesce(u, u)"])
def test_a_unit_is_never_read_shorter_than_it_is(engine: Engine, expression: str | None) -> None:
    """Two people of one microsecond would be bounded as one."""
    kind = pa.time64("ns") if engine is ENGINES["duckdb"] else pa.timestamp("ns")
    table = pa.table({"u": pa.array([1, 2], kind), "x": [1, 2]})
    read = Scan("t", {"u": "u", "x": "x"}, "u", unit_kind="u")
    if expression is not None:
        read = Scan("t", {"x": "x"}, "who", expression, "who")
    with pytest.raises(InvalidParameter, match="'u' to be read as it is"):
        counted(Derived(read, {"t": table}), GroupByQuery(str(read.unit), (Key("x"),)), engine)


@every_engine
def test_a_unit_may_be_an_expression_of_the_tables_own_columns(engine: Engine) -> None:
    tables = {"events": pa.table({"user": ["X", "x", "y"], "url": ["a", "a", "b"]}), "urls": URL_TABLE}
    read = Scan("events", {"url": "url"}, "who", 'lower("user")', "who")
    joined = Join(read, URLS, "inner", (("url", "url_2"),))
    query = GroupByQuery("who", (Key("site"),))
    assert counted(Derived(joined, tables), query, engine) == {("A",): (1,), ("B",): (1,), ("C",): (1,)}
    with pytest.raises(InvalidParameter, match="a column in the unit"):
        counted(Derived(Scan("events", {"url": "url"}, "who", "1", "who"), tables), GroupByQuery("who", (Key("url"),)))


MEASURES = (
    SumOfUnit("v", 0.0, 16.0, lattice=Lattice(0.0, 2.0**-16)),
    DistinctOfUnit("w", 0.0, 2.0),
    RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5)),
)


@every_engine
def test_a_join_is_counted_like_the_table_that_it_makes(engine: Engine) -> None:
    """With measures, a condition, public keys and a bound that is met: the same seed, the same groups of each unit."""
    rng = random.Random(1)
    users, urls = [rng.randrange(20) for _ in range(300)], [rng.choice("abcdefg") for _ in range(300)]
    values = [rng.choice([None, 0.5, float("nan"), 3.0]) for _ in range(300)]
    events = pa.table({"user": users, "url": urls, "v": values, "w": values})
    sites = {url: f"site {url}" for url in "abcde"}
    public = pa.table({"url": list(sites), "site": list(sites.values())})
    rows = [(u, sites.get(url), v) for u, url, v in zip(users, urls, values, strict=True)]
    made = pa.table({"user": users, "site": [site for _, site, _ in rows], "v": values, "w": values})
    columns = {name: name for name in ("user", "url", "v", "w")}
    relation = Join(Scan("events", columns, "user", unit_kind="user"), URLS, "left", (("url", "url_2"),))
    listed = pa.table({"site": ["site a", "site z", None]})
    queries = [
        GroupByQuery("user", (Key("site"),), MEASURES[:1], public_keys=listed, want_total=True),
        GroupByQuery("user", (Key("site"),), MEASURES, where="v > 0 OR v IS NULL", want_total=True),
    ]
    for query in queries if engine is ENGINES["duckdb"] else queries[:1]:  # Spark elects slowly
        got, want = (
            engine.histogram(source, query, ContributionBounds(2), seed=3)
            for source in (Derived(relation, {"events": events, "urls": public}), made)
        )
        assert groups_of(got) == groups_of(want)
        assert got.total_units == want.total_units


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
@every_engine
def test_files_of_every_kind_join(engine: Engine, kind: str, tmp_path: Path) -> None:
    """Of text files all columns are text; each is read twice here."""
    events = pa.table({"user": ["1", "01", "2", None], "url": ["a", "b", "b", "a"]})
    for name, table in (("events", events), ("urls", URL_TABLE)):
        if kind == "parquet":
            pq.write_table(table, tmp_path / f"{name}.parquet")
        elif kind == "csv":
            pa.csv.write_csv(table, tmp_path / f"{name}.csv")
        else:
            table.to_pandas().to_json(tmp_path / f"{name}.json", orient="records", lines=True)
    types = {"events": {"user": "text", "url": "text"}, "urls": {"url": "text", "site": "text"}}
    tables = {
        name: Files((tmp_path / f"{name}.{kind}",), types=types[name] if kind == "json" else {}) for name in types
    }
    twice = Join(SITES, Scan("events", {"again": "user"}, "again", unit_kind="user"), "inner", (("user", "again"),))
    assert counted(Derived(twice, tables), engine=engine) == {("A",): (1,), ("B",): (2,), ("C",): (2,)}
    files = {Path(path) for path in files_of(Derived(twice, tables))}
    assert files == {tmp_path / f"{name}.{kind}" for name in types}


@pytest.mark.parametrize("public", ["csv", "json", "arrow", "reader"])
def test_a_value_that_the_reader_does_not_take_leaves_the_others_as_they_are(tmp_path: Path, public: str) -> None:
    """What has been read by then is read once more: a reader of one pass would be empty."""
    urls: Any = tmp_path / "urls.csv"
    pa.csv.write_csv(URL_TABLE, urls)
    if public == "json":
        URL_TABLE.to_pandas().to_json(tmp_path / "urls.json", orient="records", lines=True)
        urls = Files((tmp_path / "urls.json",), types={"url": "text", "site": "text"})
    texts = pa.array([b"a", b"b", b"a"], pa.binary())
    odd = pa.array([b"a", b"b", b"\xff"], pa.binary())
    for name, column, want in (("plain", texts, 2), ("odd", odd, 1)):
        view = pa.Array.from_buffers(pa.string(), 3, column.buffers())
        pq.write_table(pa.table({"user": [1, 2, 3], "url": view}), tmp_path / f"{name}.parquet")
        source = {"csv": urls, "json": urls, "arrow": URL_TABLE, "reader": URL_TABLE.to_reader()}[public]
        tables = {"events": tmp_path / f"{name}.parquet", "urls": source}
        assert counted(Derived(SITES, tables)) == {("A",): (want,), ("B",): (1,), ("C",): (1,)}


def test_a_public_list_is_read_with_null_for_what_is_no_text(tmp_path: Path) -> None:
    odd = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"], pa.binary()).buffers())
    pq.write_table(pa.table({"url": odd}), tmp_path / "urls.parquet")
    pa.csv.write_csv(URL_TABLE, tmp_path / "sites.csv")
    joined = Join(Scan("urls", {"url": "url"}), Scan("sites", {"u": "url", "site": "site"}), "left", (("url", "u"),))
    derived = Derived(joined, {"urls": tmp_path / "urls.parquet", "sites": tmp_path / "sites.csv"})
    rows = public_rows(derived, PerformanceSettings()).to_pylist()
    assert sorted(map(repr, rows)) == sorted(
        map(repr, [{"url": "a", "u": "a", "site": "A"}, {"url": None, "u": None, "site": None}])
    )
    with pytest.raises(InvalidParameter, match="public tables"):
        public_rows(Derived(EVENTS, {"events": tmp_path / "urls.parquet"}), PerformanceSettings())


def test_a_reader_of_one_pass_is_refused_twice() -> None:
    twice = Join(SITES, Scan("urls", {"url_3": "url"}), "left", (("url", "url_3"),))
    events = pa.table({"user": [1], "url": ["a"]})
    assert counted(Derived(SITES, {"events": events, "urls": URL_TABLE.to_reader()})) == {("A",): (1,)}
    with pytest.raises(InvalidParameter, match=r"read twice as urls.*read_all"):
        counted(Derived(twice, {"events": events, "urls": URL_TABLE.to_reader()}))


NAMES = ['a"b', "x; DROP TABLE y", "step_1", "unit", "key_1", "SELECT", "two\nlines", "a`b", "source", "column_0"]


@every_engine
def test_names_are_never_sql(engine: Engine) -> None:
    users = pa.table({"unit": [1, 2, 2], **{name: ["x", "y", None] for name in NAMES if name != "unit"}})
    public = pa.table({name: ["x", "y"] for name in NAMES})
    own = Scan("; --\n", {name: name for name in users.column_names}, "unit", unit_kind="unit")
    other = Scan('"', {f"{name}_2": name for name in NAMES})
    joined = Join(own, other, "left", tuple((name, f"{name}_2") for name in NAMES if name != "unit"))
    folded = Fold(
        Filter(joined, read_expression('"x; DROP TABLE y" <> \'"; --\'')),
        ("unit", *NAMES[:3]),
        {"two\nlines": Folded("count", 'a"b')},
    )
    renamed = Select(
        folded,
        {"unit": "unit", "SELECT": 'a"b', "step_1": "step_1"},
        {"relation_1": read_expression('"two\nlines" + 1')},
    )
    derived = Derived(renamed, {"; --\n": users, '"': public})
    query = GroupByQuery("unit", tuple(map(Key, ("SELECT", "step_1", "relation_1"))))
    assert counted(derived, query, engine) == {("x", "x", 2): (1,), ("y", "y", 2): (1,)}
    text = engine.explain(query, ContributionBounds(2), derived)
    assert text.count("CREATE TEMP VIEW") >= 6
    assert "COUNT(" in text
    assert "LEFT JOIN" in text
    assert all(line.startswith("--") for line in text.splitlines() if "the table" in line)


def test_a_run_joins_by_hash_and_shows_how_much_it_has_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1], "url": ["a"], "other": [0]}), tmp_path / "events.parquet")
    pa.csv.write_csv(URL_TABLE, tmp_path / "urls.csv")
    tables = {"events": tmp_path / "events.parquet", "urls": tmp_path / "urls.csv"}
    listed = Select(URLS, {"url_4": "url_2"})
    relation = Matching(Join(SITES, Values(("v",), (("'A'",),)), "left", (("site", "v"),)), listed, "url")
    told: list[str] = []
    with ENGINE.open(Derived(relation, tables), SITE, progress=told.append) as records:
        plan = records.connection.execute("EXPLAIN SELECT * FROM source").fetchall()[0][1]
        assert plan.count("Hash Join") == 4  # one of them counts partners
        assert "Nested" not in plan
        assert [(Path(path).name, names) for path, names in records.attached.inputs] == [
            ("events.parquet", ["user", "url"]),
            ("urls.csv", ["url", "site"]),
            ("urls.csv", ["url"]),
        ]
        assert groups_of(records.histogram(ContributionBounds(1))) == {("A",): (1,)}
    assert [type(phase) for phase in told if phase == BOUNDING] == [Reading]


def test_no_word_of_a_first_line_is_shown(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("alice,secret\n1,2\n")
    tables = {"events": tmp_path / "events.csv", "urls": URL_TABLE}
    with pytest.raises(InvalidParameter) as refusal:
        counted(Derived(SITES, tables))
    assert "alice" not in str(refusal.value)
    whole = Scan("events", {"alice": "alice", "secret": "secret"}, "alice", unit_kind="alice")
    with pytest.raises(InvalidParameter) as refusal:
        counted(Derived(whole, tables), GroupByQuery("alice", (Key("town"),)))
    assert "secret" not in str(refusal.value)


def test_a_release_takes_a_derived_source_like_any_other(tmp_path: Path) -> None:
    users = list(range(2_000))
    pq.write_table(
        pa.table({"user": users, "url": ["ab"[u % 2] for u in users], "v": [float(u % 5) for u in users]}),
        tmp_path / "events.parquet",
    )
    columns = {name: name for name in ("user", "url", "v")}
    sites = Join(Scan("events", columns, "user", unit_kind="user"), URLS, "inner", (("url", "url_2"),))
    derived = Derived(sites, {"events": tmp_path / "events.parquet", "urls": URL_TABLE})
    budget: dict[str, Any] = {"unit": "user", "epsilon": 10, "delta": 1e-8}
    for more in (
        {"max_groups": 2},
        {},
        {"max_groups": 2, "sums": {"v": (0, 4)}},
        {"max_groups": 2, "sums": {"v": "auto"}},
    ):
        table = dp.release(derived, by="site", **budget, **more).to_arrow()
        assert sorted(table.column("site").to_pylist()) == ["A", "B", "C"]
        assert all(abs(count - 1000) < 60 for count in table.column("count").to_pylist())
    with pytest.raises(InvalidParameter, match="not read by the same command"):
        dp.release(derived, by="site", max_groups=2, **budget).write(tmp_path / "events.parquet")


def test_the_engine_of_a_derived_source_is_that_of_its_tables() -> None:
    assert isinstance(engine_for(Derived(URLS, {"urls": URL_TABLE}), EngineOptions()), DuckDBEngine)
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe", "sparkSession": None})()
    assert type(engine_for(Derived(URLS, {"urls": frame}), EngineOptions())).__name__ == "SparkEngine"
    assert ENGINE.columns(Derived(SITES, {})) == ["user", "url", "url_2", "site"]


@every_engine
@pytest.mark.parametrize("relation", [Scan("events", {"user": "user"}, "user"), EVENTS])
def test_a_source_that_cannot_be_read_is_refused(engine: Engine, relation: Relation) -> None:
    with pytest.raises(UnreadableSource):
        counted(Derived(relation, {"events": object()}), GroupByQuery("user", (Key("all", "1"),)), engine)
