"""Misra-Gries sketches on a cluster: one of each hashed block of units, merged in a tree.

Units, not rows, are put into blocks. `duckdb.sketch` proves that a block's counts move by a vector in {0,1}^d or {0,-1}^d
when one of its units comes or goes, and that a reduction keeps this. Adding the counts of other blocks keeps it, too, since
they do not move. By induction this holds over *any* tree of merges, so blocks are merged eight at a time. (Sketches of
arbitrary parts of the rows have no such structure: a unit would move several of them.)
"""

from __future__ import annotations

from typing import Final

from dphist.engines.dialect import SPARK
from dphist.engines.spark.engine import SparkRecords
from dphist.engines.sql import pairs_sql, records_sql

BLOCKS: Final = 512
MERGED_AT_ONCE: Final = 8


def sketch_sql(records: SparkRecords, sparsity: int, blocks: int = BLOCKS) -> str:
    """Exact counts of each block, reduced; then merged and reduced level by level."""
    fields, dialect = records.fields, SPARK
    keys = ", ".join(fields.key_names)
    block = f"pmod({dialect.priority(records.seed, ['unit'])}, {blocks})"
    stages = [records_sql(fields, dialect), pairs_sql(fields, dialect)]
    merged = f"SELECT {block} AS block, {keys}, COUNT(*) AS units FROM pairs GROUP BY 1, {keys}"
    level = 0
    while True:
        stages += [f"merged_{level} AS (\n  {merged}\n)", _reduced(level, keys, sparsity)]
        if blocks == 1:
            return "WITH " + ",\n".join(stages) + f"\nSELECT {keys}, units FROM reduced_{level}"
        blocks = -(-blocks // MERGED_AT_ONCE)
        coarser = f"block DIV {MERGED_AT_ONCE}"
        merged = (
            f"SELECT {coarser} AS block, {keys}, SUM(units) AS units FROM reduced_{level} GROUP BY {coarser}, {keys}"
        )
        level += 1


def _reduced(level: int, keys: str, sparsity: int) -> str:
    """Subtract the (k+1)-th largest count of a block and keep positive counts; equal counts go or stay together."""
    return (
        f"reduced_{level} AS (\n  SELECT block, {keys}, units - cut AS units\n  FROM (\n    SELECT *, CASE WHEN COUNT(*)"
        f" OVER (PARTITION BY block) > {sparsity} THEN MIN(units) OVER (PARTITION BY block) ELSE 0 END AS cut\n    FROM ("
        f"\n      SELECT *, ROW_NUMBER() OVER (PARTITION BY block ORDER BY units DESC) AS place\n      FROM merged_{level}"
        f"\n    ) AS ordered\n    WHERE place <= {sparsity + 1}\n  ) AS largest\n  WHERE units > cut\n)"
    )
