"""Costs of releases that protect different units are nobody's: no number adds them up, in no answer, script, report or file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dphist as dp
from dphist.cli.output import cost_in_words, spent_in_words
from dphist.columns import joint_unit, kind_of
from dphist.files.digests import seal
from dphist.ledger import DataSet, Ledger

ROWS = pa.table({"id": [n % 500 for n in range(1_500)], "item": [f"i{n % 300}" for n in range(1_500)]})
TABLES = {"people": ROWS, "visits": ROWS.slice(0), "things": ROWS}
UNITS = {"people": "person=id", "visits": "person=id + 0", "things": "thing=item"}


def select(table: str, epsilon: float = 0.5) -> str:
    options = f"epsilon = {epsilon}, delta = 1e-8, max_groups_contributed = 1"
    count = "COUNT(*, contribution_bounds_per_group => (0, 3)) AS n"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {count} FROM {table}"


@pytest.fixture(scope="module")
def con() -> Any:
    return dp.connect(tables=TABLES, unit=UNITS)


@pytest.mark.parametrize(
    "form",
    [
        "{0} UNION ALL {1}",
        "SELECT a.n, b.n AS m FROM ({0}) a, ({1}) b",
        "WITH a AS ({0}), b AS ({1}) SELECT a.n, b.n AS m FROM a CROSS JOIN b",
        "SELECT n, ({1}) AS m FROM ({0})",
    ],
)
@pytest.mark.parametrize("others", [("people", "things"), ("things", "people"), ("visits", "things")])
def test_one_statement_has_one_unit(con: Any, form: str, others: tuple[str, str]) -> None:
    first, second = map(select, others)
    first = first.replace(")", ", std_errors = FALSE)", 1)
    with pytest.raises(dp.InvalidParameter, match="of one unit in a statement") as caught:
        con.prepare(form.format(first, second))
    assert "write a statement for each" in str(caught.value)
    assert caught.value.pointer.endswith("^")
    assert [len(one.jobs) for one in con.prepare(f"{first}; {second}").statements] == [1, 1]


def test_options_may_name_two_units_in_two_statements_alone() -> None:
    """Without declared units, OPTIONS says what they are."""
    con = dp.connect(tables={"t": ROWS})
    both = [select("t").replace("epsilon", f"privacy_unit_column = {unit}, epsilon") for unit in ("id", "item")]
    with pytest.raises(dp.InvalidParameter, match=r"got id and item\."):
        con.prepare(" UNION ALL ".join(both))
    assert len(con.prepare("; ".join(both)).jobs) == 2
    assert len(con.prepare(" UNION ALL ".join([both[0], both[0].replace("= id", "= ID")])).jobs) == 2


def test_a_script_says_what_each_unit_lost(con: Any) -> None:
    parts = [("people", 0.5), ("things", 2), ("visits", 0.25), ("things", 0.125)]
    answers = con.script("; ".join(select(*one) for one in parts))
    words = 'at most ε = 0.75, δ = 2e-08 for one value of "person"=id, id + 0'
    words += "; at most ε = 2.125, δ = 2e-08 for one value of thing=item"
    assert spent_in_words(answers, None).startswith(f"Spent {words}.\n")
    assert cost_in_words([]) == "at most ε = 0, δ = 0"
    assert cost_in_words(answers[1].releases) == "at most ε = 2, δ = 1e-08"


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 1.0}, {"delta": 1e-6}])
def test_a_budget_that_is_shared_is_that_of_one_unit(budget: dict[str, float]) -> None:
    con = dp.connect(tables=TABLES, unit=UNITS, **budget)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidParameter, match="got person and thing"):
        con.prepare(f"{select('people', 0.1)}; {select('things', 0.1)}")
    assert len(con.prepare(f"{select('people', 0.1)}; {select('visits', 0.1)}").jobs) == 2


def test_a_file_that_adds_up_different_units_is_no_answer(con: Any, tmp_path: Path) -> None:
    """Also one that was written before such statements were refused: its digest holds, its claim does not."""
    con.sql(f"{select('people')} UNION ALL {select('visits')}").write(tmp_path / "a.json")
    assert not [check for check in dp.verify(tmp_path / "a.json") if check.failed]
    other = con.sql(select("things")).metadata()
    beside = tmp_path / "a.json.dphist.json"
    written = json.loads(beside.read_text(encoding="utf-8"))
    assert written["unit"] == '"person"=id, id + 0'
    forged = {**written, "releases": [written["releases"][0], other["releases"][0]], "unit": "person=id"}
    forged["guarantee"] = re.sub(r"\(2\).*", f"(2) {other['guarantee']}", written["guarantee"])
    beside.write_text(json.dumps(seal({k: v for k, v in forged.items() if k != "digest"})), encoding="utf-8")
    failed = [check.detail for check in dp.verify(tmp_path / "a.json") if check.failed]
    assert any("person and thing" in detail for detail in failed)


def test_a_report_of_several_private_tables_cites_their_cost_together(con: Any) -> None:
    content = con.sql(f"{select('people', 0.5)} UNION ALL {select('visits', 1.5)}").content()
    assert "released with (ε = 2, δ = 2e-08)-differential privacy" in content.citation
    sure = re.findall(r"at most (\S+) % sure", " ".join(content.explanation))
    assert sure == ["88.1"]  # 1 / (1 + e^-2)
    alone = con.sql(select("people", 0.5)).content()
    assert "(ε = 0.5, δ = 0)" in alone.citation


def test_a_ledger_takes_no_statement_that_mixes_units(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db", create=True) as opened:
        opened.create(DataSet("d", 5.0, 1e-3, "person=id", "basic"))
    con = dp.connect(tables=TABLES, unit=UNITS, ledger=tmp_path / "l.db", dataset="d")
    for joined in (" UNION ALL ", "; "):
        with pytest.raises(dp.InvalidParameter):
            con.script(f"{select('people')}{joined}{select('things')}")
    with Ledger(tmp_path / "l.db") as opened:
        assert len(opened.entries("d")) == 1


def test_units_are_one_by_their_names() -> None:
    assert joint_unit(["user"]) == joint_unit(["user", "user"]) == "user"
    assert joint_unit([("p=a", "day"), ("p=b", "day")]) == ('"p"=a, b', "day")
    assert kind_of("lower(email)") != kind_of("email")
    for units in (["a", "b"], ["a", ("a", "b")], [("a", "b"), ("b", "a")]):
        with pytest.raises(dp.InvalidParameter, match="of one unit, whose costs add up"):
            joint_unit(units)  # type: ignore[arg-type]
