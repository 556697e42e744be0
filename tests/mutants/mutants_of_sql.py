"""Bugs in what decides whether a statement is private: the rules, names and scopes, the clause, the outer query."""

from __future__ import annotations

from typing import Final

from mutants import Mutant

_REFUSED: Final = "tests/sql/test_refused.py::test_each_is_refused_with_its_message"
_ACCEPTED: Final = "tests/sql/test_accepted.py::test_each_is_accepted_with_its_tree"
_STATEMENTS: Final = "tests/sql/test_statements.py::"
_FUZZ: Final = "tests/sql/test_statement_fuzz.py::"
_APART: Final = "tests/sql/test_units_apart.py::"
_JOINS: Final = f"{_REFUSED}[Joins]"
_LOST: Final = f"{_REFUSED}[Unit lost]"
_LISTS: Final = f"{_REFUSED}[Subqueries in expressions]"
_SETS: Final = f"{_REFUSED}[Set operations]"
_OPEN: Final = f"{_REFUSED}[Not private]"
_WITH: Final = f"{_REFUSED}[CTEs]"
_FROM: Final = f"{_REFUSED}[Windows, QUALIFY, order and samples in FROM]"
_FUNCTIONS: Final = f"{_REFUSED}[Functions that are not of one row, or unknown]"
_TABLES: Final = f"{_REFUSED}[Table functions and files]"
_OPTIONS: Final = f"{_REFUSED}[Options]"
_ARGUMENTS: Final = f"{_REFUSED}[Arguments of aggregates]"
_GROUPS: Final = f"{_REFUSED}[DISTINCT, GROUP BY and HAVING]"
_AGGREGATES: Final = f"{_REFUSED}[Aggregates without a private form]"
_SEVERAL: Final = f"{_REFUSED}[Several statements]"


