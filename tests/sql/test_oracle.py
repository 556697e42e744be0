"""The validator against an oracle: no statement that it accepts lets one unit change more than the bounds allow.

Texts of statements are drawn, most of them wrong in some way; those that are accepted are counted on small tables and on all of
their neighbours. The oracle can fail: with any of the rules broken, it finds a statement.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from neighbours import prepared, violation
from small_tables import plans_made_once
from statement_grammar import statements, tables
from witnesses import STATEMENTS, TABLES, planted

from dphist.errors import InvalidParameter

FEW, MANY = 12, int(os.environ.get("DPHIST_ORACLE_EXAMPLES", "2000"))


def search(examples: int, check: Callable[[str, dict[str, Any]], None], *, shrink: bool = False) -> None:
    """Draw statements and tables, and check each."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]

    @settings(
        max_examples=examples, phases=phases, deadline=None, suppress_health_check=list(HealthCheck), database=None,
        print_blob=False,
    )  # fmt: skip
    @given(statements(), tables())
    def run(statement: str, data: dict[str, Any]) -> None:
        check(statement, data)

    run()


def compare(examples: int, *, shrink: bool) -> Counter[str]:
    """How many were accepted and refused; fails for one that is accepted and not private."""
    seen: Counter[str] = Counter()

    def check(statement: str, data: dict[str, Any]) -> None:
        job = prepared(statement)
        if isinstance(job, InvalidParameter):
            seen["refused"] += 1
            return
        seen["accepted"] += 1
        found = violation(job, data)
        note(statement)
        assert found is None, (statement, found, {name: table.to_pylist() for name, table in data.items()})

    search(examples, check, shrink=shrink)
    return seen


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with plans_made_once():
        yield


def test_no_accepted_statement_lets_a_unit_change_more_than_its_bounds() -> None:
    seen = compare(FEW, shrink=False)
    assert seen["accepted"] >= FEW / 12, seen
    assert seen["refused"] >= FEW / 12, seen


@pytest.mark.fuzz
def test_no_accepted_statement_lets_a_unit_change_more_than_its_bounds_in_a_long_run() -> None:
    seen = compare(MANY, shrink=True)
    print(seen)
    assert seen["accepted"] >= MANY / 10, seen
    assert seen["refused"] >= MANY / 10, seen


@pytest.mark.parametrize("bug", STATEMENTS)
def test_the_oracle_notices_a_rule_that_is_left_out(bug: str) -> None:
    assert isinstance(prepared(STATEMENTS[bug]), InvalidParameter), "the rules refuse it"
    with planted(bug):
        job = prepared(STATEMENTS[bug])
        assert not isinstance(job, InvalidParameter), job
        assert violation(job, TABLES) is not None


@pytest.mark.fuzz
@pytest.mark.parametrize("bug", STATEMENTS)
def test_the_search_finds_a_statement_for_a_rule_that_is_left_out(bug: str) -> None:
    with planted(bug), pytest.raises(AssertionError, match="Violation"):
        compare(MANY, shrink=False)
