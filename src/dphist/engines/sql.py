"""The one plan of all engines: from records to a bounded histogram in SQL.

    records   one row per record: unit, keys, values; filtered
    pairs     one row per (unit, group) with what the unit adds to the group, in whole steps
    ranked    the pairs of each unit in a random order                       (only to sample or to count units)
    counted   one row per group, at most max_groups pairs of each unit
    binned_i  one row per group with the bins of its records and their weights, from the same pairs        (only for quantiles)

Why this keeps the guarantee. The random order of a unit's groups is a keyed hash of (seed, unit, key), ties broken by the
key itself. For *every* seed, which groups a unit keeps and what it adds to them is a function of that unit's own records:
values are added as integers, so that not even the order of rows plays a role. Adding or removing a unit therefore changes
at most `max_groups` groups, by 1 and by at most `sensitivity_steps` per measure, whatever the quality of the hash.
A fresh seed for each run and a well-mixed hash make the kept set uniform: that is accuracy, not privacy. (A shared
random() would not do: the generator's next number depends on how many records came before, that is on other units. It also
gives a retried task of a cluster a different sample.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dphist.aggregates.measures import Measure
from dphist.aggregates.numbers import saturated
from dphist.engines.dialect import Dialect
from dphist.engines.expressions import LONGEST_KEY
from dphist.engines.histogram import ContributionBounds
from dphist.engines.joins import together
from dphist.engines.query import GroupByQuery, parse_unit

if TYPE_CHECKING:
    from dphist.engines.derived import Types

OTHER_SEED = 0x9E3779B97F4A7C15
"""Makes a second seed of the first, for a second order of a unit's groups."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A query whose columns, expressions and types have been checked, as SQL over one record of `source`.

    unit: its parts. Their values stay apart inside one value: two units could give the same joined text. definitions:
    how the source is derived from others, for people to read.
    """

    source: str
    unit: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str | None, ...]
    measures: tuple[Measure, ...]
    where: str | None
    drop_null_keys: bool
    listed: str | None
    want_total: bool
    kept: str | None = None
    read: tuple[str, ...] | None = None
    definitions: tuple[str, ...] = ()

    def explained(self, sql: str) -> str:
        """The views that a run reads, and its SQL after them."""
        return "\n\n".join([*self.definitions, sql])

    def with_measures(self, measures: Sequence[Measure]) -> Fields:
        """These fields with other measures of the same columns."""
        values = {_read(measure): value for measure, value in zip(self.measures, self.values, strict=True)}
        return replace(self, values=tuple(values[_read(measure)] for measure in measures), measures=tuple(measures))

    @property
    def added(self) -> list[tuple[int, Measure]]:
        """The measures that are sums over units, with their positions."""
        return [(position, one) for position, one in enumerate(self.measures, 1) if one.added]

    @property
    def distinct(self) -> list[tuple[int, Measure]]:
        """The measures of distinct values, which are taken as in `engines.distinct`."""
        return [(position, one) for position, one in enumerate(self.measures, 1) if not one.added]

    def value_name(self, position: int) -> str:
        """The column of `records` with the value of a measure. Measures of the same SQL share a column."""
        sql = self.values[position - 1]
        return f"value_{1 + self.reads.index(sql)}" if sql is not None else "no_value"

    @property
    def reads(self) -> tuple[str, ...]:
        """The SQL that measures read of a record, each text once. It stays the same when measures change."""
        return tuple(dict.fromkeys(sql for sql in self.values if sql is not None)) if self.read is None else self.read

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys inside the plan: numbers, so that no name from outside can clash."""
        return tuple(f"key_{position}" for position in range(1, len(self.keys) + 1))


def fields_of(
    query: GroupByQuery,
    types: Types,
    unit: Iterable[tuple[str, str]],
    keys: Sequence[tuple[str, str]],
    values: Sequence[str | None],
    where: str | None,
    source: str,
    definitions: tuple[str, ...],
    longest: int,
) -> Fields:
    """The fields of a query, from SQL of its unit and keys with their types. longest: most bytes of all keys together."""
    parts = [
        types.key(*typed, f"the unit {part.name!r}")[0]
        for typed, part in zip(unit, parse_unit(query.unit), strict=True)
    ]
    canonical = [types.key(*typed, f"the key {key.name!r}")[0] for typed, key in zip(keys, query.by, strict=True)]
    if longest < LONGEST_KEY:
        canonical = together([(sql, types.length(*typed)) for sql, typed in zip(canonical, keys, strict=True)], longest)
    return Fields(
        source, tuple(parts), tuple(canonical), tuple(values), query.measures, where, query.null_keys == "drop", None,
        query.want_total, definitions=definitions,
    )  # fmt: skip


