"""The pairs of units and groups in Spark: weights joined to them by their keys, sums by key. Nothing is numbered.

The integer arithmetic of `dphist.engines.memory`, line by line: squares add up as integers, the one square root is
taken of an integer below 2^53, everything is rounded down. All tables here are written down before noise is drawn on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dphist.engines.base import Integers
from dphist.engines.distinct import contested_sql, different_sql, light_sql, taken_sql, valued_sql
from dphist.engines.groups import histogram_of
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.spark.engine import SparkDialect, SparkRecords
from dphist.engines.spark.groups import SparkGroups
from dphist.engines.spark.session import without_leaks
from dphist.engines.sql import OTHER_SEED, binned_sql, bucket_sql, trees_of
from dphist.errors import InvalidParameter
from dphist.mechanisms.tuning import FACTOR_BITS, LATTICE_BITS, MOST_RELEASED, NORM_BITS, WEIGHT_BITS


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
    """Pairs with a view of each unit's sample; in an election all are in it.

    The election is deferred acceptance as `dphist.engines.election` has it, by keys instead of codes. Whoever holds a place in
    a group, and whoever was turned away, is written down once in every round, so that rounds do not compute each other again.
    Nothing of it comes to the driver but whether anybody was turned away.
    """

    records: SparkRecords
    pairs: SparkPairs
    sample: str

    def first_round(self) -> SparkGroups:
        """Every weight is 1."""
        return self._written(first_round_sql(self.sample, self.records.fields.key_names))

    def next_round(self, state: SparkGroups) -> SparkGroups:
        """The weights are those of the state."""
        return self._written(round_sql(self.sample, state.view(), self.records.fields.key_names))

    def norm_histogram(self, weights: SparkGroups, edges: Integers, power: int) -> Integers:
        """One bucket for each unit that has any weight; not for more groups than the guarantee is stated for."""
        if self.pairs.number() >= MOST_RELEASED and weights.number() >= MOST_RELEASED:
            raise InvalidParameter("fewer than 2^31 selected groups in the adaptive release", "more")
        keys = self.records.fields.key_names
        return _buckets(self.records, norms_sql(self.pairs.view, weights.view(), keys, edges, power), len(edges))

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
            order = SparkDialect().priority(self.records.seed ^ OTHER_SEED, ["unit", *(f"pair.{key}" for key in keys)])
            counted = with_bins_sql(counted, self.pairs.view, given, keys, trees, order, most)
        return self._written(counted)

    def coverage(self, groups: SparkGroups) -> tuple[int, int]:
        """By the keys of the groups."""
        return self.records.coverage(self.pairs.view, groups.frame)

    def shares(self) -> SparkGroups:
        """Every group has some unit."""
        return self._written(shares_sql(self.pairs.view, self.records.fields.key_names))

    def elect(self, capacity: int, look: SparkGroups | None = None) -> SparkGroups:
        """Round by round, until nobody is turned away; groups without votes are left out."""
        keys = self.records.fields.key_names
        turn = SparkDialect().priority(self.records.seed, ["unit"])
        view = None if look is None else look.view()
        placed = place_all(self.records, lists_sql(self.pairs.view, view, keys, turn), keys, capacity)
        return self._written(votes_sql(placed, view, keys))

    def _written(self, sql: str) -> SparkGroups:
        return self.records.written(self.records.sql(sql), f"exact_{self.records.views.number()}")


def place_all(records: SparkRecords, lists: str, keys: Sequence[str], capacity: int) -> str:
    """Who holds a place in which group at the end of an election, as a table by its name. No unit holds two places.

    lists: SQL that gives every `unit` with its `turn`, and its groups, by their keys, with their `position` from 1.
    """
    written = records.written_view("lists", lists, ("unit", *keys))
    placed = records.written_view("placed", first_asked_sql(written, keys), ("unit",))
    while records.scalar(f"SELECT COUNT(*) FROM (SELECT 1 FROM {placed} WHERE rank > {capacity} LIMIT 1)"):
        placed = records.written_view("placed", next_asked_sql(written, placed, keys, capacity), ("unit",))
    return placed


def _buckets(records: SparkRecords, sql: str, length: int) -> Integers:
    histogram = np.zeros(length, np.int64)
    for place, units in without_leaks(lambda: records.sql(sql).collect()):
        histogram[place] = units
    return histogram


def first_round_sql(sampled: str, keys: Sequence[str]) -> str:
    """The eligible groups and the exact sums of round 1, in which every weight is 1."""
    one = f"(SELECT *, CAST({1 << WEIGHT_BITS} AS BIGINT) AS weight FROM {sampled})"
    listed = ", ".join(keys)
    zero = "CAST(0 AS BIGINT)"
    return f"SELECT {listed}, {zero} AS total, {zero} AS first, exact FROM ({_weighted_sums(one, keys)}) AS sums"


def round_sql(sampled: str, state: str, keys: Sequence[str]) -> str:
    """What the state says of every eligible group, with its exact sum for the weight of the state: 0 for a weight of 0."""
    sums = _weighted_sums(f"({_joined(sampled, f'(SELECT * FROM {state} WHERE weight > 0)', keys)})", keys)
    kept = ", ".join(f"state.{name}" for name in (*keys, "total", "first"))
    return (
        f"SELECT {kept}, COALESCE(sums.exact, 0) AS exact FROM {state} AS state"
        f" LEFT JOIN ({sums}) AS sums ON {_same('state', 'sums', keys)}"
    )


def shares_sql(pairs: str, keys: Sequence[str]) -> str:
    """Of every group the sum of its units' shares: 2^LATTICE_BITS over a unit's number of groups, rounded down."""
    listed = ", ".join(keys)
    degrees = f"SELECT {listed}, COUNT(*) OVER (PARTITION BY unit) AS degree FROM {pairs}"
    return f"SELECT {listed}, SUM({1 << LATTICE_BITS} DIV degree) AS exact FROM ({degrees}) AS pair GROUP BY {listed}"


def lists_sql(pairs: str, look: str | None, keys: Sequence[str], turn: str) -> str:
    """Every unit with its turn, and its groups with their positions on its list."""
    columns = ", ".join(["unit", f"{turn} AS turn", *keys])
    if look is None:
        return f"SELECT {columns}, place AS position FROM {pairs}"
    joined = f"SELECT pair.*, given.first FROM {pairs} AS pair JOIN {look} AS given ON {_same('pair', 'given', keys)}"
    position = "ROW_NUMBER() OVER (PARTITION BY unit ORDER BY first DESC, place)"
    return f"SELECT {columns}, {position} AS position FROM ({joined}) AS pair"


def first_asked_sql(lists: str, keys: Sequence[str]) -> str:
    """Everybody asks the first group of its list."""
    return _ranked(f"SELECT unit, turn, {', '.join(keys)} FROM {lists} WHERE position = 1", keys)


def next_asked_sql(lists: str, placed: str, keys: Sequence[str], capacity: int) -> str:
    """Whoever was turned away asks the first group of its list that is not full with earlier units; holders stay."""
    listed = ", ".join(keys)
    choice = ", ".join(f"'{key}', list.{key}" for key in keys)
    chosen = ", ".join(f"choice.{key} AS {key}" for key in keys)
    asking = f"SELECT unit FROM {placed} WHERE rank > {capacity}"
    full = f"SELECT {listed}, unit AS last_unit, turn AS last_turn FROM {placed} WHERE rank = {capacity}"
    asked = (
        f"SELECT list.unit, list.turn, min_by(named_struct({choice}), position) AS choice FROM {lists} AS list"
        f" JOIN ({asking}) AS asking ON list.unit <=> asking.unit"
        f" LEFT JOIN ({full}) AS taken ON {_same('list', 'taken', keys)}"
        " WHERE last_turn IS NULL OR list.turn < last_turn OR (list.turn = last_turn AND list.unit < last_unit)"
        " GROUP BY list.unit, list.turn"
    )
    return _ranked(
        f"SELECT unit, turn, {listed} FROM {placed} WHERE rank <= {capacity}"
        f" UNION ALL SELECT unit, turn, {chosen} FROM ({asked}) AS asked",
        keys,
    )


def votes_sql(placed: str, look: str | None, keys: Sequence[str]) -> str:
    """The votes of every group that has any, and what the look says of it."""
    listed = ", ".join(keys)
    votes = f"SELECT {listed}, COUNT(*) AS votes FROM {placed} GROUP BY {listed}"
    if look is None:
        return f"SELECT *, CAST(0 AS BIGINT) AS first FROM ({votes}) AS counted"
    return f"SELECT counted.*, given.first FROM ({votes}) AS counted JOIN {look} AS given ON {_same('counted', 'given', keys)}"


def _ranked(asked: str, keys: Sequence[str]) -> str:
    rank = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY turn, unit)"
    return f"SELECT *, {rank} AS rank FROM ({asked}) AS asked"


def norms_sql(pairs: str, weights: str, keys: Sequence[str], edges: Integers, power: int) -> str:
    """How many units have their norm in which bucket: one bucket for each unit that has any weight."""
    norms = f"SELECT {_norm(power)} AS norm FROM ({_joined(pairs, weights, keys)}) AS weighted GROUP BY unit"
    return f"SELECT {bucket_sql('norm', edges)} AS place, COUNT(*) AS units FROM ({norms}) AS norms GROUP BY 1"


def degrees_sql(pairs: str, edges: Integers) -> str:
    """How many units have how many groups, in buckets."""
    degrees = f"SELECT COUNT(*) AS degree FROM {pairs} GROUP BY unit"
    return f"SELECT {bucket_sql('degree', edges)} AS place, COUNT(*) AS units FROM ({degrees}) AS degrees GROUP BY 1"


def classes_sql(
    pairs: str, weights: str, keys: Sequence[str], bounds: Sequence[int], light: int, power: int, shifts: Sequence[int]
) -> str:
    """Of every selected group the exact counts of each class, and the clipped steps of light and heavy units."""
    down = WEIGHT_BITS + FACTOR_BITS
    unit = f"shiftright(weight * factor, {down - LATTICE_BITS})"
    sums = {f"class_{i}": f"CASE WHEN class = {i} THEN {unit} ELSE 0 END" for i in range(1, len(bounds) + 1)}
    for position, shift in enumerate(shifts, 1):
        steps = f"steps_{position}"
        scaled = f"shiftright(abs({steps}) * (weight * factor), {down - shift})"
        signed = f"CASE WHEN {steps} < 0 THEN -{scaled} ELSE {scaled} END"
        sums[f"light_{position}"] = f"CASE WHEN class <= {light} THEN {signed} ELSE 0 END"
        sums[f"heavy_{position}"] = f"CASE WHEN class > {light} THEN {signed} ELSE 0 END"
    listed = ", ".join(keys)
    added = ", ".join(f"SUM({sql}) AS {name}" for name, sql in sums.items())
    norms = f"SELECT *, {_norm(power)} OVER (PARTITION BY unit) AS norm FROM ({_joined(pairs, weights, keys)})"
    cases = " ".join(f"WHEN norm <= {bound} THEN {place}" for place, bound in enumerate(bounds[:-1], 1))
    place = f"CASE {cases} ELSE {len(bounds)} END" if cases else "1"
    factors = f"SELECT *, {_clip(bounds[-1], power)} AS factor, {place} AS class FROM ({norms}) AS norms"
    summed = f"SELECT {listed}, {added} FROM ({factors}) AS factors GROUP BY {listed}"
    kept = ", ".join(f"given.{name}" for name in (*keys, "weight"))
    filled = ", ".join(f"COALESCE(sums.{name}, 0) AS {name}" for name in sums)
    return f"SELECT {kept}, {filled} FROM {weights} AS given LEFT JOIN ({summed}) AS sums ON {_same('given', 'sums', keys)}"


def with_bins_sql(
    counted: str, pairs: str, weights: str, keys: Sequence[str], trees: Sequence[int], order: str, most: int
) -> str:
    """Counted groups with the bins of at most `most` of them of each unit, the first in its order."""
    listed = ", ".join(f"pair.{key}" for key in keys)
    place = f"ROW_NUMBER() OVER (PARTITION BY unit ORDER BY {order}, {listed})"
    chosen = f"SELECT pair.*, {place} AS turn FROM {pairs} AS pair LEFT SEMI JOIN {weights} AS given"
    part = f"({chosen} ON {_same('pair', 'given', keys)}) AS part WHERE turn <= {most}"
    stages = [f"counted AS ({counted})", *(binned_sql(i, part, keys, SparkDialect()) for i in trees)]
    joins = " ".join(f"LEFT JOIN binned_{i} ON {_same('counted', f'binned_{i}', keys)}" for i in trees)
    lists = "".join(f", bins_{i}, weights_{i}" for i in trees)
    return f"WITH {', '.join(stages)} SELECT counted.*{lists} FROM counted {joins}"


def _weighted_sums(weighted: str, keys: Sequence[str]) -> str:
    """Each unit's weights scaled to a norm of at most 1, added up by group."""
    listed = ", ".join(keys)
    factor = f"CAST(floor(sqrt(CAST({1 << 2 * NORM_BITS} DIV square AS DOUBLE))) AS BIGINT)"
    squares = f"SELECT *, SUM(weight * weight) OVER (PARTITION BY unit) AS square FROM {weighted} AS weighted"
    return (
        f"SELECT {listed}, SUM(shiftright(weight * {factor}, {NORM_BITS - LATTICE_BITS})) AS exact"
        f" FROM ({squares}) AS squares GROUP BY {listed}"
    )


