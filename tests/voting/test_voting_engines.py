"""The election of an engine: turns and lists from the units' own records and a seed, the same votes in memory and in SQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_elections import one_after_the_other, one_group_one_vote

from dphist.engines.base import Arrays, Rows
from dphist.engines.dialect import Dialect
from dphist.engines.duckdb.pairs import DuckDBPairs, SqlPairs
from dphist.engines.histogram import LocalGroups
from dphist.engines.memory import MemoryPairs
from dphist.engines.query import GroupByQuery, Key, PerformanceSettings
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.mechanisms.voting import Voting, calibrate
from dphist.noise import DiscreteLaplace
from dphist.noise.entropy import SystemEntropy
from dphist.noise.testing import SeededEntropy
from dphist.run.voting import noise_shares, vote
from drawn_laws import recorded
from duckdb_pairs import open_pairs
from word_sources import drawn_from

QUERY = GroupByQuery("who", (Key("what"), Key("where")))
Named = dict[tuple[Any, ...], int]


def events(units: int = 300, seed: int = 0) -> pa.Table:
    """Rows that repeat, null units and null keys."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(units), rng.geometric(0.2, units))
    what = (60 * rng.random(len(who)) ** 2).astype(np.int64)
    return pa.table(
        {
            "who": pa.array([f"u{n}" for n in who], mask=rng.random(len(who)) < 0.02),
            "what": pa.array([f"w{n:02d}" for n in what], mask=what == 3),
            "where": pa.array((what + who) % 2),
        }
    )


def as_first(groups: Arrays) -> Rows:
    """A look without noise."""
    return Rows(np.arange(len(groups["exact"])), {"first": groups["exact"]})


def by_name(groups: LocalGroups, column: str) -> Named:
    keys = groups.keys_of(groups.codes).to_pylist()
    return {tuple(key.values()): int(n) for key, n in zip(keys, groups.columns[column], strict=True)}


def votes_of(
    table: pa.Table, informed: bool, capacity: int = 4, threads: int = 1, **options: Any
) -> tuple[Named, Named]:
    with open_pairs(table, QUERY, PerformanceSettings(threads=threads), seed=5) as pairs:
        voters = pairs.voters(**options)
        assert isinstance(voters, MemoryPairs if options.get("in_memory", True) else SqlPairs)
        shares = voters.shares()
        elected = voters.elect(capacity, shares.each(as_first, ("first",)) if informed else None)
        return by_name(shares, "exact"), by_name(elected, "votes")


@contextmanager
def named_lists(table: pa.Table, seed: int = 5) -> Iterator[tuple[list[str], dict[str, list[tuple[Any, ...]]]]]:
    """Units in the order of their turns, and their groups in their own order, by name."""
    with open_pairs(table, QUERY, PerformanceSettings(threads=1), seed=seed) as pairs:
        coded = pairs.voters(in_memory=True)
        assert isinstance(coded, MemoryPairs)
        assert coded.ordered
        turns = pairs.connection.execute("SELECT unit FROM units ORDER BY unit_code").fetchall()
        keys = [tuple(key.values()) for key in pairs.keys_of(np.arange(coded.groups)).to_pylist()]
        lists: dict[str, list[tuple[Any, ...]]] = {unit: [] for (unit,) in turns}
        for unit, group in zip(coded.unit, coded.group, strict=True):
            lists[turns[unit][0]].append(keys[group])
        yield [unit for (unit,) in turns], lists


@pytest.mark.parametrize("informed", [False, True])
def test_memory_sql_threads_and_shuffled_rows_give_the_same_bits(informed: bool) -> None:
    table = events()
    expected = votes_of(table, informed)
    assert sum(expected[1].values()) > 100
    assert max(expected[1].values()) == 4
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    assert votes_of(shuffled, informed) == expected
    assert votes_of(table, informed, threads=2) == expected
    assert votes_of(table, informed, in_memory=False) == expected
    assert votes_of(shuffled, informed, threads=2, in_memory=False) == expected


@pytest.mark.parametrize("capacity", [1, 3, 1000])
@pytest.mark.parametrize("informed", [False, True])
def test_an_engine_votes_as_the_loop_does(informed: bool, capacity: int) -> None:
    table = events()
    with named_lists(table) as (turns, lists):
        pass
    shares, votes = votes_of(table, informed, capacity)
    _, in_sql = votes_of(table, informed, capacity, in_memory=False)
    groups = sorted(shares, key=repr)
    if informed:
        lists = {unit: sorted(groups_, key=lambda group: -shares[group]) for unit, groups_ in lists.items()}
    ballots = tuple(tuple(groups.index(group) for group in lists[unit]) for unit in turns)
    expected = one_after_the_other(ballots, len(groups), capacity)
    assert votes == in_sql == {group: n for group, n in zip(groups, expected, strict=True) if n}


def test_shares_are_what_units_give_to_all_of_their_groups() -> None:
    table = events()
    shares, _ = votes_of(table, informed=False)
    with named_lists(table) as (_, lists):
        pass
    expected: Named = {}
    for own in lists.values():
        for group in own:
            expected[group] = expected.get(group, 0) + 2**LATTICE_BITS // len(own)
    assert shares == expected
    assert votes_of(table, informed=False, in_memory=False)[0] == expected


