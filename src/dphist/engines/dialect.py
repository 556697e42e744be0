"""How engines say the same in SQL: a table of forms for each, so that a plan is one text for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Dialect:
    """The words of an engine, as forms with {} for operands.

    holds_windows: whether a window holds more of one partition in memory than an order needs, so that few rows should come to
    it. materialized: the word that lets a stage of a query be computed once: some sources can be read only once. signed:
    whether half of the hashes are below zero. skips_nulls: whether a hash does, so that the places of nulls are hashed, too.
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
        """Whether a row, by its priority, is among the first `most` of a number of rows, or thereabouts."""
        return self._first.format(priority, number, most * 2.0**64)

    def exact_sum(self, whole: str) -> str:
        """The sum of 64-bit integers in a type in which it cannot overflow."""
        return self._sum.format(whole)

    def same(self, left: str, right: str) -> str:
        """Equality under which null equals null."""
        return self._same.format(left, right)

    def combined(self, values: Sequence[str]) -> str:
        """One value of several, with the fields part_1, part_2, ...; hashed, compared and ordered field by field."""
        return self._struct.format(", ".join(self._part.format(i, value) for i, value in enumerate(values, 1)))

    def nearest(self, number: str) -> str:
        """A double inside +-2^62 as the nearest 64-bit integer, halves to even."""
        return self._nearest.format(number)

    def truncated(self, number: str) -> str:
        """A double inside +-2^62 rounded towards zero, as a double."""
        return self._truncated.format(number)

    def gathered(self, value: str, known: str | None = None) -> str:
        """The values of a group as a list in any order, without those for which `known` is null; none is null itself."""
        return self._list.format(value) + ("" if known is None else f" FILTER (WHERE {known} IS NOT NULL)")

    def spread(self, values: str) -> str:
        """A row for each value of a list."""
        return self._rows.format(values)

    def quotient(self, whole: str | int, divisor: str | int) -> str:
        """Of positive integers, rounded down."""
        return self._quotient.format(whole, divisor)

    def shifted(self, whole: str, bits: int) -> str:
        """A positive integer over a power of two, rounded down."""
        return self._shifted.format(whole, bits)


DUCKDB: Final = Dialect(
    holds_windows=True,
    materialized="MATERIALIZED ",
    signed=False,
    skips_nulls=False,
    # DuckDB combines hashes of columns by multiply and xor; a second round mixes what that leaves correlated.
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
    _sum="SUM(CAST({} AS DECIMAL(20, 0)))",  # 30 digits for the sum: 10^10 of the largest
    _same="{} <=> {}",  # which joins by hash
    _struct="named_struct({})",
    _part="'part_{}', {}",
    _nearest="CAST(rint({}) AS BIGINT)",
    _truncated="CAST(CAST({} AS BIGINT) AS DOUBLE)",  # a cast cuts the fraction off
    _list="collect_list({})",
    _rows="explode({})",
    _quotient="{} DIV {}",
    _shifted="shiftright({}, {})",
)