def _norm(power: int) -> str:
    return "SUM(weight)" if power == 1 else "SUM(weight * weight)"


def _clip(cap: int, power: int) -> str:
    quotient = f"{cap << power * FACTOR_BITS} DIV norm"
    root = quotient if power == 1 else f"CAST(floor(sqrt(CAST({quotient} AS DOUBLE))) AS BIGINT)"
    return f"CASE WHEN norm <= {cap} THEN {1 << FACTOR_BITS} ELSE {root} END"


def _joined(pairs: str, weights: str, keys: Sequence[str]) -> str:
    return f"SELECT pair.*, given.weight FROM {pairs} AS pair JOIN {weights} AS given ON {_same('pair', 'given', keys)}"


def _same(left: str, right: str, keys: Sequence[str]) -> str:
    return " AND ".join(f"{left}.{key} <=> {right}.{key}" for key in keys)


def count_distinct(records: SparkRecords, bounds: ContributionBounds) -> dict[int, str]:
    """A table of groups with how many values are taken, for each measure of distinct values, by its position."""
    return {
        position: _count_distinct(records, position, int(measure.upper), bounds)
        for position, measure in records.fields.distinct
    }


def _count_distinct(records: SparkRecords, position: int, most: int, bounds: ContributionBounds) -> str:
    fields, seed, dialect = records.fields, records.seed, SparkDialect()
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
