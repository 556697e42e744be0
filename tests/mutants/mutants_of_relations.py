"""Bugs between tables and records: relations that are derived from several tables."""

from __future__ import annotations

from typing import Final

from mutants import Mutant

_DERIVED: Final = "tests/engines/test_derived.py::"
_SOURCES: Final = "tests/engines/test_derived_sources.py::"
_TREE: Final = f"{_DERIVED}test_a_tree_of_everything_equals_the_oracle"
_SUM: Final = f"{_SOURCES}test_a_sum_does_not_depend_on_the_order_of_rows"
_EXACT: Final = f"{_SOURCES}test_sums_are_exact_over_the_whole_range_and_infinities_are_the_largest_value"
_MANY: Final = "tests/engines/test_joins.py::test_rows_with_several_partners_become_so_many_of_one_unit"
_OWN: Final = "tests/engines/test_joins.py::test_what_stays_of_a_unit_follows_from_its_own_rows"
_HELD: Final = "tests/engines/test_joins.py::test_the_rows_of_one_unit_do_not_stay_in_memory"

MUTANTS: Final = (
    Mutant(
        "units-of-two-types-meet",
        "engines/derived.py",
        "(writer.whole if exactly else writer.whole | writer.floats):",
        "writer.whole | writer.floats:",
        "two units never become one because they are equal as doubles",
        (f"{_SOURCES}test_only_values_of_one_type_or_numbers_meet[unit3-others3-False-duckdb]",),
    ),
    Mutant(
        "types-that-may-not-fit-meet",
        "engines/derived.py",
        "if not set(kinds) <= (writer.whole if exactly else writer.whole | writer.floats):",
        "if exactly and not set(kinds) <= writer.whole:",
        "no record ends a run because it cannot be cast",
        (f"{_SOURCES}test_only_values_of_one_type_or_numbers_meet[unit4-others4-False-duckdb]",),
    ),
    Mutant(
        "any-unit-of-a-tree",
        "engines/derived.py",
        "if len(parts) > 1 or name is None or name.casefold() not in map(str.casefold, found.columns):",
        "if len(parts) > 1:",
        "rows are counted under the unit that they are proved to belong to",
        (f"{_SOURCES}test_only_the_unit_that_is_proved_is_taken[url]",),
    ),
    Mutant(
        "sum-that-overflows",
        "engines/derived.py",
        'return f"TRY_CAST({total} AS BIGINT)"',
        'return f"CAST({total} AS BIGINT)"',
        "no record ends a run because a sum does not fit",
        (f"{_SUM}[duckdb]",),
    ),
    Mutant(
        "doubles-added-as-they-come",
        "engines/derived.py",
        'total = exact_total(f"CAST({sql} AS DOUBLE)", writer.truncated, writer.exact_sum)',
        'total = f"SUM(CAST({sql} AS DOUBLE))"',
        "a sum within a unit is a function of its values, not of the order in which they are read",
        (f"{_SUM}[duckdb]",),
    ),
    Mutant(
        "sum-without-its-smallest-part",
        "engines/sums.py",
        "for place in _PLACES:",
        "for place in _PLACES[1:]:",
        "a sum within a unit is exact",
        (f"{_EXACT}[duckdb]",),
    ),
    Mutant(
        "sum-of-infinities-goes-on",
        "engines/sums.py",
        "clamped(number, -LARGEST, LARGEST)",
        "number",
        "no sum is NaN, and no value ends a run",
        (f"{_EXACT}[duckdb]",),
    ),
    Mutant(
        "table-unguarded",
        "engines/duckdb/derived.py",
        "return Steps(self.connection, columns)",
        "return Steps(self.connection, columns, guarded=True)",
        "NaN is null and zeros have no sign before rows meet",
        (f"{_TREE}[duckdb]",),
    ),
    Mutant(
        "unit-cut-short-in-a-tree",
        "engines/derived.py",
        "return [self.own[self.unit]] if self.unit is not None and self.unit in self.own else self.of_expression",
        "return self.of_expression",
        "two units never become one because the engine reads them shorter than they are",
        (f"{_SOURCES}test_a_unit_is_never_read_shorter_than_it_is[None-duckdb]",),
    ),
    Mutant(
        "reader-read-to-its-end-before",
        "engines/duckdb/derived.py",
        "self.again.append(attached.reread or partial(attach, self.connection, table, needed, view))",
        "self.again.append(attached.reread or partial(len, needed))",
        "one record that cannot be read takes nothing away from others",
        (f"{_SOURCES}test_a_value_that_the_reader_does_not_take_leaves_the_others_as_they_are[csv]",),
    ),
    Mutant(
        "reader-of-one-pass-kept-for-later",
        "engines/duckdb/derived.py",
        "        if not self.once:\n            return reread\n",
        "        if self.attached:\n            return reread\n",
        "one record that cannot be read takes nothing away from others",
        (f"{_SOURCES}test_a_value_that_the_reader_does_not_take_leaves_the_others_as_they_are[reader]",),
    ),
    Mutant(
        "reader-of-one-pass-twice",
        "engines/duckdb/derived.py",
        "if self.once[id(table)] > 1:",
        "if self.once[id(table)] > 9:",
        "a table whose records come once is not taken for an empty one",
        (f"{_SOURCES}test_a_reader_of_one_pass_is_refused_twice",),
    ),
    Mutant(
        "anything-in-a-list-of-units",
        "engines/relations.py",
        "if same and relation.column in child.columns and",
        "if same and",
        "a row stays or goes by what its own unit has in a private list",
        ("tests/sql/test_refused.py::test_each_is_refused_with_its_message[Subqueries in expressions]",),
    ),
    Mutant(
        "the-unit-in-a-list-of-anything",
        "engines/relations.py",
        " and set(relation.listed.names) <= set(listed.columns):",
        ":",
        "a row stays or goes by what its own unit has in a private list",
        (f"{_SOURCES}test_a_list_of_more_than_units_is_none_of_units",),
    ),
    Mutant(
        "units-of-two-kinds-in-a-list",
        "engines/relations.py",
        "    same = child.kind.casefold() == listed.kind.casefold()\n",
        "    same = True\n",
        "a number of a customer is not that of a user",
        ("tests/sql/test_refused.py::test_each_is_refused_with_its_message[Subqueries in expressions]",),
    ),
    Mutant(
        "nobody-in-a-list-of-units",
        "engines/derived.py",
        ' + (f" WHERE {among} IS NOT NULL" if of_units else "")',
        "",
        "a row of nobody decides for nobody",
        (f"{_SOURCES}test_a_list_of_units_is_that_of_everybody_who_has_rows_in_it[True-duckdb]",),
    ),
    Mutant(
        "where-joins-below-an-outer-join",
        "sql/relate.py",
        "equalities = [] if kept_right else [",
        "equalities = [",
        "WHERE speaks of rows that an outer join keeps",
        ("tests/sql/test_refused.py::test_each_is_refused_with_its_message[Joins]",),
    ),
    Mutant(
        "join-without-limit",
        "engines/joins.py",
        " AND others.place <= mine.room",
        "",
        "of one unit a join makes no more rows than a public limit",
        (f"{_MANY}[every-duckdb]",),
    ),
    Mutant(
        "join-with-a-limit-for-each-row",
        "engines/joins.py",
        "{most} + partners - running",
        "{most}",
        "the limit is one for all rows of a unit",
        (f"{_MANY}[self-duckdb]",),
    ),
    Mutant(
        "join-with-a-limit-for-all",
        "engines/joins.py",
        "OVER (PARTITION BY unit ORDER BY",
        "OVER (ORDER BY",
        "which rows of a unit stay does not depend on others",
        (f"{_OWN}[self-duckdb]",),
    ),
    Mutant(
        "join-limited-in-the-order-of-rows",
        "engines/joins.py",
        "ORDER BY {order(left, mine, keys)} ROWS",
        "ROWS",
        "which rows of a unit stay does not depend on how they lie in a file",
        (f"{_OWN}[sites-duckdb]",),
    ),
    Mutant(
        "partners-in-the-order-of-rows",
        "engines/joins.py",
        "(PARTITION BY {listed} ORDER BY {order(right, theirs)})",
        "(PARTITION BY {listed})",
        "which partners a row keeps does not depend on how they lie in a file",
        (f"{_OWN}[self-duckdb]",),
    ),
    Mutant(
        "unique-by-a-part-of-its-keys",
        "engines/joins.py",
        "return set(relation.keys) <= set(columns)",
        "return bool(set(relation.keys) & set(columns))",
        "only a join with one partner has no limit",
        ("tests/engines/test_joins.py::test_what_is_unique_by_the_statement",),
    ),
    Mutant(
        "unique-in-another-type",
        "engines/derived.py",
        "            once = [False, False]",
        "            pass",
        "numbers that differ may be equal in the type in which they are compared",
        ("tests/engines/test_joins.py::test_unique_keys_of_two_types_may_be_equal",),
    ),
    Mutant(
        "many-rows-of-one-unit-on-the-right",
        "engines/derived.py",
        "or (once[0] and not once[1] and not any(public))",
        "",
        "the rows of one unit are not held in memory",
        (f"{_HELD}[unique]",),
    ),
    Mutant(
        "units-listed-often",
        "engines/derived.py",
        'f"SELECT DISTINCT {among}',
        'f"SELECT {among}',
        "the rows of one unit are not held in memory",
        (f"{_HELD}[in]",),
    ),
)
