"""Distinct values of a column per group, of which one unit can change only so many: the shared SQL of all engines.

**Theorem.** Let every pair of a unit and a group that it is counted in have a list of different values. Let pairs act in an
order that depends on each unit's own records and the seed alone, and each take the first `most` values of its list that no pair
of its group has taken before. Then one unit more, or less, moves the number D of values that are taken in a group by at most
`most`, in groups that it is counted in, and leaves D of all others as it is. (The proof is in docs/distinct.md.)

D is at most the number of distinct values, and equal to it where no pair has more than `most`.

The order: first the pairs that have at most `most` values. They take all of them, so what they take together is a plain
DISTINCT, in whatever order they act. Then the others, by a keyed hash of (seed, unit, keys), ties by unit and keys; their lists
are in the order of a keyed hash of (seed, unit, keys, value), ties by the value. These take part in the election of
`dphist.engines.election`, each as `most` voters in a row with the same list, for values that have room for one. Deferred
acceptance gives what acting one after the other gives (docs/voting.md).

    valued      one row per kept pair and value: each value once, with their `number` in the pair
    light       one row per group and value of a pair that has at most `most` of them
    contested   the rows of all other pairs whose value is not in `light`, with the pair's `turn` and the value's `place`
"""

from __future__ import annotations

from dphist.engines.sql import Dialect, Fields, histogram_sql, records_sql, same_keys
from dphist.histogram import ContributionBounds


def valued_sql(fields: Fields, position: int, bounds: ContributionBounds, seed: int, dialect: Dialect) -> str:
    """`valued`, of the measure at a position. Pairs are kept as `sql.ranked_sql` ranks them, here with a dense rank."""
    keys, priority = ", ".join(fields.key_names), dialect.priority(seed, ["unit", *fields.key_names])
    value = fields.value_name(position)
    different = f"SELECT unit, {keys}, {value} AS value\n  FROM records\n  GROUP BY unit, {keys}, {value}"
    columns = f"unit, {keys}, value, COUNT(value) OVER (PARTITION BY unit, {keys}) AS number"
    kept = "value IS NOT NULL"
    if bounds.max_groups is not None:
        columns += f", DENSE_RANK() OVER (PARTITION BY unit ORDER BY priority, {keys}) AS place"
        kept += f" AND place <= {bounds.max_groups}"
    return (
        f"WITH {records_sql(fields, dialect)},\ndifferent AS (\n  {different}\n),\nranked AS (\n  SELECT {columns}"
        f"\n  FROM (SELECT *, {priority} AS priority FROM different) AS pair\n)"
        f"\nSELECT unit, {keys}, value, number\nFROM ranked\nWHERE {kept}"
    )


def light_sql(fields: Fields, valued: str, most: int) -> str:
    """`light`, of the table `valued`."""
    keys = ", ".join(fields.key_names)
    return f"SELECT {keys}, value FROM {valued} WHERE number <= {most} GROUP BY {keys}, value"


def contested_sql(fields: Fields, valued: str, light: str, most: int, seed: int, dialect: Dialect) -> str:
    """`contested`, of the tables `valued` and `light`; places count from 1."""
    names = ["unit", *fields.key_names]
    pair = ", ".join(names)
    turn, order = dialect.priority(seed, names), dialect.priority(seed, [*names, "value"])
    taken = f"{same_keys(fields, 'light', 'heavy', dialect)} AND light.value = heavy.value"
    left = (
        f"SELECT {pair}, value, {turn} AS turn, {order} AS preference FROM {valued} AS heavy"
        f" WHERE number > {most} AND NOT EXISTS (SELECT 1 FROM {light} AS light WHERE {taken})"
    )
    place = f"ROW_NUMBER() OVER (PARTITION BY {pair} ORDER BY preference, value)"
    return f"SELECT {pair}, value, turn, {place} AS place FROM ({left}) AS pair"


def taken_sql(fields: Fields, light: str, won: str) -> str:
    """How many values are taken in each group that has any: those of `light`, and those that the election gave to somebody."""
    keys = ", ".join(fields.key_names)
    both = f"SELECT {keys}, value FROM {light} UNION ALL SELECT {keys}, value FROM {won}"
    return f"SELECT {keys}, COUNT(*) AS taken FROM ({both}) AS taken GROUP BY {keys}"


def explained_sql(fields: Fields, bounds: ContributionBounds, dialect: Dialect) -> str:
    """The SQL of a run whose seed is 0, step by step; the election is a loop."""
    steps = []
    for position, measure in fields.distinct:
        most = int(measure.upper)
        steps += [
            f"-- valued: distinct values of measure {position}\n{valued_sql(fields, position, bounds, 0, dialect)}",
            f"-- light\n{light_sql(fields, 'valued', most)}",
            f"-- contested\n{contested_sql(fields, 'valued', 'light', most, 0, dialect)}",
            f"-- taken_{position}; won: what pairs of contested take, one after the other\n{taken_sql(fields, 'light', 'won')}",
        ]
    taken = {position: f"taken_{position}" for position, _ in fields.distinct}
    return ";\n\n".join([*steps, histogram_sql(fields, bounds, 0, dialect, taken=taken)])