def _read(measure: Measure) -> tuple[str | None, str | None, bool]:
    """The parts of a measure that its value's SQL depends on."""
    return measure.column, measure.expression, measure.any_type


def histogram_sql(
    fields: Fields,
    bounds: ContributionBounds,
    seed: int,
    dialect: Dialect,
    *,
    largest: int | None = None,
    written: str | None = None,
    paired: bool = False,
    taken: Mapping[int, str] | None = None,
) -> str:
    """Group keys, `units`, one `steps_i` per measure and, for the total, `first_units` (each unit in one group only).

    A measure of bins has two lists instead, `bins_i` and `weights_i`; where it is null there is no value.

    With `largest` only so many groups, largest first. Equal counts stand in the order of their keys, which no record can
    change: any other order would let one unit exchange every group of the smallest count that is listed. `written` names a
    table that holds the ranked pairs already; `paired` says that there is a table `pairs`. `taken` names, by the position of
    each measure of distinct values, a table with the keys of groups and how many values are `taken` there.
    """
    keys = ", ".join(fields.key_names)
    steps = added_names(fields.measures)
    stages = [records_sql(fields, dialect), pairs_sql(fields, dialect)] if written is None and not paired else []
    pairs = written or "pairs"
    if written is None and (bounds.max_groups is not None or fields.want_total):
        pairs = "ranked"
        stages.append(ranked_sql(fields, seed, dialect, bounds.max_groups))
    kept = f"\n  WHERE place <= {bounds.max_groups}" if bounds.max_groups is not None else ""
    columns = [keys, "COUNT(*) AS units"]
    columns += [f"{saturated(dialect.exact_sum(name))} AS {name}" for name in steps]
    columns += ["COUNT(CASE WHEN place = 1 THEN 1 END) AS first_units"] if fields.want_total else []
    stages.append(f"counted AS (\n  SELECT {_lines(columns)}\n  FROM {pairs}{kept}\n  GROUP BY {keys}\n)")
    stages += [
        binned_sql(position, f"{pairs}{kept}", fields.key_names, dialect) for position in trees_of(fields.measures)
    ]
    order = ", ".join(["units DESC", *(f"{name} ASC NULLS LAST" for name in fields.key_names)])
    limit = "" if largest is None else f"\nORDER BY {order}\nLIMIT {largest}"
    return "WITH " + ",\n".join(stages) + "\n" + _result(fields, taken or {}, dialect) + limit


def blocks_sql(fields: Fields, blocks: int, seed: int, dialect: Dialect) -> str:
    """Exact counts of units in hashed blocks of units, one block after the other."""
    keys = ", ".join(fields.key_names)
    block = f"{dialect.priority(seed, ['unit'])} % {blocks}"
    return (
        "WITH "
        + ",\n".join([records_sql(fields, dialect), pairs_sql(fields, dialect)])
        + f"\nSELECT {block} AS block, {keys}, COUNT(*) AS units"
        f"\nFROM pairs\nGROUP BY block, {keys}\nORDER BY block"
    )


def coverage_sql(pairs: str, released: str, keys: Sequence[str], dialect: Dialect, unit: str = "unit") -> str:
    """How many units are in some of the released groups, `covered`, and in none of them, `other`.

    `pairs` is a table of units and groups, which may repeat; `released` is one of public keys. Each unit is marked by
    its own pairs.
    """
    matches = dialect.same_keys("released", "pair", keys)
    marked = (
        f"SELECT pair.{unit}, MAX(CASE WHEN released.shown = 1 THEN 1 ELSE 0 END) AS shown\n  FROM {pairs} AS pair"
        f"\n  LEFT JOIN (SELECT {', '.join(keys)}, 1 AS shown FROM {released}) AS released ON {matches}"
        f"\n  GROUP BY pair.{unit}"
    )
    return (
        "SELECT CAST(COALESCE(SUM(shown), 0) AS BIGINT) AS covered, CAST(COALESCE(SUM(1 - shown), 0) AS BIGINT) AS other"
        f"\nFROM (\n  {marked}\n) AS marked"
    )


