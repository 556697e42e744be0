"""`dp.select`: keys alone, all of the budget on finding them, and the road of releases for the rest."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from dphist.engines.histogram import LocalGroups
from dphist.errors import InvalidParameter, InvalidPlan
from dphist.ledger.accountant import price
from dphist.mechanisms import GroupMechanism, voting
from dphist.mechanisms.adaptive import AdaptiveGaussian, calibrate
from dphist.noise import DiscreteLaplace, RoundedGaussian
from dphist.planning import storage
from dphist.planning.describe import rates, rates_in_words
from dphist.planning.spends import spend_of_plan
from dphist.run.job import prepare_selection
from dphist.run.strategies import explain
from drawn_laws import recorded

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
UNIT: dict[str, Any] = {"unit": "user", "by": "item"}
EVENTS = pa.table(
    {"user": [i % 700 for i in range(7000)], "item": [f"i{i * i % 7 if i < 6500 else i}" for i in range(7000)]}
)
LARGE = ["i0", "i1", "i2", "i4"]
"""A hundred units and more are in each of these; the other 500 groups have one unit each."""


def failed(path: Path, ledger: str | None = None) -> set[str]:
    return {check.name for check in dp.verify(path, ledger=ledger) if check.failed}


def test_keys_alone_are_published_in_their_order() -> None:
    found = dp.select(EVENTS, **UNIT, **BUDGET)
    assert found.to_arrow().to_pydict() == {"item": LARGE}
    assert found.to_polars().columns == list(found.to_pandas().columns) == ["item"]
    told = found.metadata()
    assert told["noise_std"] is None
    assert told["order"] == "key"
    assert "nothing was counted" in told["summary"]
    assert told["expected"]["single_unit"] <= 1e-6
    text = found.html()
    assert "Private keys by item" in text
    assert "The largest groups" not in text
    assert "nothing was counted" in text
    assert found.plan.mechanism.size_in_words in text


@pytest.mark.parametrize("name", ["keys.parquet", "keys.csv", "keys.json"])
def test_files_verify_and_damage_shows(tmp_path: Path, name: str) -> None:
    found = dp.select(EVENTS, **UNIT, **BUDGET)
    found.write(tmp_path / name)
    assert failed(tmp_path / name) == set()
    metadata = found.metadata()
    for change, wrong in (
        ({"expected": {**metadata["expected"], "single_unit": 1e-12}}, "expected.single_unit"),
        ({"summary": "Selected by chance."}, "summary"),
        ({"order": "count"}, "guarantee"),
    ):
        write_again(found.to_arrow(), {**metadata, **change}, tmp_path / f"wrong-{name}")
        assert wrong in failed(tmp_path / f"wrong-{name}")


def test_a_count_beside_the_keys_is_found(tmp_path: Path) -> None:
    """A table that shows more than was paid for."""
    found = dp.select(EVENTS, **UNIT, **BUDGET)
    assert found.plan.value_names == []
    counted = found.to_arrow().append_column("count", pa.array([1.0] * 4))
    write_again(counted, found.metadata(), tmp_path / "keys.parquet")
    assert failed(tmp_path / "keys.parquet") == {"columns"}


def write_again(table: pa.Table, metadata: dict[str, Any], path: Path) -> None:
    from dphist.files import formats

    formats.write_table(table, metadata, path, inputs=(), overwrite=True)


def test_all_that_is_drawn_are_the_choice_and_the_selection() -> None:
    """And together they cost what the plan says, all of it."""
    plan = dp.plan(**BUDGET, keys_only=True, mechanism="adaptive")
    with recorded() as draws:
        dp.select(EVENTS, **UNIT, plan=plan)
    mechanism = plan.mechanism
    assert isinstance(mechanism, AdaptiveGaussian)
    assert all(isinstance(draw.law, RoundedGaussian) for draw in draws)
    assert [draw.law.std for draw in draws if isinstance(draw.law, RoundedGaussian)] == [
        Fraction(std) for std in mechanism.round_stds
    ]
    assert mechanism.mu == pytest.approx(float(np.hypot.reduce([1 / std for std in mechanism.round_stds])))
    with recorded() as draws:
        found = dp.select(EVENTS, **UNIT, **BUDGET)
    assert isinstance(draws[0].law, DiscreteLaplace)
    left = 1 - 1 / draws[0].law.scale
    assert found.plan.request.mechanism_epsilon <= left


def test_the_choice_is_charged(tmp_path: Path) -> None:
    plan = dp.plan(**BUDGET, keys_only=True)
    spend = spend_of_plan(plan, "user")
    for branch in plan.branches:
        assert branch.delta(0.98) <= 1e-6
        assert price(spend.event, 1.0).mu > price(branch.event(plan.request.mechanism_epsilon), 1.0).mu
    ledger = str(tmp_path / "ledger.db")
    with dp.Ledger(ledger, create=True) as books:
        books.create(dp.DataSet("events", 20.0, 1e-3, "user", "gdp"))
    found = dp.select(EVENTS, **UNIT, **BUDGET, ledger=ledger, dataset="events")
    found.write(tmp_path / "keys.parquet")
    assert failed(tmp_path / "keys.parquet", ledger) == set()
    with dp.Ledger(ledger) as books:
        entry = books.entries("events")[1]
    assert entry.body["command"] == "select"
    assert entry.body["cost"]["epsilon"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_groups": 3},
        {"sums": {"x": (0, 1)}},
        {"means": {"x": (0, 1)}},
        {"rows": 3},
        {"total": True},
        {"sparsity": 100},
        {"keys": 100},
        {"sketch": 100},
        {"objective": "noise"},
        {"noise_std": 4.0},
        {"noise": "discrete"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_keys_alone_have_no_use_for_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        dp.plan(**BUDGET, keys_only=True, **wrong)


def test_plans_are_for_one_of_the_two_commands(tmp_path: Path) -> None:
    keys, counts = tmp_path / "keys.json", tmp_path / "counts.json"
    dp.plan(**BUDGET, keys_only=True).save(keys)
    dp.plan(**BUDGET).save(counts)
    assert dp.select(EVENTS, **UNIT, plan=keys).to_arrow().num_rows == 4
    with pytest.raises(InvalidParameter, match="dphist select"):
        dp.release(EVENTS, **UNIT, plan=keys)
    with pytest.raises(InvalidParameter, match="keys-only"):
        dp.select(EVENTS, **UNIT, plan=counts)
    with pytest.raises(InvalidParameter, match="the plan says it"):
        dp.select(EVENTS, **UNIT, plan=keys, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="parameter of select"):
        dp.select(EVENTS, **UNIT, **BUDGET, intervals=0.9)  # type: ignore[call-arg]


def test_plans_that_do_not_pay_for_what_they_do_are_refused() -> None:
    """Counts that a plan of keys alone would publish, and a plan of counts that has none."""
    keys = dp.plan(**BUDGET, keys_only=True, mechanism="adaptive")
    counts = dp.plan(**BUDGET, mechanism="adaptive")
    for request, mechanism in ((keys.request, counts.mechanism), (counts.request, keys.mechanism)):
        with pytest.raises(InvalidPlan, match="keys alone"):
            storage.check(request, mechanism, "a test")
    data = json.loads(json.dumps(storage.to_data(keys.request, keys.mechanism, ())))
    assert storage.from_data(data, "a test") == (keys.request, keys.mechanism, ())
    data["mechanism"]["round_stds"][-1] *= 0.9
    with pytest.raises(InvalidPlan, match="exceeds"):
        storage.from_data(data, "a test")


def test_small_groups_are_part_of_the_rounds() -> None:
    with pytest.raises((dp.Infeasible, InvalidParameter)):
        dp.plan(**BUDGET, keys_only=True, mechanism="adaptive", low_threshold=5)


def test_expected_losses_are_those_of_runs() -> None:
    """n units with one group each: 4,000 copies of such a group, for sizes below, at and above the threshold."""
    from dphist.engines.memory import MemoryPairs
    from dphist.run.rounds import select

    mechanism, copies = calibrate(1.0, 1e-6, keys_only=True), 4000
    for one in rates(mechanism)["lost"]:
        size = one["size"]
        unit = np.arange(size * copies, dtype=np.int32)
        pairs = MemoryPairs.of_rows(unit, (unit // size).astype(np.int32), len(unit), copies)
        selected = select(mechanism, pairs)
        assert isinstance(selected, LocalGroups)
        lost, expected = 1 - len(selected.codes) / copies, one["share"]
        # Five standard deviations of a binomial (5.7e-7 each side) and what the grid leaves open.
        assert abs(lost - expected) < 5 * (max(expected, 1e-3) / copies) ** 0.5 + 0.05 * expected
    shares = [one["share"] for one in rates(mechanism)["lost"]]
    assert shares[0] > 0.3
    assert max(shares[2:]) > 0.005  # also large groups are lost now and then, which the threshold alone does not tell


def test_a_plan_says_what_is_lost_and_what_is_spurious() -> None:
    plan = dp.plan(**BUDGET, keys_only=True, mechanism="adaptive")
    found = plan.to_dict()
    assert found["keys_only"] is True
    assert found["noise_std"] is None
    assert found["expected"] == rates(plan.mechanism)
    assert found["expected"]["single_unit"] == plan.mechanism.delta_infinity()
    text = str(plan)
    assert "Plan of keys alone" in text
    assert "a group of one unit is released with probability" in text
    assert dp.plan(**BUDGET).to_dict()["expected"] is None


def test_more_keys_than_a_release_with_counts() -> None:
    """All of the budget is on the selection."""
    rng = np.random.default_rng(5)
    table = pa.table({"user": np.repeat(np.arange(4000), 5), "item": (300 * rng.random(20000) ** 3).astype(np.int64)})
    options: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-8}
    counted = dp.release(table, **UNIT, **options, mechanism="adaptive").to_arrow().num_rows
    assert dp.select(table, **UNIT, **options, mechanism="adaptive").to_arrow().num_rows > counted


def test_metadata_inside_the_file(tmp_path: Path) -> None:
    dp.select(EVENTS, **UNIT, **BUDGET).write(tmp_path / "keys.parquet")
    stored = json.loads(pq.read_schema(tmp_path / "keys.parquet").metadata[b"dphist"])
    assert stored["plan"]["request"]["keys_only"] is True


LIGHT = pa.table({"user": np.arange(6000), "item": [f"g{i % 40 if i < 5400 else i}" for i in range(6000)]})
"""Forty groups of 135 units each, and 600 of one."""


def test_light_units_vote_and_heavy_ones_have_rounds() -> None:
    """The choice is made from the noisy histogram of degrees alone."""
    light = dp.select(LIGHT, **UNIT, **BUDGET)
    assert light.plan.mechanism.name == "voting"
    assert 37 <= light.to_arrow().num_rows <= 40  # each of them is lost once in a thousand times
    rng = np.random.default_rng(1)
    heavy = pa.table({"user": np.repeat(np.arange(3000), 40), "item": (2000 * rng.random(120_000) ** 2).astype(int)})
    found = dp.select(heavy, **UNIT, **BUDGET)
    assert found.plan.mechanism.name == "adaptive"
    assert found.to_arrow().num_rows > 50


@pytest.mark.parametrize("look", [False, True], ids=["blind", "after a look"])
def test_an_election_is_verified_reported_and_stored(look: bool, tmp_path: Path) -> None:
    plan = dp.plan(**BUDGET, keys_only=True)
    (mechanism,) = [m for m in plan.branches if m.analysis == ("after a look" if look else "blind")]
    chosen = dp.Plan(plan.request, mechanism, tuple(m for m in plan.branches if m is not mechanism))
    chosen.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == chosen
    alone = dp.Plan(dp.plan(**BUDGET, keys_only=True, mechanism="voting").request, calibrate_vote(look))
    found = dp.select(LIGHT, **UNIT, plan=alone)
    assert 37 <= found.to_arrow().num_rows <= 40  # each is lost once in a thousand times
    found.write(tmp_path / "keys.parquet")
    assert failed(tmp_path / "keys.parquet") == set()
    assert "that vote for it" in found.html()
    assert found.metadata()["expected"]["lost"][2]["share"] < 1e-3


def calibrate_vote(look: bool) -> GroupMechanism:
    return voting.calibrate(1.0, 1e-6, look_share=voting.LOOK_SHARE if look else 0.0)


def test_groups_below_the_low_threshold_are_never_released() -> None:
    """Delta so large that everything else is: rounds are no choice, as they know no such bound."""
    sizes = pa.table({"user": np.arange(600), "item": np.repeat(np.arange(150), 4)})
    plan = dp.plan(epsilon=3.0, delta=0.9, keys_only=True, low_threshold=4)
    assert {branch.name for branch in plan.branches} == {"voting"}
    assert dp.select(sizes, **UNIT, plan=plan).to_arrow().num_rows > 60
    higher = dp.select(sizes, **UNIT, epsilon=3.0, delta=0.9, low_threshold=5)
    assert higher.to_arrow().num_rows == 0
    assert higher.metadata()["expected"]["fewest_units"] == 5
    assert higher.metadata()["expected"]["single_unit"] == 0
    assert "fewer than 5 units is never released" in str(higher.plan)


def test_counted_groups_below_the_low_threshold_are_never_released() -> None:
    """The same with counts of everybody in the shown groups: an election finds them, whatever the data would speak for."""
    sizes = pa.table({"user": np.arange(600), "item": np.repeat(np.arange(150), 4)})
    plan = dp.plan(epsilon=6.0, delta=0.9, low_threshold=4, sums={"x=1": (0, 1)})
    assert {branch.name for branch in plan.branches} == {"voting"}
    assert all(branch.delta(plan.request.mechanism_epsilon) <= 0.9 for branch in plan.branches)
    shown = dp.release(sizes, **UNIT, plan=plan)
    assert shown.to_arrow().num_rows > 60
    assert {"count", "sum_x"} <= set(shown.to_arrow().column_names)
    assert dp.release(sizes, **UNIT, epsilon=6.0, delta=0.9, low_threshold=5).to_arrow().num_rows == 0


def test_an_election_for_keys_alone_has_no_counts() -> None:
    assert dp.plan(**BUDGET, mechanism="voting").mechanism.counted
    assert all(not one.counted for one in dp.plan(**BUDGET, keys_only=True).branches)
    explained = explain(prepare_selection(LIGHT, **UNIT, **BUDGET, low_threshold=3))
    assert "Election" in explained
    assert "fewer than 3 votes is never shown" in " ".join(explained.split())
    assert "Counts" not in explain(prepare_selection(LIGHT, **UNIT, **BUDGET))


@pytest.mark.parametrize("mechanism", ["adaptive", "voting"])
def test_how_rarely_a_group_of_one_is_shown_is_told_as_it_is(mechanism: Any) -> None:
    """As often as one of the groups of a unit is shown that has all of them alone."""
    found = dp.plan(keys_only=True, mechanism=mechanism, **BUDGET).mechanism
    told = rates(found)["single_unit"]
    assert told == found.delta_infinity()
    assert found.release_probability(1) <= told <= (found.max_groups or 1) * found.release_probability(1) * (1 + 1e-9)
    words = dict(rates_in_words(found))["spurious"]
    assert told <= float(words.split("probability ")[1].split(" ")[0]) <= 1.01 * told
