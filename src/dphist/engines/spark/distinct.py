"""Distinct values per group in Spark: the election of `spark.pairs`, in which a voter is a copy of a pair."""

from __future__ import annotations

from dphist.engines.distinct import contested_sql, different_sql, light_sql, taken_sql, valued_sql
from dphist.engines.histogram import ContributionBounds
from dphist.engines.spark.engine import SparkDialect, SparkRecords
from dphist.engines.spark.pairs import place_all


def count_distinct(records: SparkRecords, bounds: ContributionBounds) -> dict[int, str]:
    """A table of groups with how many values are taken, for each measure of distinct values, by its position."""
    return {
        position: _count(records, position, int(measure.upper), bounds) for position, measure in records.fields.distinct
    }


def _count(records: SparkRecords, position: int, most: int, bounds: ContributionBounds) -> str:
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