def records_sql(fields: Fields, dialect: Dialect) -> str:
    """The stage `records`, read from a table if they are written down."""
    if fields.kept is not None:
        return f"records AS (\n  SELECT * FROM {fields.kept}\n)"
    several = len(fields.unit) > 1
    columns = [f"{dialect.combined(fields.unit) if several else fields.unit[0]} AS unit"]
    columns += [f"{sql} AS {name}" for sql, name in zip(fields.keys, fields.key_names, strict=True)]
    columns += [f"{sql} AS value_{place}" for place, sql in enumerate(fields.reads, 1)]
    conditions = ["unit IS NOT NULL"]
    if several:
        conditions = [f"unit.part_{i} IS NOT NULL" for i in range(1, len(fields.unit) + 1)]
    if fields.drop_null_keys:
        conditions += [f"{name} IS NOT NULL" for name in fields.key_names]
    if fields.listed is not None:
        matches = dialect.same_keys("listed", "record", fields.key_names)
        conditions.append(f"EXISTS (SELECT 1 FROM {fields.listed} AS listed WHERE {matches})")
    where = f"\n    WHERE {fields.where}" if fields.where is not None else ""
    return (
        f"records AS (\n  SELECT *\n  FROM (\n    SELECT {_lines(columns, 4)}\n    FROM {fields.source}{where}\n  ) AS record"
        f"\n  WHERE {' AND '.join(conditions)}\n)"
    )


def pairs_sql(fields: Fields, dialect: Dialect) -> str:
    """The stage `pairs`, after `records`."""
    keys = ", ".join(fields.key_names)
    if not fields.added:
        return f"pairs AS (\n  SELECT unit, {keys}\n  FROM records\n  GROUP BY unit, {keys}\n)"
    totals, steps = dict[str, str](), []  # measures of one column share the number of its values
    for position, measure in fields.added:
        value = fields.value_name(position)
        totals |= measure.totals(position, value, dialect)
        steps.append(measure.steps(position, value, dialect))
    trees = {position: measure.tree for position, measure in enumerate(fields.measures, 1) if measure.tree is not None}
    bins = {position: tree.bin_sql(fields.value_name(position), dialect) for position, tree in trees.items()}
    source, stages = "records", ""
    if bins:
        # A list of the bins of all records would be as long as one unit has records, and would stay in memory.
        parts = {f"bin_{i}": sql for i, sql in bins.items()} | {"number": "COUNT(*)"} | totals
        grouped = ", ".join(bins.values())
        stages = f"parts AS (\n  SELECT unit, {keys}, {_named(parts)}\n  FROM records\n  GROUP BY unit, {keys}, {grouped}\n),\n"
        source, totals = "parts", {name: f"SUM({name})" for name in totals}
        totals |= {f"bins_{i}": dialect.gathered(dialect.combined([f"bin_{i}", "number"]), f"bin_{i}") for i in bins}
    return (
        f"{stages}added AS (\n  SELECT unit, {keys}, {_named(totals)}\n  FROM {source}\n  GROUP BY unit, {keys}\n),\n"
        f"pairs AS (\n  SELECT unit, {keys}, {_lines(steps)}\n  FROM added\n)"
    )


def plenty(most: int) -> int:
    """About how many rows to keep, so that fewer than `most` are kept only with a probability below 2^-60."""
    return 2 * most + 64


def ranked_sql(fields: Fields, seed: int, dialect: Dialect, most: int | None = None) -> str:
    """The stage `ranked`, after `pairs`. most: how many pairs of a unit are needed; others may be left out."""
    keys = ", ".join(fields.key_names)
    priority = dialect.priority(seed, ["unit", *fields.key_names])
    ranked = (
        f"ranked AS (\n  SELECT *, ROW_NUMBER() OVER (PARTITION BY unit ORDER BY priority, {keys}) AS place\n  FROM"
    )
    if most is None or not dialect.holds_windows:
        return f"{ranked} (SELECT *, {priority} AS priority FROM pairs) AS pair\n)"
    # Most groups of a unit with very many are dropped before they are sorted, so `most` bounds the memory.
    few = f"degree <= {plenty(most)} OR {dialect.among_first('priority', plenty(most), 'degree')}"
    return (
        f"paired AS MATERIALIZED (\n  SELECT *, {priority} AS priority FROM pairs\n),"
        f"\ndegrees AS (\n  SELECT unit, COUNT(*) AS degree FROM paired GROUP BY unit\n),"
        f"\n{ranked} paired JOIN degrees USING (unit)\n  WHERE {few}\n)"
    )