def test_another_units_records_move_neither_turns_nor_lists() -> None:
    """Locality: one unit more, with groups of its own and of others, at the top of the table."""
    table = events(80)
    more = pa.table({"who": ["zoe"] * 4, "what": ["a new one", "w00", None, "zz"], "where": [0, 0, 1, 1]})
    with named_lists(table) as (turns, lists), named_lists(pa.concat_tables([more, table])) as (others, with_):
        assert [unit for unit in others if unit != "zoe"] == turns
        assert {unit: own for unit, own in with_.items() if unit != "zoe"} == lists
        assert len(with_["zoe"]) == 4
    with named_lists(table, seed=6) as (elsewhere, other_lists):
        assert elsewhere != turns
        assert other_lists != lists


@pytest.mark.parametrize("in_memory", [True, False])
def test_one_unit_more_or_less_moves_one_vote(in_memory: bool) -> None:
    table = events(40)
    whole = votes_of(table, informed=False, capacity=2, in_memory=in_memory)[1]
    for unit in range(0, 40, 7):
        rest = table.filter(pa.array([who != f"u{unit}" for who in table.column("who").to_pylist()]))
        less = votes_of(rest, informed=False, capacity=2, in_memory=in_memory)[1]
        names = sorted({*whole, *less}, key=repr)
        assert one_group_one_vote([less.get(name, 0) for name in names], [whole.get(name, 0) for name in names])


def test_ties_of_the_hash_are_broken_by_unit_and_key(monkeypatch: pytest.MonkeyPatch) -> None:

    def constant(self: Dialect, seed: int, columns: list[str]) -> str:
        return "CAST(0 AS UBIGINT)"

    monkeypatch.setattr(Dialect, "priority", constant)
    with named_lists(events(60)) as (turns, lists):
        assert turns == sorted(turns)
        assert all(own == sorted(own, key=lambda key: (key[0] is None, *key)) for own in lists.values())


def select(table: pa.Table, mechanism: Voting, seed: int | None = None) -> Named:
    source = SystemEntropy() if seed is None else SeededEntropy(seed)
    with open_pairs(table, QUERY, PerformanceSettings(threads=1), seed=5) as pairs:
        selected = drawn_from(source, vote, mechanism, pairs.voters())
        assert isinstance(selected, LocalGroups)
        assert list(selected.columns) == ["first"]
        return by_name(selected, "first")


def test_selected_keys_come_without_votes_and_from_secret_coins() -> None:
    table = events()
    blind, informed = calibrate(2.0, 0.01), calibrate(2.0, 0.01, look_share=0.3)
    everything = select(table, blind, 1)
    assert 3 < len(everything) < 100
    assert set(everything.values()) == {0}
    assert select(table, blind, 1) == everything
    assert any(select(table, blind) != everything for _ in range(5))  # fresh coins for the same election
    looked = select(table, informed, 1)
    assert len(set(looked.values())) > 3
    # noise of std 2.4 shares on every group, in steps
    exact, _ = votes_of(table, informed=False)
    assert any(looked[group] != exact[group] for group in looked)
    assert all(abs(looked[group] - exact[group]) < 60 * 2**LATTICE_BITS for group in looked)


def test_the_look_noises_every_share_with_the_law_that_is_paid_for() -> None:
    """Every group that anybody has: a unit moves shares by at most one in all, so the scale is 1/look_epsilon."""
    table, mechanism = events(), calibrate(2.0, 0.01, look_share=0.3)
    assert mechanism.look_epsilon == pytest.approx(0.6)
    exact, _ = votes_of(table, informed=False)
    with recorded() as draws, open_pairs(table, QUERY, PerformanceSettings(threads=1), seed=5) as pairs:
        shares = pairs.voters().shares().each(noise_shares(mechanism), ("first",))
        (draw,) = draws
        assert isinstance(draw.law, DiscreteLaplace)
        assert 2**LATTICE_BITS / draw.law.scale == Fraction(mechanism.look_epsilon)
        assert isinstance(shares, LocalGroups)
        assert by_name(shares, "first") == {
            group: exact[group] + int(noise) for group, noise in zip(by_name(shares, "first"), draw.noise, strict=True)
        }
        assert len(draw.noise) == len(exact)


def test_no_group_below_the_low_threshold_is_selected() -> None:
    table = events()
    mechanism = calibrate(30.0, 0.5, low_threshold=6)
    votes = votes_of(table, informed=False, capacity=mechanism.capacity)[1]
    selected = select(table, mechanism)
    assert selected
    assert all(votes[group] >= 6 for group in selected)
    assert {group for group, n in votes.items() if n >= mechanism.capacity} <= set(selected)


def test_voters_are_counted_afterwards() -> None:
    """The same pairs serve the counting of the selected keys."""
    query = GroupByQuery("who", (Key("what"),))
    with open_pairs(events(), query, PerformanceSettings(threads=1), seed=5) as pairs:
        assert isinstance(pairs, DuckDBPairs)
        voters = pairs.voters()
        elected = voters.elect(3)
        weights = LocalGroups(elected.codes, {"weight": np.full(len(elected.codes), 1 << 10)}, elected.keys_of)
        counted = voters.by_class(weights, (1 << 30,), 1, 1, [])
        assert (counted.columns["class_1"] >= elected.columns["votes"] << LATTICE_BITS).all()
