"""The list of functions: nothing that one record passes to them ends a run, and their results depend on that record alone."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import duckdb
import pytest
from function_cases import LONGER, QUICK, SYNTAX, THOROUGH, Case, Effort, all_cases
from function_fuzz import fuzz
from function_values import TYPES

from dphist.engines import literals
from dphist.engines.functions import CASTS, FUNCTIONS, OPERATIONS, Function, nearest
from dphist.engines.literals import anything

DOCUMENT = Path(__file__).parents[2] / "docs" / "expressions.md"


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.parametrize(
    ("effort", "calls"),
    [(QUICK, 20_000), pytest.param(LONGER, 50_000, marks=pytest.mark.long)],
    ids=["quick", "longer"],
)
def test_no_nasty_value_passes_a_listed_function(effort: Effort, calls: int) -> None:
    outcome = fuzz(all_cases(effort), effort)
    assert outcome.problems == []
    bound = {case.name for case in outcome.bound}
    assert {name for name in chain(FUNCTIONS, SYNTAX) if name not in bound} == set()
    assert {f"CAST {target}" for target in CASTS} <= bound
    assert outcome.calls > calls


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3))
def test_nor_do_many_more(seed: int) -> None:
    """Every type of each family, more tuples and literals; `pytest -s` shows the counts for docs/expressions.md."""
    effort = replace(THOROUGH, seed=seed)
    outcome = fuzz(all_cases(effort), effort)
    print(f"{len(outcome.bound)} cases, {outcome.calls} calls, {outcome.seconds:.2f} s, {outcome.memory >> 10} kB")
    assert outcome.problems == []


@pytest.mark.fuzz
def test_every_zone_takes_every_time() -> None:
    cases = [
        Case("timezone", f"timezone('{zone}', c0)", None, (kind,))
        for zone in sorted(literals.zones())
        for kind in TYPES["timestamp"]
    ]
    assert fuzz(cases, LONGER).problems == []


DEEP = "repeat('{\"a\":', 500000 * c0) || '1' || repeat('}', 500000 * c0)"
BOUNDS = ("DECIMAL(38, 38)", "DECIMAL(38, 38)", "USMALLINT")
UNSAFE = {
    "a zone from a column": (Case("timezone", "timezone(c0, c1)", None, ("VARCHAR", "TIMESTAMP")), "NotImplemented"),
    "a dimension": (Case("array_length", "array_length(c0, c1)", None, ("DOUBLE[]", "BIGINT")), "NotImplemented"),
    "an empty bucket": (Case("time_bucket", "time_bucket(c0, c1)", None, ("INTERVAL", "DATE")), "NotImplemented"),
    "a zone in the text": (Case("strptime", "strptime(c0, '%Y-%m-%d %H:%M:%S %Z')", None, ("VARCHAR",)), "NotImplemented"),
    "an open escape": (Case("like_escape", "like_escape('a', c0, '$')", None, ("VARCHAR",)), "SyntaxException"),
    "statistics that fail": (Case("epoch_ns", "epoch_ns(c0)", None, ("DATE",)), "ConversionException"),
    "a guard dropped": (Case("replace", "replace(c0, c1, c2)", None, ("VARCHAR",) * 3), "Memory|died"),
    "repetition": (Case("repeat", "repeat(c0, c1)", None, ("VARCHAR", "BIGINT")), "Memory|died"),
    "forty megabytes": (Case("replace", f"replace(c0, 'a', '{'x' * 600}')", None, ("VARCHAR",)), "one call takes"),
    "a deep text": (Case("json_contains", f"json_contains({DEEP}, '2')", "c0 = 1", ("BIGINT",)), "died"),
    "statistics of the others": (Case("BETWEEN", "c0 BETWEEN c1 AND c2", None, BOUNDS), "depends"),
    "a clock": (Case("now", "epoch_us(now()) + c0", "c0 = 1", ("BIGINT",)), "depends"),
}  # fmt: skip


def test_the_fuzzer_sees_what_is_unsafe() -> None:
    outcome = fuzz([case for case, _ in UNSAFE.values()], replace(LONGER, alone=12))
    problems = dict(outcome.problems)
    for what, (case, expected) in UNSAFE.items():
        assert re.search(expected, problems.get(case, "nothing")), what


def test_names_are_those_of_the_parser_and_of_the_catalogue(connection: duckdb.DuckDBPyConnection) -> None:
    known = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
        " AND coalesce(stability, 'CONSISTENT') = 'CONSISTENT'"
    ).fetchall()
    assert set(FUNCTIONS) <= {name.lower() for (name,) in known}
    assert all(name == name.lower() and one.name == name for name, overloads in FUNCTIONS.items() for one in overloads)


def test_every_operation_was_examined_or_is_written_as_others() -> None:
    assert set(OPERATIONS) - set(SYNTAX) == {"COMPARE_BETWEEN", "OPERATOR_TRY", "ARRAY_EXTRACT", "ARRAY_SLICE"}


def test_entries_fit_together() -> None:
    for function in chain(*FUNCTIONS.values(), *SYNTAX.values()):
        assert all(position < len(function.arguments) for position in function.constants)
        assert all(family in TYPES for union in function.arguments for family in union.split("|"))
        assert all(check is not anything for check, *_ in function.checks) or function.name.endswith("_extract")
        if function.guard is not None:
            assert {int(n) for n in re.findall(r"\{(\d)\}", function.guard)} <= set(range(len(function.arguments)))


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("date_trunc", ("MONTH", None), None),
        ("date_trunc", ("moth", None), "a part of a date"),
        ("date_trunc", (None, None), "a part of a date"),
        ("timezone", ("Europe/Zurich", None), None),
        ("timezone", ("Mars/Phobos", None), "the name of a time zone"),
        ("regexp_matches", (None, "^a+$"), None),
        ("regexp_matches", (None, "("), "that RE2 can compile"),
        ("regexp_matches", (None, r"(a)\1"), "that RE2 can compile"),
        ("regexp_matches", (None, "a" * 1_001), "at most 1000 bytes"),
        ("regexp_matches", (None, "a{200}b{0,100}"), "at most 100 repetitions"),
        ("regexp_matches", (None, "a{200,}{100,}"), "at most 100 repetitions"),
        ("regexp_matches", (None, "a", "g"), "options of the letters"),
        ("regexp_replace", (None, "a", "b", "g"), None),
        ("regexp_replace", (None, "a", "b" * 61), "at most 60 bytes"),
        ("regexp_extract", (None, "a", 10), "from 0 to 9"),
        ("lpad", (None, 1_001, None), "from 0 to 1000"),
        ("lpad", (None, True, None), "from 0 to 1000"),
        ("strptime", (None, "%Y-%m-%d"), None),
        ("strptime", (None, "%Y %Z"), "not %Z"),
        ("strftime", (None, "%"), "a format"),
        ("like_escape", (None, "100$%", "$"), None),
        ("like_escape", (None, "100$$", "$"), None),
        ("like_escape", (None, "100$", "$"), "does not end with"),
        ("like_escape", (None, None, "$"), "a literal"),
    ],
)
def test_literals_are_checked(name: str, given: tuple[object, ...], complaint: str | None) -> None:
    fitting = [one for one in FUNCTIONS[name] if len(one.arguments) == len(given) and one.checks]
    answers = [one.check(given) for one in fitting]
    assert answers
    if complaint is None:
        assert None in answers
    else:
        assert all(answer is not None and complaint.split(" of a ")[0] in answer for answer in answers)


@pytest.mark.parametrize(
    "name", ["now", "today", "random", "current_date", "getenv", "hash", "json_extract", "printf", "repeat"]
)
def test_left_out(name: str) -> None:
    assert name not in FUNCTIONS
    assert all(len(one.arguments) == 2 for one in FUNCTIONS["age"])


def test_the_nearest_names() -> None:
    assert "date_trunc" in nearest("DATETRUNK")
    assert nearest("xyzzy_no_such_thing") == []


def test_the_document_lists_the_same() -> None:
    rows = re.findall(r"^\| (`.+?`) \| (.*?) \| (.*?) ?\|$", DOCUMENT.read_text(), flags=re.MULTILINE)
    listed = {name.replace("\\|", "|"): row[1:] for row in rows for name in re.findall(r"`(.+?)`", row[0])}
    every = {**FUNCTIONS, **SYNTAX}
    assert {name: arguments for name, (arguments, _) in listed.items()} == {
        name: signature(every[name]) for name in every
    }
    guarded = {name for name, overloads in every.items() if any(one.guard for one in overloads)}
    assert guarded == {name for name in every if re.search("null (where|for|outside) ", listed[name][1])}
    assert all(one.guard for one in FUNCTIONS["make_timestamp"])  # whose overloads share a row
    for target, families in CASTS.items():
        assert f"| {target} | {', '.join(sorted(families))} |" in DOCUMENT.read_text()


def signature(overloads: tuple[Function, ...]) -> str:
    """The arguments of each overload as the document writes them: literals in bold."""
    texts = []
    for function in overloads:
        families = [SIMPLE.get(union, union.replace("|", " or ")) for union in function.arguments]
        marked = [f"**{text}**" if position in function.constants else text for position, text in enumerate(families)]
        texts.append(", ".join([*marked, *["…"] * function.repeated]))
    return "; ".join(texts) or "none"


SIMPLE = {"text|number|boolean|date|time|timestamp|interval|uuid": "simple"}
