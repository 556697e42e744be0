"""What the rounds and counting may see of one unit, in memory and in SQL: its sample, and vectors inside its bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dphist.aggregates.measures import Lattice
from dphist.aggregates.total import SumOfUnit
from dphist.engines.base import Integers
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key
from dphist.mechanisms.tuning import LATTICE_BITS, ONE
from duckdb_pairs import open_pairs

GROUPS = 30
SUM = SumOfUnit("value", -4.0, 4.0, lattice=Lattice(0.0, 1.0))
QUERY = GroupByQuery("user", (Key("item"),), (SUM,))
PLACES = pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "sql"])


def events() -> pa.Table:
    """One unit in every group, with values of both signs, and one in a single group."""
    items = [*range(GROUPS), 0]
    return pa.table({"user": [1] * GROUPS + [2], "item": items, "value": [float((item * 5) % 9 - 4) for item in items]})


@PLACES
@pytest.mark.parametrize("most", [1, 4, GROUPS])
def test_a_group_that_nobody_sampled_is_not_eligible(in_memory: bool, most: int) -> None:
    """Nor is it in any sum of the rounds; every unit's vector has a norm of at most 1, and of nearly 1."""
    only = events().slice(0, GROUPS)
    with open_pairs(only, QUERY, seed=5) as table:
        pairs = table.sampled(most, in_memory=in_memory)
        first = pairs.first_round()
        sums = pairs.weighted_sums(np.full(GROUPS, ONE))
        assert int(pairs.eligible().sum()) == len(first.codes) == np.count_nonzero(sums) == most
        assert first.columns["exact"].tolist() == sums[first.codes].tolist()
        for weights in (np.full(GROUPS, ONE), np.array([ONE - 7 * item for item in range(GROUPS)])):
            squares = sum(int(x) ** 2 for x in pairs.weighted_sums(weights))
            assert 0.99 * 4**LATTICE_BITS < squares <= 4**LATTICE_BITS


def vectors(in_memory: bool, bounds: tuple[int, ...], power: int, weights: Integers) -> dict[str, Integers]:
    """What one unit adds to each group: the difference that it makes. Sums of the first class are light."""
    found = []
    for rows in (events(), events().slice(GROUPS)):
        with open_pairs(rows, QUERY, seed=5) as table:
            pairs = table.sampled(5, in_memory=in_memory)
            codes = np.arange(pairs.groups)
            given = LocalGroups(codes, {"weight": weights[: pairs.groups]}, table.keys_of)
            sums = pairs.by_class(given, bounds, 1, power, (3,)).columns
            found.append({name: np.resize(np.append(sums[name], [0] * GROUPS), GROUPS) for name in sums})
    return {name: found[0][name] - found[1][name] for name in found[0] if name != "weight"}


@PLACES
@pytest.mark.parametrize("power", [1, 2])
def test_a_unit_is_scaled_down_to_the_last_bound(in_memory: bool, power: int) -> None:
    """The noise of its class pays for the norm of the bound; no more, and not much less. So does that of sums."""
    weights = np.array([ONE - 7 * item for item in range(GROUPS)])
    norm = float((weights**power).sum())
    for last in (2, 5, 9):
        bounds = (ONE**power, last * ONE**power)
        moved = vectors(in_memory, bounds, power, weights)
        assert not moved["class_1"].any()
        assert not moved["light_1"].any()
        total = sum(int(x) ** power for x in moved["class_2"]) * ONE**power
        assert total <= bounds[1] << LATTICE_BITS * power
        assert total >= 0.99 * (bounds[1] << LATTICE_BITS * power)
        most = SUM.sensitivity_steps << 3
        summed = sum(abs(int(x)) ** power for x in moved["heavy_1"]) * ONE**power
        assert 0.1 * bounds[1] * most**power < summed <= bounds[1] * most**power
        steps = np.array([(item * 5) % 9 - 4 for item in range(GROUPS)])
        exact = steps * 8 * weights * (bounds[1] / norm) ** (1 / power) / ONE
        assert np.all(np.abs(moved["heavy_1"]) <= np.abs(exact) + 1e-9)  # towards zero
        assert np.all(np.abs(moved["heavy_1"]) >= np.abs(exact) - 1.1)


def test_each_unit_samples_as_many_of_its_groups_as_it_may() -> None:
    """And is one in the histogram of degrees, whatever its degree: that is what the choice pays for."""
    rows = [(user, item) for user in range(50) for item in range(user % 12 + 1)]
    source = pa.table({"user": [user for user, _ in rows], "item": [item for _, item in rows]})
    with open_pairs(source, GroupByQuery("user", (Key("item"),)), seed=5) as table:
        degrees = table.degree_histogram(np.arange(1, 20))
        pairs = table.sampled(4, in_memory=True)
    assert isinstance(pairs, MemoryPairs)
    assert pairs.sampled is not None
    own = np.bincount(pairs.unit)
    assert pairs.sampled.tolist() == np.minimum(own, 4).tolist()
    there = sorted(sorted(groups.tolist()) for groups in np.split(pairs.group, pairs.starts[1:-1]))
    assert there == sorted(list(range(user % 12 + 1)) for user in range(50))
    assert degrees.tolist() == np.bincount(own, minlength=20)[1:].tolist()
    assert pairs.degree_histogram(np.arange(1, 20)).tolist() == degrees.tolist()
