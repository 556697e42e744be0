"""The pairs of units and groups in Spark: weights joined to them by their keys, sums by key. Nothing is numbered.

All tables here are written down before noise is drawn on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dphist.engines.base import Integers
from dphist.engines.dialect import SPARK
from dphist.engines.distinct import contested_sql, different_sql, light_sql, taken_sql, valued_sql
from dphist.engines.histogram import ContributionBounds, Histogram, histogram_of
from dphist.engines.pairs import (
    class_sums_sql,
    degrees_sql,
    first_asked_sql,
    lists_sql,
    next_asked_sql,
    norms_sql,
    shares_sql,
    weighted_sql,
    weighted_sums_sql,
)
from dphist.engines.spark.engine import SparkRecords
from dphist.engines.spark.groups import SparkGroups
from dphist.engines.spark.session import without_leaks
from dphist.engines.sql import OTHER_SEED, binned_sql, trees_of
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import MOST_RELEASED, WEIGHT_BITS


def pairs_of(records: SparkRecords) -> SparkPairs:
    """Write the pairs of some records down, unless there are more units than the guarantee is stated for."""
    pairs = SparkPairs(records, records.written_pairs())
    # Counting units costs a shuffle and is needed only if there are that many pairs.
    if pairs.number() >= MOST_RELEASED and pairs.total_units() >= MOST_RELEASED:
        raise InvalidParameter("fewer than 2^31 units for the adaptive release", "more")
    return pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkPairs:
    """A written table of pairs, under a name for SQL."""

    records: SparkRecords
    view: str

    def number(self) -> int:
        """How many pairs there are."""
        return self.records.scalar(f"SELECT COUNT(*) FROM {self.view}")

    def total_units(self) -> int:
        """How many units have at least one pair."""
        return self.records.scalar(f"SELECT COUNT(DISTINCT unit) FROM {self.view}")

    def non_empty_groups(self) -> int:
        """How many groups have at least one pair."""
        keys = ", ".join(self.records.fields.key_names)
        return self.records.scalar(f"SELECT COUNT(*) FROM (SELECT 1 FROM {self.view} GROUP BY {keys}) AS listed")

    def degree_histogram(self, edges: Integers) -> Integers:
        """One bucket for each unit."""
        return _buckets(self.records, degrees_sql(self.view, edges), len(edges))

    def groups(self, bounds: ContributionBounds) -> SparkGroups:
        """Bounded counts and sums of the same pairs."""
        counted = self.records.sql(self.records.histogram_sql(bounds, self.view))
        return self.records.written(counted, "groups", ContributionBounds(bounds.max_groups))

    def histogram(self, bounds: ContributionBounds) -> Histogram:
        """Collected to the driver."""
        table = without_leaks(self.groups(bounds).frame.toArrow)
        return histogram_of(table, self.records.query, bounds)

    def sampled(self, most_groups: int) -> SparkPairsByUnit:
        """Each unit's groups have their places in a random order; the first are its sample."""
        keys = ", ".join(self.records.fields.key_names)
        sample = self.records.sql(f"SELECT unit, {keys} FROM {self.view} WHERE place <= {most_groups}")
        return SparkPairsByUnit(self.records, self, self.records.views.add(sample, "sampled"))

    def voters(self) -> SparkPairsByUnit:
        """Each unit's groups have their places already; a unit's turn is computed from the unit when it is asked for."""
        return SparkPairsByUnit(self.records, self, self.view)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparkPairsByUnit:
    """Pairs with a view of each unit's sample. In an election the sample has all pairs.

    The election is deferred acceptance as in `engines.election`, by keys instead of codes. Each round writes down who holds a
    place and who was turned away, so that no round computes an earlier one again. The driver learns only whether anybody was
    turned away.
    """

    records: SparkRecords
    pairs: SparkPairs
    sample: str

    def first_round(self) -> SparkGroups:
        """The first round: every weight is 1."""
        return self._written(first_round_sql(self.sample, self.records.fields.key_names))

    def next_round(self, state: SparkGroups) -> SparkGroups:
        """The weights are those of the state."""
        kept = [name for name in state.frame.columns if name != "weight"]
        return self._written(round_sql(self.sample, state.view(), self.records.fields.key_names, kept))

    def norm_histogram(self, weights: SparkGroups, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight; not for more groups than the guarantee is stated for."""
        if self.pairs.number() >= MOST_RELEASED and weights.number() >= MOST_RELEASED:
            raise InvalidParameter("fewer than 2^31 selected groups in the adaptive release", "more")
        keys = self.records.fields.key_names
        return _buckets(
            self.records,
            norms_sql(weighted_sql(self.pairs.view, weights.view(), keys, SPARK), edges, power),
            len(edges),
        )

    def by_class(
        self,
        weights: SparkGroups,
        bounds: Sequence[int],
        light: int,
        power: int,
        shifts: Sequence[int],
        most: int = 1,
    ) -> SparkGroups:
        """One join for all of it, and one for bins."""
        keys, given = self.records.fields.key_names, weights.view()
        counted = classes_sql(self.pairs.view, given, keys, bounds, light, power, shifts)
        if trees := trees_of(self.records.fields.measures):
            order = SPARK.priority(self.records.seed ^ OTHER_SEED, ["unit", *(f"pair.{key}" for key in keys)])
            counted = with_bins_sql(counted, self.pairs.view, given, keys, trees, order, most)
        return self._written(counted)

    def coverage(self, groups: SparkGroups) -> tuple[int, int]:
        """By the keys of the groups."""
        return self.records.coverage(self.pairs.view, groups.frame)

    def shares(self) -> SparkGroups:
        """Every group has some unit."""
        return self._written(shares_sql(self.pairs.view, self.records.fields.key_names, SPARK))

    def elect(self, capacity: int, look: SparkGroups | None = None) -> SparkGroups:
        """Round by round, until nobody is turned away; groups without votes are left out."""
        keys = self.records.fields.key_names
        turn = SPARK.priority(self.records.seed, ["unit"])
        view = None if look is None else look.view()
        placed = place_all(self.records, lists_sql(self.pairs.view, view, keys, turn, SPARK), keys, capacity)
        return self._written(votes_sql(placed, view, keys))

    def _written(self, sql: str) -> SparkGroups:
        return self.records.written(self.records.sql(sql), f"exact_{self.records.views.number()}")


def place_all(records: SparkRecords, lists: str, keys: Sequence[str], capacity: int) -> str:
    """The name of a table of the units that hold a place in a group at the end of an election. No unit holds two places.

    lists: SQL that gives every `unit` with its `turn`, and its groups, by their keys, with their `position` from 1.
    """
    written = records.written_view("lists", lists, ("unit", *keys))
    placed = records.written_view("placed", first_asked_sql(written, keys), ("unit",))
    while records.scalar(f"SELECT COUNT(*) FROM (SELECT 1 FROM {placed} WHERE rank > {capacity} LIMIT 1)"):
        placed = records.written_view("placed", next_asked_sql(written, placed, keys, capacity, SPARK), ("unit",))
    return placed


def _buckets(records: SparkRecords, sql: str, length: int) -> Integers:
    histogram = np.zeros(length, np.int64)
    for place, units in without_leaks(lambda: records.sql(sql).collect()):
        histogram[place] = units
    return histogram


def first_round_sql(sampled: str, keys: Sequence[str]) -> str:
    """The eligible groups and the exact sums of round 1, in which every weight is 1."""
    ones = f"SELECT *, CAST({1 << WEIGHT_BITS} AS BIGINT) AS weight FROM {sampled}"
    return weighted_sums_sql(ones, keys, SPARK)


def round_sql(sampled: str, state: str, keys: Sequence[str], kept: Sequence[str]) -> str:
    """The kept columns of every eligible group, with the exact sum for its weight: 0 for a weight of 0."""
    weighted = weighted_sql(sampled, f"(SELECT * FROM {state} WHERE weight > 0)", keys, SPARK)
    columns = ", ".join(f"state.{name}" for name in kept)
    return (
        f"SELECT {columns}, COALESCE(sums.exact, 0) AS exact FROM {state} AS state"
        f" LEFT JOIN ({weighted_sums_sql(weighted, keys, SPARK)}) AS sums ON {SPARK.same_keys('state', 'sums', keys)}"
    )


def votes_sql(placed: str, look: str | None, keys: Sequence[str]) -> str:
    """Every group with votes, their number, and its `first` of the look."""
    listed = ", ".join(keys)
    votes = f"SELECT {listed}, COUNT(*) AS votes FROM {placed} GROUP BY {listed}"
    if look is None:
        return f"SELECT *, CAST(0 AS BIGINT) AS first FROM ({votes}) AS counted"
    matches = SPARK.same_keys("counted", "given", keys)
    return f"SELECT counted.*, given.first FROM ({votes}) AS counted JOIN {look} AS given ON {matches}"


def classes_sql(
    pairs: str, weights: str, keys: Sequence[str], bounds: Sequence[int], light: int, power: int, shifts: Sequence[int]
) -> str:
    """For every selected group its columns, the exact counts of each class, and the clipped steps of light and heavy units."""
    weighted, places = weighted_sql(pairs, weights, keys, SPARK), range(1, len(shifts) + 1)
    by_class = class_sums_sql(weighted, keys, bounds, power, dict(zip(places, shifts, strict=True)), SPARK)
    sums = {f"class_{i}": f"class = {i} THEN units" for i in range(1, len(bounds) + 1)}
    for i in places:
        sums |= {f"light_{i}": f"class <= {light} THEN steps_{i}", f"heavy_{i}": f"class > {light} THEN steps_{i}"}
    listed = ", ".join(keys)
    added = ", ".join(f"SUM(CASE WHEN {sql} ELSE 0 END) AS {name}" for name, sql in sums.items())
    summed = f"SELECT {listed}, {added} FROM ({by_class}) AS by_class GROUP BY {listed}"
    filled = ", ".join(f"COALESCE(sums.{name}, 0) AS {name}" for name in sums)
    matches = SPARK.same_keys("given", "sums", keys)
    return f"SELECT given.*, {filled} FROM {weights} AS given LEFT JOIN ({summed}) AS sums ON {matches}"


def with_bins_sql(
    counted: str, pairs: str, weights: str, keys: Sequence[str], trees: Sequence[int], order: str, most: int
) -> str:
    """Counted groups with bins, from the first `most` groups of each unit in its order."""
    listed = ", ".join(f"pair.{key}" for key in keys)
    place = f"ROW_NUMBER() OVER (PARTITION BY unit ORDER BY {order}, {listed})"
    chosen = f"SELECT pair.*, {place} AS turn FROM {pairs} AS pair LEFT SEMI JOIN {weights} AS given"
    part = f"({chosen} ON {SPARK.same_keys('pair', 'given', keys)}) AS part WHERE turn <= {most}"
    stages = [f"counted AS ({counted})", *(binned_sql(i, part, keys, SPARK) for i in trees)]
    joins = " ".join(f"LEFT JOIN binned_{i} ON {SPARK.same_keys('counted', f'binned_{i}', keys)}" for i in trees)
    lists = "".join(f", bins_{i}, weights_{i}" for i in trees)
    return f"WITH {', '.join(stages)} SELECT counted.*{lists} FROM counted {joins}"


def count_distinct(records: SparkRecords, bounds: ContributionBounds) -> dict[int, str]:
    """For each measure of distinct values, by its position, a table of groups with the number of values that are taken."""
    return {
        position: _count_distinct(records, position, int(measure.upper), bounds)
        for position, measure in records.fields.distinct
    }


def _count_distinct(records: SparkRecords, position: int, most: int, bounds: ContributionBounds) -> str:
    fields, seed, dialect = records.fields, records.seed, SPARK
    cells = (*fields.key_names, "value")
    different = records.written_view("different", different_sql(fields, position, dialect), ("unit", *cells))
    kept = valued_sql(fields, different, most, bounds, seed, dialect)
    valued = records.written_view("valued", kept, ("unit", *cells))
    light = records.written_view("light", light_sql(fields, valued, most), cells)
    won = f"(SELECT {', '.join(cells)} FROM {light} WHERE FALSE)"
    if records.scalar(f"SELECT COUNT(*) FROM (SELECT 1 FROM {valued} WHERE number > {most} LIMIT 1)"):
        voter = ", ".join(f"'{name}', {name}" for name in ("unit", *fields.key_names))
        contested = contested_sql(fields, valued, light, most, seed, dialect)
        lists = (
            f"SELECT named_struct({voter}, 'copy', id) AS unit, turn, {', '.join(cells)}, place AS position"
            f" FROM ({contested}) AS contested CROSS JOIN range({most}) AS copies"
        )
        won = place_all(records, lists, cells, 1)
    return records.written_view("taken", taken_sql(fields, light, won), fields.key_names)
