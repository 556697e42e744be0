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

    different   one row per pair and value: each value once
    valued      those of kept pairs, with their `number` in the pair; of a pair with very many some MOST_VALUES
    light       one row per group and value of a pair that has at most `most` of them
    contested   the rows of all other pairs whose value is not in `light`, with the pair's `turn` and the value's `place`
"""

from __future__ import annotations

from typing import Final

from dphist.engines.dialect import Dialect
from dphist.engines.histogram import ContributionBounds
from dphist.engines.sql import Fields, histogram_sql, plenty, ranked_sql, records_sql

MOST_VALUES: Final = 32_768
"""So many values of a pair and more are on its list, drawn by its order; of longer ones the rest is left out."""


def different_sql(fields: Fields, position: int, dialect: Dialect) -> str:
    """`different`, of the measure at a position."""
    keys, value = ", ".join(fields.key_names), fields.value_name(position)
    records = records_sql(fields, dialect)
    return f"WITH {records}\nSELECT unit, {keys}, {value} AS value\nFROM records\nGROUP BY unit, {keys}, {value}"


def valued_sql(
    fields: Fields, different: str, most: int, bounds: ContributionBounds, seed: int, dialect: Dialect
) -> str:
    """`valued`, of the table `different`. Pairs are kept as they are for the counts, and nobody's list is long."""
    names = ["unit", *fields.key_names]
    stages = [
        f"pairs AS (\n  SELECT {', '.join(names)}, COUNT(value) AS number FROM {different} GROUP BY {', '.join(names)}\n)"
    ]
    kept = "pairs"
    if bounds.max_groups is not None:
        stages.append(ranked_sql(fields, seed, dialect, bounds.max_groups))
        kept = f"(SELECT * FROM ranked WHERE place <= {bounds.max_groups})"
    columns = ", ".join(f"one.{name}" for name in names)
    order, longest = (
        dialect.priority(seed, [*(f"one.{name}" for name in names), "one.value"]),
        plenty(max(most, MOST_VALUES)),
    )
    return (
        f"WITH {','.join(stages)}\nSELECT {columns}, one.value, kept.number\nFROM {different} AS one\nJOIN {kept} AS kept"
        f" ON one.unit = kept.unit AND {dialect.same_keys('one', 'kept', fields.key_names)}\nWHERE one.value IS NOT NULL"
        f" AND (kept.number <= {longest} OR {dialect.among_first(order, longest, 'kept.number')})"
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
    taken = f"{dialect.same_keys('light', 'heavy', fields.key_names)} AND light.value = heavy.value"
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
            f"-- different: values of measure {position}\n{different_sql(fields, position, dialect)}",
            f"-- valued\n{valued_sql(fields, 'different', most, bounds, 0, dialect)}",
            f"-- light\n{light_sql(fields, 'valued', most)}",
            f"-- contested\n{contested_sql(fields, 'valued', 'light', most, 0, dialect)}",
            f"-- taken_{position}; won: what pairs of contested take, one after the other\n{taken_sql(fields, 'light', 'won')}",
        ]
    taken = {position: f"taken_{position}" for position, _ in fields.distinct}
    return ";\n\n".join([*steps, histogram_sql(fields, bounds, 0, dialect, taken=taken)])
