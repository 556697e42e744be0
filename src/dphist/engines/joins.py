"""Joins of private rows, in which one unit's rows grow by no more than a public limit.

A row with at most one partner stays, as in any join. The other rows of a unit give at most `most` joined rows together.
A keyed hash of (seed, row) orders the rows of a unit, and such a hash orders the partners of each row. Rows take
partners in this order until there are `most`; later ones are never joined. So the joined rows of a unit follow from its
own rows, the seed and public tables, and so do the time and memory that they take beyond the input.

    others     the right side with each row's `place` among the rows of its key; at most `most` + 1 of a key
    numbered   one row per key: how many `partners` it has
    ranked     the left side with its partners, and the `running` number of them within the unit
    taken      the left side with the `room` that the limit leaves for each row's partners

Engines can write windows, groups and the left side of a join to disk. On the right side they hold all rows of one key
in memory, which are few here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dphist.engines.dialect import Dialect
from dphist.engines.relations import Combine, Filter, Fold, Matching, Relation, Select, Values

MOST_ROWS: Final = 65_536
"""The most rows that a join makes from a unit's rows with several partners, unless a statement says otherwise."""

LONGEST_JOINED: Final = 1_024
"""Bytes of a text or binary value that is computed after a join. Where rows are held, the values of a row share them.

A join makes tens of thousands of rows from one record. With longer texts they could fill gigabytes, and a failure for lack of
memory would tell of that record.
"""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: a view under an alias, its keys in SQL, and the wanted columns with their types."""

    view: str
    alias: str
    keys: Sequence[str]
    columns: Mapping[str, str]


def is_unique(relation: Relation, columns: Sequence[str]) -> bool:
    """Whether no two rows can have the same values in these columns, by the relation alone."""
    match relation:
        case Fold():
            return set(relation.keys) <= set(columns)
        case Select():
            return is_unique(relation.child, [relation.kept[name] for name in columns if name in relation.kept])
        case Filter() | Matching():
            return is_unique(relation.child, columns)
        case Combine():
            return relation.kind != "union all" and set(relation.names) <= set(columns)
        case Values():
            return len(relation.rows) <= 1
        case _:
            return False


def together(columns: Sequence[tuple[str, str | None]], most: int) -> list[str]:
    """Columns cut to `most` bytes together. Each comes with the SQL of its length in bytes, or None if it is short.

    In a longer row, a value of at most an equal share stays, and a longer one is null.
    """
    lengths = [length for _, length in columns if length is not None]
    total = " + ".join(f"COALESCE({length}, 0)" for length in lengths)
    fits = f" OR {total} <= {most}" if len(lengths) > 1 else ""
    share = most // max(len(lengths), 1)
    return [sql if length is None else f"CASE WHEN {length} <= {share}{fits} THEN {sql} END" for sql, length in columns]


def joined_sql(left: Side, right: Side, word: str, wanted: Mapping[str, str]) -> str:
    """A join without a limit. wanted: the columns, each with its name."""
    condition = " AND ".join(f"{one} = {other}" for one, other in zip(left.keys, right.keys, strict=True))
    columns = ", ".join(f"{column} AS {name}" for column, name in wanted.items())
    return (
        f"SELECT {columns}\nFROM {left.view} AS {left.alias}"
        f"\n{word} {right.view} AS {right.alias} ON {condition or 'TRUE'}"
    )


def limited_sql(
    left: Side,
    right: Side,
    word: str,
    wanted: Mapping[str, str],
    unit: str,
    most: int,
    seed: int,
    dialect: Dialect,
    ordered: Callable[[str, str], str],
) -> str:
    """A join of private rows on the left, which may have several partners on the right. unit: the SQL of a row's unit.

    ordered: writes a column of some type in a form that can be hashed and ordered.
    """
    keys = [f"key_{place}" for place in range(max(len(left.keys), 1))]
    mine, theirs = (
        {column: f"{side.alias}_{place}" for place, column in enumerate(side.columns)} for side in (left, right)
    )
    same = {alias: " AND ".join(f"mine.{key} = {alias}.{key}" for key in keys) for alias in ("numbered", "others")}

    def named(side: Side, names: Mapping[str, str], more: Mapping[str, str]) -> str:
        values = zip(side.keys or ["0"], keys, strict=True)  # without a key all rows match
        columns = [*more.items(), *names.items(), *values]
        return f"SELECT {', '.join(f'{sql} AS {name}' for sql, name in columns)} FROM {side.view} AS {side.alias}"

    def order(side: Side, names: Mapping[str, str], more: Sequence[str] = ()) -> str:
        """The SQL of an order. Rows that are equal in all its columns are the same."""
        columns = [*more, *(ordered(names[column], kind) for column, kind in side.columns.items())]
        return ", ".join([dialect.priority(seed, columns or keys), *columns]) if columns or more else keys[0]

    listed = ", ".join(keys)
    place = f"ROW_NUMBER() OVER (PARTITION BY {listed} ORDER BY {order(right, theirs)})"
    several = "CASE WHEN partners > 1 THEN partners ELSE 0 END"
    running = dialect.exact_sum(several)
    running += f" OVER (PARTITION BY unit ORDER BY {order(left, mine, keys)} ROWS UNBOUNDED PRECEDING)"
    room = f"CASE WHEN partners <= 1 THEN 1 ELSE CAST(GREATEST({most} + partners - running, 0) AS BIGINT) END"
    names = {column: f"mine.{name}" for column, name in mine.items()}
    names |= {column: f"others.{name}" for column, name in theirs.items()}
    columns = ", ".join(f"{names[column]} AS {name}" for column, name in wanted.items())
    counted = "SELECT mine.*, COALESCE(numbered.partners, 0) AS partners"
    return (
        f"WITH others AS {dialect.materialized}(\n  SELECT * FROM (\n    SELECT *, {place} AS place"
        f"\n    FROM ({named(right, theirs, {})}) AS named\n  ) AS placed\n  WHERE place <= {most + 1}\n),"
        f"\nnumbered AS (\n  SELECT {listed}, MAX(place) AS partners FROM others GROUP BY {listed}\n),"
        f"\nranked AS (\n  SELECT *, {running} AS running FROM (\n    {counted}"
        f"\n    FROM ({named(left, mine, {unit: 'unit'})}) AS mine"
        f"\n    LEFT JOIN numbered ON {same['numbered']}\n  ) AS counted\n),"
        f"\ntaken AS (\n  SELECT *, {room} AS room FROM ranked\n)"
        f"\nSELECT {columns}\nFROM (SELECT * FROM taken WHERE room > 0) AS mine"
        f"\n{word} others ON {same['others']} AND others.place <= mine.room"
    )
