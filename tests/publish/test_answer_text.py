"""The answer to a statement as text: whatever columns it has, each is shown once, with its error beside it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dphist.show.text import Screen, answer_text

NAMES = st.lists(
    st.sampled_from(["a", "b", "a_std_error", "b_std_error", "c_std_error", "year"]), min_size=1, unique=True
)
VALUES = st.none() | st.floats() | st.just(float("inf"))
CELLS = st.sampled_from([
    pa.array([None, 1, 2**62], pa.int64()),
    pa.array([None, 1.5, float("nan")], pa.float64()),
    pa.array([None, "x", "\x1b[31m"], pa.string()),
    pa.array([None, Decimal("1.50"), Decimal("-2.00")], pa.decimal128(9, 2)),
    pa.array([None, True, False], pa.bool_()),
    pa.array([None, dt.date(2026, 1, 1), dt.date(2026, 1, 2)], pa.date32()),
    pa.array([None, [1.5], []], pa.list_(pa.float64())),
    pa.array([None, {"value": 1.0}, {"value": None}], pa.struct({"value": pa.float64()})),
    pa.nulls(3),
])  # fmt: skip


def test_values_stand_beside_their_errors_in_the_order_of_the_statement() -> None:
    table = pa.table({
        "people": [1234.0, None], "url": ["/", None], "people_std_error": [12.0, None], "year": [2024, 2025],
        "share": [1 / 3, 1e-9],
    })  # fmt: skip
    lines = answer_text(table, 2).splitlines()
    assert lines[0].split() == ["people", "url", "year", "share"]
    assert lines[2].split() == ["1,234", "±", "12", "/", "2024", "0.333333"]
    assert lines[3].split() == ["(null)", "(null)", "2025", "1e-09"]
    assert lines[-1] == "± is one standard error of the noise."


def test_rows_that_are_not_shown_are_counted() -> None:
    table = pa.table({"url": [f"/{n}" for n in range(30)]})
    assert answer_text(table.slice(0, 20), 30).splitlines()[-1] == "  … and 10 more rows"
    assert answer_text(table.slice(0, 0), 0) == "No row was released."


def test_two_values_never_look_the_same() -> None:
    table = pa.table({"key": [0.12345671, 0.12345672]})
    assert len(set(answer_text(table, 2).splitlines()[2:])) == 2


@given(NAMES, st.data(), st.sampled_from([40, 80]))
def test_any_table_can_be_shown_and_acts_on_no_terminal(names: list[str], data: st.DataObject, width: int) -> None:
    table = pa.table({name: data.draw(CELLS) for name in names})
    text = answer_text(table, 3, Screen(width))
    assert text.replace("\n", "").isprintable()
    numbers = {name for name in names if str(table.schema.field(name).type).startswith(("int", "double", "decimal"))}
    errors = {f"{name}_std_error" for name in numbers} & numbers
    for name in set(names) - errors:
        assert name in text.split()
    assert ("±" in text) == bool(errors)


@given(VALUES, VALUES)
def test_any_value_can_have_any_error(value: float | None, error: float | None) -> None:
    table = pa.table({"a": pa.array([value], pa.float64()), "a_std_error": pa.array([error], pa.float64())})
    assert len(answer_text(table, 1).splitlines()) >= 3