def steps_names(measures: Sequence[Measure]) -> list[str]:
    """The columns of whole numbers, one for each measure but those of bins, which have lists."""
    return [f"steps_{position}" for position, measure in enumerate(measures, 1) if measure.tree is None]


def added_names(measures: Sequence[Measure]) -> list[str]:
    """The columns of measures that are sums over pairs."""
    return [f"steps_{position}" for position, one in enumerate(measures, 1) if one.added and one.tree is None]


def trees_of(measures: Sequence[Measure]) -> list[int]:
    """The positions of the measures of bins, from 1."""
    return [position for position, measure in enumerate(measures, 1) if measure.tree is not None]


def list_names(measures: Sequence[Measure]) -> list[str]:
    """The columns of a pair for its bins: a list of them, and the weight of each."""
    return [name for position in trees_of(measures) for name in (f"bins_{position}", f"weight_{position}")]


def binned_sql(position: int, pairs: str, keys: Sequence[str], dialect: Dialect) -> str:
    """The stage `binned_i` of a measure: for every group with a value, its bins, each once, and the sums of their weights.

    pairs: a table of pairs with `bins_i` and `weight_i`, perhaps with a condition.
    """
    listed = ", ".join(keys)
    each = f"SELECT {listed}, {dialect.spread(f'bins_{position}')} AS tally, weight_{position} AS weight FROM {pairs}"
    added = saturated(dialect.exact_sum("weight * tally.part_2"))
    entries = (
        f"SELECT {listed}, tally.part_1 AS bin, {added} AS weight FROM ({each}) AS pair GROUP BY {listed}, tally.part_1"
    )
    return (
        f"binned_{position} AS (\n  SELECT {listed}, {dialect.gathered('bin')} AS bins_{position},"
        f" {dialect.gathered('weight')} AS weights_{position}\n  FROM ({entries}) AS entry\n  GROUP BY {listed}\n)"
    )


def _result(fields: Fields, taken: Mapping[int, str], dialect: Dialect) -> str:
    trees = trees_of(fields.measures)
    if fields.listed is None and not fields.distinct and not trees:
        return "SELECT * FROM counted"
    groups = "counted" if fields.listed is None else "listed"
    numbers = {"units": "counted.units", **{name: f"counted.{name}" for name in added_names(fields.measures)}}
    numbers |= {f"steps_{position}": f"taken_{position}.taken" for position, _ in fields.distinct}
    if fields.want_total:
        numbers["first_units"] = "counted.first_units"
    columns = [f"{groups}.{name} AS {name}" for name in fields.key_names]
    columns += [f"COALESCE({sql}, 0) AS {name}" for name, sql in numbers.items()]
    columns += [f"bins_{position}" for position in trees] + [f"weights_{position}" for position in trees]
    tables = {} if fields.listed is None else {"counted": "counted"}
    tables |= {f"taken_{position}": taken[position] for position, _ in fields.distinct}
    tables |= {f"binned_{position}": f"binned_{position}" for position in trees}
    joins = [
        f"\nLEFT JOIN {table} AS {name} ON {dialect.same_keys(groups, name, fields.key_names)}"
        for name, table in tables.items()
    ]
    return f"SELECT {_lines(columns, 0)}\nFROM {fields.listed or groups} AS {groups}{''.join(joins)}"


def _lines(columns: Sequence[str], indent: int = 2) -> str:
    return (",\n" + " " * (indent + 2)).join(columns)


def bucket_sql(value: str, edges: NDArray[np.int64]) -> str:
    """The last bucket whose lower end is not above the value, from 0; values below the first go to the first."""
    above = " + ".join(f"CAST({value} >= {int(edge)} AS INTEGER)" for edge in edges[1:])
    return f"CAST({above or '0'} AS BIGINT)"


def _named(columns: Mapping[str, str], indent: int = 2) -> str:
    return _lines([f"{sql} AS {name}" for name, sql in columns.items()], indent)