def _in_file(file: str, *bugs: tuple[str, str, str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(f"sql-{name}", file, old, new, breaks, (test,)) for name, old, new, breaks, test in bugs)


_RULES: Final = _in_file(
    "engines/relations.py",
    ("join-without-unit", "if not any(one in left.columns and other in right.columns for one, other in relation.pairs):",
     "if not relation.pairs:", "rows of two private tables meet on the unit", _JOINS),
    ("join-on-one-unit", "if not any(one in left.columns and other in right.columns for one, other in relation.pairs):",
     "if not any(one in left.columns or other in right.columns for one, other in relation.pairs):",
     "the unit is compared with the unit", _JOINS),
    ("join-of-different-units", 'raise _different_units(relation, left, right, "join")', "return left",
     "a row belongs to one kind of unit", _JOINS),
    ("join-with-a-private-right-side", "    if right.public:\n", "    if right.public or relation.kind == \"left\":\n",
     "the optional side of a join is of the same unit", _JOINS),
    ("join-keeps-public-rows", 'if relation.kind == "left":\n            raise',
     'if relation.kind == "inner":\n            raise',
     "public rows do not show whether anybody matches them", _JOINS),
    ("optional-unit", 'return left if relation.kind == "left" else', 'return left if relation.kind == "none" else',
     "a unit that may be null says nothing", f"{_LOST}"),
    ("fold-without-unit", "if not found.public and not units:", "if not found.public and not relation.keys:",
     "rows of several units do not become one", _LOST),
    ("select-without-unit", "if not names and not found.public:", "if not relation.names and not found.public:",
     "a subquery carries the unit", _LOST),
    ("select-of-any-column", "names = tuple(name for name, source in relation.kept.items() if source in found.columns)",
     "names = tuple(name for name in relation.names if found.columns)", "the unit is carried unchanged", _LOST),
    ("private-list", "    if listed.public:\n        return child\n", "    if True:\n        return child\n",
     "whether a row stays does not depend on other people", _LISTS),
    ("union-with-public", "if left.public or right.public:\n", "if False:\n", "rows of a union belong to units", _SETS),
    ("union-of-different-units", 'raise _different_units(relation, left, right, "set operation")', "pass",
     "a row belongs to one kind of unit", _SETS),
    ("union-by-one-side", "if one in left.columns and other in right.columns)\n    if units:",
     "if one in left.columns or other in right.columns)\n    if units:", "the unit is in the same place", _SETS),
)  # fmt: skip

_RELATING: Final = _in_file(
    "sql/relate.py",
    ("first-line-shown", "if table.public or not table.named_by_first_line or column.casefold() in asked:", "if True:",
     "no explanation names a column that nobody asked for",
     "tests/sql/test_first_lines.py::test_no_explanation_names_a_column_that_nobody_asked_for"),
    ("condition-taken-as-equality", "if isinstance(condition, exp.EQ) else None",
     "if isinstance(condition, exp.Binary) else None", "only an equality joins rows of one unit", _JOINS),
    ("join-order-forgotten", 'first, second = (right, left) if side == "RIGHT" else (left, right)',
     "first, second = left, right", "RIGHT JOIN keeps the rows of its right side",
     f"{_ACCEPTED}[a RIGHT JOIN of private tables]"),
    ("full-join", 'if side not in ("", "LEFT", "RIGHT") or', 'if side not in ("", "LEFT", "RIGHT", "FULL") or',
     "FULL JOIN is no inner join", _JOINS),
    ("natural-join", "        if method:\n", "        if False:\n", "columns that are compared are written down", _JOINS),
    ("recursive", 'if clause.args.get("recursive"):', "if False:", "no query repeats itself", _WITH),
    ("renamed-by-cte", 'if one.args["alias"].args.get("columns"):', "if False:", "names of columns are those of SELECT", _WITH),
    ("private-inside-private", 'if isinstance(node.args.get("hint"), PrivacyClause):', "if False:",
     "a private SELECT is not read as a table", _OPEN),
    ("public-scan", "        if not table.public:\n            scan = self._owned",
     "        if False:\n            scan = self._owned",
     "a private table has a unit", f"{_ACCEPTED}[a count of people]"),
)  # fmt: skip

_GROUPING: Final = _in_file(
    "sql/grouping.py",
    ("replaced-star", 'if star.args.get("replace") or star.args.get("rename"):', "if False:",
     "a star is the columns that are there", _LOST),
    ("computed-unit-kept", "if isinstance(node, exp.Column) and (found := rows.search(node)) and not found[0][1]:",
     "if (node := node.find(exp.Column) or node) and isinstance(node, exp.Column) and (found := rows.search(node)):",
     "an expression of the unit is not the unit", _JOINS),
    ("any-fold", "if function is None or", "function = function or \"max\"\n        if",
     "aggregates of a subquery are listed ones",
     _AGGREGATES),
    ("distinct-on", 'if distinct.args.get("on"):', "if False:", "no row is chosen by its order", _FROM),
)  # fmt: skip

_EXPRESSIONS: Final = (
    *_in_file(
        "sql/expressions.py",
        ("two-readings", "if {name.casefold() for name in found.columns} != columns:", "if False:",
         "DuckDB and sqlglot see the same columns", _FUNCTIONS),
        ("clauses-ignored", "            if name in listed or value is None or value is False or value == []:",
         "            if True:", "a clause that nobody examined is refused", _FROM),
        ("ambiguous-name", "        if len(found) == 1:\n            return found[0]",
         "        if found:\n            return found[0]",
         "a name means one column", f"{_REFUSED}[Names]"),
        ("subquery-in-expression", "if isinstance(node, exp.Query | exp.Exists):", "if False:",
         "an expression sees one row", _LISTS),
    ),
    *_in_file(
        "sql/dialect.py",
        ("short-text-believed", "return plain if read_alike(plain, safe, queries=isinstance(node, exp.Query)) else safe",
         "return plain", "DuckDB reads what the statement says",
         "tests/sql/test_brackets.py::test_the_text_for_the_engine_means_what_the_statement_says"),
    ),
    *_in_file(
        "sql/outer.py",
        ("truth-outside", "        if not table.public:\n", "        if False:\n",
         "an outer query reads no private table", _OPEN),
        ("cte-hides-a-table", "listed[: places[0] if places else len(listed)]", "listed",
         "a query of WITH does not see itself", _WITH),
    ),
    *_in_file(
        "sql/translate.py",
        ("any-unit-option", "if not any(one in named for one in found or [path]):", "if False:",
         "the unit is that of the tables", _LOST),
        ("distinct-ignored", 'if select.args.get("distinct") is not None:', "if False:", "DISTINCT is refused", _GROUPS),
        ("public-alone", "        if owner.public:\n", "        if False:\n", "a private SELECT has a private table", _OPEN),
        ("other-public-groups", "if sorted(map(str, wanted)) != sorted(listed.names):", "if False:",
         "the groups are those of the public list", _OPTIONS),
        ("listed-by-nobody", "        if found is None:\n            raise self.refuse(self.select.args[\"hint\"]",
         "        if found is None:\n            return None\n            raise self.refuse(self.select.args[\"hint\"]",
         "PUBLIC_GROUPS has a public list", _OPTIONS),
        ("window-of-rows", "            if isinstance(one, exp.Window):\n", "            if False:\n",
         "a window is no aggregate", _FROM),
    ),
    *_in_file(
        "sql/connection.py",
        ("budget-not-shared", "if declared is not None and (spent > whole or (open_ones and spent == whole > 0)):",
         "if False:", "all private SELECTs share the budget", _SEVERAL),
        ("units-together", "if kind_of(one.protected) != kind_of(privates[0].protected):", "if False:",
         "costs are those of one unit", f"{_APART}test_one_statement_has_one_unit"),
        ("shares-in-binary", "left = _decimal(whole) - sum(map(_decimal, given))",
         "left = Fraction(whole) - sum(map(Fraction, given))", "shares of a budget fit it in decimal",
         "tests/sql/test_script_budget.py::test_equal_shares_are_the_largest_that_fit"),
        ("cte-sees-itself", "scope[one.alias.casefold()] = Definition(one.this, dict(scope))",
         "scope[one.alias.casefold()] = Definition(one.this, scope)", "a query of WITH sees those before it", _WITH),
        ("any-statement", "if not isinstance(node, exp.Query):", "if False:", "a statement is a query",
         f"{_REFUSED}[Other statements]"),
    ),
    *_in_file(
        "publish/record.py",
        ("unit-of-the-first", "joint_unit([one.unit for one in self.releases])", "self.releases[0].unit",
         "a file that adds up costs of different units is no answer",
         f"{_APART}test_a_file_that_adds_up_different_units_is_no_answer"),
    ),
    *_in_file(
        "show/of_release.py",
        ("citation-of-the-first", "    if others:  # what readers", "    if False:  # what readers",
         "a report cites the cost of all private tables",
         f"{_APART}test_a_report_of_several_private_tables_cites_their_cost_together"),
    ),
    *_in_file(
        "cli/answers.py",
        ("costs-of-nobody", "kinds.setdefault(kind_of(release.selection.unit), [])", "kinds.setdefault((), [])",
         "what is spent is told for each unit", f"{_APART}test_a_script_says_what_each_unit_lost"),
    ),
    *_in_file(
        "sql/script.py",
        ("not-charged", "charge=charge)", "charge=None)",
         "every private table is charged", f"{_STATEMENTS}test_the_unit_of_joined_tables_is_the_one_that_a_ledger_knows"),
        ("not-together", "if not whole.within(left):", "if False:", "all charges of a script fit together",
         f"{_STATEMENTS}test_selects_that_fit_alone_and_not_together_charge_nothing"),
    ),
    *_in_file(
        "sql/aggregates.py",
        ("other-bounds", "[one.kind]], {})[written] = bounds", "[one.kind]], {})[written] = (0, 1e6)",
         "values are clamped to the bounds that the statement names",
         f"{_STATEMENTS}test_a_plan_has_the_bounds_and_columns_that_the_statement_names"),
    ),
    *_in_file(
        "sql/outer.py",
        ("errors-of-the-count", 'f"error_{number}": pc.abs(error)', 'f"error_{number}": columns[f"error_{number}"]',
         "the error of a sum of equal totals is that of the sum", f"{_STATEMENTS}test_bounds_may_be_equal"),
        ("errors-that-are-values", '("error", STD_ERROR)', '("error", "")', "an error stands beside its value",
         f"{_STATEMENTS}test_an_answer_has_the_numbers_of_its_release"),
    ),
)  # fmt: skip

_ATTACKS: Final = "tests/sql/test_attacks.py::"
_OTHER_FUNCTIONS: Final = (
    f"{_ATTACKS}test_functions_that_see_or_change_more_than_the_tables_are_refused_in_outer_queries"
)
_GROWN: Final = f"{_ATTACKS}test_nothing_grows_out_of_numbers_in_outer_queries"
_SESSION: Final = f"{_ATTACKS}test_a_session_of_outer_queries_reads_no_file_and_takes_no_setting"
_OUTER: Final = _in_file(
    "sql/outer.py",
    ("files-of-an-outer-query", '        connection.execute("SET enable_external_access = false")\n', "",
     "an outer query sees the tables alone", _SESSION),
    ("settings-of-an-outer-query", '        connection.execute("SET lock_configuration = true")\n', "",
     "an outer query changes nothing", _SESSION),
    ("functions-of-the-machine", '"current_setting", ', "", "an outer query sees the tables alone", _OTHER_FUNCTIONS),
    ("functions-with-side-effects", ' AND NOT coalesce(has_side_effects, false)"', '"', "an outer query changes nothing",
     _OTHER_FUNCTIONS),
    ("texts-without-end", "any(_size(one) > _GROWING[name] for one in numbers)", "False",
     "a look at a statement takes little memory", _GROWN),
    ("texts-of-texts-without-end", "if inner or not plain or", "if not plain or", "a look at a statement takes little memory",
     _GROWN),
    ("texts-as-long-as-a-value", "if inner or not plain or", "if inner or", "a look at a statement takes little memory",
     _GROWN),
)  # fmt: skip

MUTANTS: Final[tuple[Mutant, ...]] = (*_RULES, *_RELATING, *_GROUPING, *_EXPRESSIONS, *_OUTER)
