"""What a release costs, and that no two charges see the same budget: laws that a ledger stands on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dphist as dp
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.errors import BudgetExceeded, UnusableLedger
from dphist.ledger import DataSet, Entry, Ledger, chain, database
from dphist.ledger.accountant import price
from dphist.ledger.charge import Charge
from dphist.mechanisms.surcharge import counter_event
from dphist.planning import Plan
from dphist.planning.spends import spend_of_plan
from dphist.privacy.composition import PrivacyCost, of_pure
from dphist.privacy.filters import ACCOUNTANTS, Amount, amount

COST = of_pure(0.125, 1e-8)


@pytest.fixture
def address(tmp_path: Path) -> str:
    found = str(tmp_path / "ledger.db")
    with Ledger(found, create=True) as opened:
        opened.create(DataSet("people", 1.0, 1e-6, "user", "basic"))
    return found


def spend(opened: Ledger, cost: PrivacyCost = COST) -> Entry:
    return opened.reserve("people", cost, unit="user", command="release", facts={})


@pytest.mark.parametrize(
    ("options", "extra"),
    [({}, "choice"), ({"mechanism": "adaptive", "total": True}, "total"), ({"max_groups": 4, "total": True}, "total")],
)
def test_the_choice_and_the_total_are_part_of_what_a_plan_costs(options: dict[str, Any], extra: str) -> None:
    """Each is a pure mechanism beside every branch: by every accountant the parts add up to no more than is charged."""
    plan = dp.plan(epsilon=1, delta=1e-8, **options)
    request = plan.request
    epsilon = request.choice_epsilon if extra == "choice" else 1 / (request.total_scale or 1)
    assert epsilon > 0.01
    charged = price(plan.event, 1.0)
    for branch in plan.branches:
        for accountant in ACCOUNTANTS:
            parts = [price(branch.event(request.mechanism_epsilon), 1.0), price(counter_event(epsilon), 1.0)]
            parts = [replace(part, delta=0.0) for part in parts] if accountant == "basic" else parts
            owed = amount(parts[0], accountant) + amount(parts[1], accountant)
            paid = amount(charged, accountant)
            assert owed.within(Amount(paid.noise + paid.noise // 10**9, paid.delta + paid.delta // 10**9)), accountant


def test_a_choice_costs_as_much_as_its_most_expensive_branch() -> None:
    """Whichever comes first, since the data decides which is run."""
    plan = dp.plan(epsilon=1, delta=1e-8)
    assert len(plan.branches) > 1
    costs = [price(branch.event(plan.request.mechanism_epsilon), 1.0) for branch in plan.branches]
    assert any(cost.mu != costs[0].mu for cost in costs)
    for first in plan.branches:
        others = tuple(branch for branch in plan.branches if branch is not first)
        charged = price(Plan(plan.request, first, others).event, 1.0)
        for cost in costs:
            for part in fields(PrivacyCost):
                if part.name not in ("epsilon", "delta"):  # which the plan states as a whole
                    assert getattr(charged, part.name) >= getattr(cost, part.name), part.name


def test_what_is_reserved_is_what_was_checked(address: str) -> None:
    plan = dp.plan(epsilon=0.5, delta=1e-7, max_groups=3)
    owed = spend_of_plan(plan, "user")
    charge = Charge(address, "people", owed)
    charge.check()
    charge()
    charge.close()
    with Ledger(address) as opened:
        entries = opened.entries("people")
    assert entries[1].cost == price(owed.event, 1.0)
    assert entries[1].total == amount(price(owed.event, 1.0), "basic")


def test_a_spend_larger_than_what_is_left_is_refused(address: str) -> None:
    with Ledger(address) as opened:
        spend(opened, of_pure(0.625, 1e-8))
        before = opened.entries("people")
        for cost in (of_pure(0.5, 1e-8), of_pure(0.125, 0.995e-6), of_pure(0.375 + 1e-12, 0.0)):
            with pytest.raises(BudgetExceeded):
                spend(opened, cost)
        assert opened.entries("people") == before
        spend(opened, of_pure(0.375, 0.98e-6))


def test_what_does_not_fit_is_refused_before_the_source_is_opened(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first charge leaves too little for the second, which is told so before anybody looks at its data."""
    opened: list[object] = []

    @contextmanager
    def look(self: DuckDBEngine, source: object, *_: object, **__: object) -> Iterator[None]:
        opened.append(source)
        yield

    with Ledger(address) as ledger:
        spend(ledger, of_pure(0.0, 9.5e-7))
    monkeypatch.setattr(DuckDBEngine, "open", look)
    data = pa.table({"user": [1], "item": ["a"]})
    options: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 0.5, "delta": 1e-7}
    with pytest.raises(BudgetExceeded, match="its delta is more than what is left"):
        dp.release(data, max_groups=1, ledger=address, dataset="people", **options)
    with pytest.raises(BudgetExceeded, match="its delta is more than what is left"):
        dp.top_k(data, k=1, method="ranked", ledger=address, dataset="people", **options)
    assert opened == []


def test_a_charge_waits_for_the_one_before_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is read under the lock: a second charge does not even begin while the first is at work."""
    monkeypatch.setattr(database, "WAIT", 0.05)
    with closing(database.Database(address)) as first, Ledger(address) as second:
        with first.write("people"), pytest.raises(UnusableLedger, match="held it for too long"):
            spend(second)
        spend(second)


def test_a_spend_cannot_be_spliced_out(address: str) -> None:
    """By somebody who computes sums and hashes anew but keeps what links the rest."""
    with Ledger(address) as opened:
        for _ in range(3):
            spend(opened)
        good = opened.entries("people")
    assert all(check.passed for check in chain.verify(good))
    for gone in (1, 2):
        spliced = []
        for place, entry in enumerate(entry for entry in good if entry.sequence != gone):
            less = amount(COST, "basic") if entry.sequence > gone else Amount()
            total = entry.total - less
            kept = replace(entry, sequence=place, noise_total=total.noise, delta_total=total.delta)
            spliced.append(replace(kept, hash=kept.digest()))
        failed = [check for check in chain.verify(spliced) if not check.passed]
        assert "does not follow the one before it" in failed[0].detail


def test_every_part_of_an_entry_is_in_its_hash(address: str) -> None:
    with Ledger(address) as opened:
        good = spend(opened)
    other: dict[str, Any] = {
        "dataset": "others",
        "sequence": 2,
        "time": "",
        "kind": "record",
        "body": {},
        "previous": "0" * 64,
    }
    other |= {"noise_total": 0, "delta_total": 0}
    assert {*other, "hash"} == {part.name for part in fields(Entry)}
    for name, value in other.items():
        assert replace(good, **{name: value}).digest() != good.digest() == good.hash, name


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-8), (0.1, 1e-9), (4.049, 1e-20)])
def test_a_choice_is_charged_with_the_delta_of_its_worst_branch(epsilon: float, delta: float) -> None:
    """At the decimal that names epsilon: where the parts of a branch add up to more than it, delta is no bound."""
    plan = dp.plan(epsilon=epsilon, delta=delta)
    cost = price(plan.event, epsilon)
    below = math.nextafter(plan.request.mechanism_epsilon, 0.0)
    assert cost.delta >= max(branch.delta(below) for branch in plan.branches)
    assert cost.delta == delta  # which fits a budget of just that
