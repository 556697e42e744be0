"""What a unit of several parts or of an expression is called wherever a guarantee is told, stored, compared or charged."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.columns import Unit, not_protected, one_of, protected, split_name, split_unit, unit_of
from dphist.files.formats import write_table
from dphist.ledger import DataSet, Ledger
from dphist.planning.plan import Plan
from dphist.run.job import prepare
from dphist.run.strategies import explain

EVENTS = pa.table(
    {
        "person": [f"p{i % 300}" for i in range(3000)],
        "email": [f"{'Pp'[i % 2]}{i // 2 % 300}" for i in range(3000)],
        "day": [i // 300 for i in range(3000)],
        "item": [f"i{i % 3}" for i in range(3000)],
        "price": [float(i % 5) for i in range(3000)],
        "quantity": [i % 3 for i in range(3000)],
    }
)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SEVERAL = ["person", "day"]
NAMED = "all records of one combination of person and day changes"
ALONE = "Each combination is protected by itself, not all records of one person or one day."
UNITS: dict[str, tuple[Any, str]] = {
    "a column": ("person", "all records of one unit changes"),
    "an expression": ("lower(email)", "all records of one value of lower(email) changes"),
    "several": (SEVERAL, NAMED),
    "several, one computed": (
        ["person", "week=day // 7"],
        "all records of one combination of person and week=day // 7 changes",
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_a_release_names_its_unit_and_is_verified(name: str, tmp_path: Path) -> None:
    unit, words = UNITS[name]
    form = "csv" if name == "several" else "parquet"
    sums = {"revenue=price * quantity": (0, 8), "price": (0, 4)}
    release = dp.release(EVENTS, unit=unit, by="item", max_groups=3, sums=sums, **BUDGET)
    release.write(tmp_path / f"out.{form}")
    metadata = release.metadata()
    assert metadata["unit"] == unit_of(unit)
    assert words in metadata["guarantee"]
    assert (ALONE.partition(",")[0] in metadata["guarantee"]) == isinstance(unit, list)
    assert all(check.passed for check in dp.verify(tmp_path / f"out.{form}") if check.state != "not checked")
    assert "sum_revenue" in release.table.column_names
    job = prepare(EVENTS, unit=unit, by="item", max_groups=3, sums=sums, **BUDGET)
    told = " ".join(explain(job).split())
    assert told.count(words.removesuffix(" changes")) == 2  # in the plan, and where noise is drawn
    assert "values of price * quantity in the group" in told
    page = release.html()
    assert ("of one combination of person and day" in page) == (unit == SEVERAL)
    assert ("unit of privacy: person and day" in page) == (unit == SEVERAL)
    assert (html.escape(ALONE.partition(",")[0]) in page) == isinstance(unit, list)


def test_every_other_command_names_it_too(tmp_path: Path) -> None:
    selected = dp.select(EVENTS, unit=SEVERAL, by="item", **BUDGET)
    assert NAMED in selected.metadata()["guarantee"]
    largest = dp.top_k(EVENTS, unit=SEVERAL, by="item", k=2, **BUDGET)
    assert NAMED in largest.metadata()["guarantee"]
    largest.write(tmp_path / "top.parquet")
    assert all(check.passed for check in dp.verify(tmp_path / "top.parquet") if check.state != "not checked")
    answer = dp.stat("max", EVENTS, unit=SEVERAL, column="price", lower=0, upper=8, error=1, epsilon=1.0)
    assert f"{NAMED} the" in str(answer)
    assert ALONE in answer.to_data()["guarantee"]
    session = dp.Session.start(tmp_path / "s.json", unit=SEVERAL, results=5, queries=2, **BUDGET)
    assert NAMED in session.guarantee
    assert "the unit is person and day" in " ".join(str(session).split())
    ranked, _ = dp.Session(tmp_path / "s.json").query(EVENTS, by="item", k=2)
    assert ranked.num_rows == 2
    stream = dp.Continual.start(tmp_path / "c", unit=SEVERAL, by="item", rounds=4, max_groups=1, **BUDGET)
    assert "what one combination of person and day adds in one round" in " ".join(str(stream).split())
    running = stream.add(EVENTS, "first")
    assert running.table.num_rows == 3
    running.write(tmp_path / "running.parquet")
    assert all(check.passed for check in dp.verify(tmp_path / "running.parquet") if check.state != "not checked")


def test_each_day_of_a_person_counts() -> None:
    """3,000 days of persons, 300 persons: the noise has a standard deviation of some units."""
    days, people = (
        dp.release(EVENTS, unit=unit, by="all=1", max_groups=1, epsilon=5.0, delta=1e-6)
        .table.column("count")[0]
        .as_py()
        for unit in (SEVERAL, "person")
    )
    assert abs(days - 3000) < 40
    assert abs(people - 300) < 40


def test_a_ledger_tells_units_apart(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as ledger:
        ledger.create(DataSet("days", 3.0, 1e-5, ("person", "day"), "gdp"))
        ledger.create(DataSet("people", 3.0, 1e-5, "person", "gdp"))
        assert ledger.dataset("days").unit == ("person", "day")
        assert "for all records of one combination of person and day;" in str(ledger.status("days"))
        assert "for all records of one person;" in str(ledger.status("people"))
    paid = dp.release(EVENTS, unit=SEVERAL, by="item", max_groups=3, ledger=address, dataset="days", **BUDGET)
    paid.write(tmp_path / "out.parquet")
    states = {check.name: check.state for check in dp.verify(tmp_path / "out.parquet", ledger=address)}
    assert states["ledger"] == "passed"
    with Ledger(address) as ledger:
        assert NAMED in ledger.entries("days")[1].body["guarantee"]
    for unit, dataset, got in (("person", "days", "'person'"), (SEVERAL, "people", "'person and day'")):
        with pytest.raises(dp.InvalidParameter, match=f"protects, got {got}"):
            dp.release(EVENTS, unit=unit, by="item", max_groups=3, ledger=address, dataset=dataset, **BUDGET)


def test_the_command_line_takes_several_units_and_named_expressions(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    asked = ["--unit", "lower(email)", "--unit", "week=day // 7", "--by", "item", "--epsilon", "1", "--delta", "1e-6"]
    values = ["--sum", "revenue=price::DOUBLE * quantity:0:8", "--mean", "late=CASE WHEN day > 4 THEN 1 ELSE 0 END:0:1"]
    done = dphist("release", "events.parquet", *asked, *values, "--max-groups", "3", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "one combination of lower(email) and week=day // 7" in done.stdout
    assert "not all records of one lower(email) or one week." in done.stdout
    stored = json.loads(pq.read_schema(tmp_path / "out.parquet").metadata[b"dphist"])
    assert stored["unit"] == ["lower(email)", "week=day // 7"]
    measures = {one["column"]: one.get("expression") for one in stored["plan"]["request"]["aggregates"]}
    assert measures == {"revenue": "price::DOUBLE * quantity", "late": "CASE WHEN day > 4 THEN 1 ELSE 0 END"}
    assert dphist("verify", "out.parquet", cwd=tmp_path).returncode == 0
    dry = dphist("release", "events.parquet", *asked, "--max-groups", "3", "--dry-run", cwd=tmp_path)
    assert "combination of lower(email) and" in dry.stdout
    stat = ["stat", "max", "events.parquet", "--column", "price", "--lower", "0", "--upper", "8", "--error", "1"]
    done = dphist(*stat, "--epsilon", "1", "--unit", "person", "--unit", "day", cwd=tmp_path)
    assert NAMED in done.stdout, done.stderr
    done = dphist("top-k", "events.parquet", *asked, "--k", "2", cwd=tmp_path)
    assert "combination of lower(email) and" in done.stdout, done.stderr
    unnamed = dphist("release", "events.parquet", *asked, "--sum", "price*quantity:0:8", "--dry-run", cwd=tmp_path)
    assert "An SQL expression needs a name: revenue=price*quantity." in unnamed.stderr


def test_plans_store_an_expression_where_there_is_one(tmp_path: Path) -> None:
    plan = dp.plan(**BUDGET, max_groups=3, sums={"revenue=price*quantity": (0, 8), "price": (0, 4)})
    plan.save(tmp_path / "plan.json")
    stored = json.loads((tmp_path / "plan.json").read_text())["request"]["aggregates"]
    assert [one.get("expression") for one in stored] == ["price*quantity", None]
    assert "expression" not in stored[1]  # as before there were any
    assert Plan.load(tmp_path / "plan.json") == plan
    release = dp.release(EVENTS, unit="person", by="item", plan=tmp_path / "plan.json")
    assert "sum_revenue" in release.table.column_names
    with pytest.raises(dp.InvalidParameter, match="one column or expression for the name 'price'"):
        dp.plan(**BUDGET, max_groups=3, sums={"price=price*2": (0, 8)}, means={"price": (0, 4)})


@pytest.mark.parametrize("unit", [[], "", [""], ["person", "person"], [1], {"person"}, 3, b"person"])
def test_what_is_no_unit_is_refused(unit: Any, tmp_path: Path) -> None:
    with pytest.raises(dp.InvalidParameter):
        dp.top_k(EVENTS, unit=unit, by="item", k=2, **BUDGET)
    with pytest.raises(dp.InvalidParameter):
        dp.release(EVENTS, unit=unit, by="item", **BUDGET)
    with pytest.raises(dp.InvalidParameter):
        dp.Session.start(tmp_path / "s.json", unit=unit, results=5, queries=2, **BUDGET)


@pytest.mark.parametrize("unit", [["person"], [], ["person", "person"], ["person", 3], "", None])
def test_metadata_with_another_unit_does_not_pass(unit: Any, tmp_path: Path) -> None:
    release = dp.release(EVENTS, unit=SEVERAL, by="item", max_groups=3, **BUDGET)
    path = tmp_path / "out.parquet"
    release.write(path)
    table = pq.read_table(path)
    stored = json.loads(table.schema.metadata[b"dphist"])
    assert not any(check.failed for check in dp.verify(path))
    changed = table.replace_schema_metadata({b"dphist": json.dumps({**stored, "unit": unit}).encode()})
    pq.write_table(changed, path)
    assert [check.name for check in dp.verify(path) if check.failed][-1] == "guarantee"  # behind the digest's


@pytest.mark.parametrize(("unit", "words"), [("lower(email)", "value"), (SEVERAL, "combination")])
def test_a_guarantee_that_does_not_name_its_unit_fails(unit: Any, words: str, tmp_path: Path) -> None:
    released = dp.release(EVENTS, unit=unit, by="item", max_groups=3, **BUDGET)
    largest = dp.top_k(EVENTS, unit=unit, by="item", k=2, **BUDGET)
    stream = dp.Continual.start(tmp_path / "c", unit=unit, by="item", rounds=4, max_groups=1, **BUDGET)
    for number, result in enumerate((released, largest, stream.add(EVENTS, "first"))):
        metadata = result.metadata()
        start, named, end = re.split(
            "((?<=all records of )one .*(?= changes)|(?<=what )one .*(?= adds))", metadata["guarantee"]
        )
        assert named.startswith(f"one {words} of")
        write_table(result.table, {**metadata, "guarantee": f"{start}one unit{end}"}, tmp_path / f"{number}.parquet")
        assert [check.name for check in dp.verify(tmp_path / f"{number}.parquet") if check.failed] == ["guarantee"]


TEXTS: dict[str, tuple[tuple[str, str | None], tuple[str, str | None]]] = {
    "person": (("person", None),) * 2,
    "Customer ID": (("Customer ID", None),) * 2,
    "user-id": (("user-id", None),) * 2,
    "lower(email)": (("lower(email)", None), ("lower(email)", "lower(email)")),
    "day = date_trunc('day', time)": (("day", "date_trunc('day', time)"),) * 2,
    '"a b"="x=y"': (("a b", '"x=y"'),) * 2,
    "a==b": (("a==b", None),) * 2,
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_an_expression_goes_by_the_text(text: str) -> None:
    assert (split_name(text), split_unit(text)) == TEXTS[text]


def test_a_unit_in_words() -> None:
    several: Unit = ("a", "lower(b)", "c=d")
    assert one_of(several) == "one combination of a, lower(b) and c=d"
    assert protected("\x1b[0m(x)") == "all records of one value of \\x1b[0m(x)"
    assert not_protected(several).endswith("not all records of one a or one lower(b) or one c.")
    assert (protected(None), not_protected("a")) == ("all records of one unit", "")
