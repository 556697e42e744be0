"""A table of SQL forms for each engine, so that one plan serves all engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of an engine, as forms with {} for operands.

    holds_windows: whether a window needs more memory for a partition than its sort does; then it should get few rows.
    materialized: the word by which a stage of a query is computed once, since some sources can be read only once.
    signed: whether half of the hashes are negative. skips_nulls: whether a hash ignores nulls; then the places of nulls
    are hashed, too.
    """

    holds_windows: bool
    materialized: str
    signed: bool
    skips_nulls: bool
    _hash: str
    _first: str
    _sum: str
    _same: str
    _struct: str
    _part: str
    _nearest: str
    _truncated: str
    _list: str
    _rows: str
    _quotient: str
    _shifted: str

    def priority(self, seed: int, columns: Sequence[str]) -> str:
        """A well-mixed integer from a seed and columns."""
        nulls = [f"{column} IS NULL" for column in columns if self.skips_nulls and column != "unit"]
        return self._hash.format(seed - 2**64 if self.signed and seed >= 2**63 else seed, ", ".join([*columns, *nulls]))

    def among_first(self, priority: str, most: int, number: str) -> str:
        """Whether the priority of a row puts it among about the first `most` of a number of rows."""
        return self._first.format(priority, number, most * 2.0**64)

    def exact_sum(self, whole: str) -> str:
        """The sum of 64-bit integers in a type in which it cannot overflow."""
        return self._sum.format(whole)

    def same(self, left: str, right: str) -> str:
        """Equality under which null equals null."""
        return self._same.format(left, right)

    def same_keys(self, left: str, right: str, keys: Sequence[str]) -> str:
        """Whether rows of two tables are of one group."""
        return " AND ".join(self.same(f"{left}.{key}", f"{right}.{key}") for key in keys)

    def combined(self, values: Sequence[str]) -> str:
        """Several values as one with the fields part_1, part_2, ...; it is hashed, compared and ordered field by field."""
        return self._struct.format(", ".join(self._part.format(i, value) for i, value in enumerate(values, 1)))

    def nearest(self, number: str) -> str:
        """A double inside +-2^62 as the nearest 64-bit integer, halves to even."""
        return self._nearest.format(number)

    def truncated(self, number: str) -> str:
        """A double inside +-2^62 rounded towards zero, as a double."""
        return self._truncated.format(number)

    def gathered(self, value: str, known: str | None = None) -> str:
        """The values of a group as a list in any order. No value is null. A value whose `known` is null is left out."""
        return self._list.format(value) + ("" if known is None else f" FILTER (WHERE {known} IS NOT NULL)")

    def spread(self, values: str) -> str:
        """A row for each value of a list."""
        return self._rows.format(values)

    def quotient(self, whole: str | int, divisor: str | int) -> str:
        """The quotient of positive integers, rounded down."""
        return self._quotient.format(whole, divisor)

    def shifted(self, whole: str, bits: int) -> str:
        """A positive integer over a power of two, rounded down."""
        return self._shifted.format(whole, bits)


DUCKDB: Final = Dialect(
    holds_windows=True,
    materialized="MATERIALIZED ",
    signed=False,
    skips_nulls=False,
    # DuckDB combines hashes of columns by multiply and xor; a second round removes the correlation that is left.
    _hash="hash(hash(CAST({} AS UBIGINT), {}))",
    _first="CAST({} AS DOUBLE) * {} < {!r}",
    _sum="SUM({})",  # in 128 bits
    _same="{} IS NOT DISTINCT FROM {}",
    _struct="struct_pack({})",
    _part="part_{} := {}",
    _nearest="CAST({} AS BIGINT)",
    _truncated="trunc({})",
    _list="list({})",
    _rows="unnest({})",
    _quotient="{} // {}",
    _shifted="({}) >> {}",
)

SPARK: Final = Dialect(
    holds_windows=False,
    materialized="",
    signed=True,
    skips_nulls=True,
    _hash="xxhash64(CAST('{}' AS BIGINT), {})",  # XXH64, column after column, each hash the seed of the next
    _first=f"(CAST({{}} AS DOUBLE) + {2.0**63!r}D) * {{}} < {{!r}}D",
    _sum="SUM(CAST({} AS DECIMAL(20, 0)))",  # a sum has 30 digits, room for 10^10 of the largest
    _same="{} <=> {}",  # Spark can join on it by hash
    _struct="named_struct({})",
    _part="'part_{}', {}",
    _nearest="CAST(rint({}) AS BIGINT)",
    _truncated="CAST(CAST({} AS BIGINT) AS DOUBLE)",  # a cast cuts the fraction off
    _list="collect_list({})",
    _rows="explode({})",
    _quotient="{} DIV {}",
    _shifted="shiftright({}, {})",
)
