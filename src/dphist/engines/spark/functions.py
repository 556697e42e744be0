"""How Spark writes what an expression may use, where it means the same as DuckDB: a table of operations and one of functions.

A function that is not listed, because Spark lacks it or means something else by it, is refused. Arithmetic and casts have the
forms that give null where they fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from typing import Literal as OneOf

from dphist.engines.expressions import Cast, Literal, Node
from dphist.engines.spark.types import in_range

OPERATIONS: Final[Mapping[str, str]] = {
    "COMPARE_EQUAL": "({} = {})",
    "COMPARE_NOTEQUAL": "({} <> {})",
    "COMPARE_GREATERTHAN": "({} > {})",
    "COMPARE_GREATERTHANOREQUALTO": "({} >= {})",
    "COMPARE_LESSTHAN": "({} < {})",
    "COMPARE_LESSTHANOREQUALTO": "({} <= {})",
    "COMPARE_NOT_DISTINCT_FROM": "({} <=> {})",
    "COMPARE_DISTINCT_FROM": "(NOT ({} <=> {}))",
    "COMPARE_IN": "({} IN ({others}))",
    "COMPARE_BETWEEN": "({} BETWEEN {} AND {})",
    "CONJUNCTION_AND": " AND ",
    "CONJUNCTION_OR": " OR ",
    "OPERATOR_NOT": "(NOT {})",
    "OPERATOR_IS_NULL": "({} IS NULL)",
    "OPERATOR_IS_NOT_NULL": "({} IS NOT NULL)",
    "OPERATOR_COALESCE": "coalesce({all})",
}
"""As `functions.OPERATIONS` has them for DuckDB."""

PARTS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute")
"""Of dates and times."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of so many arguments. sql: over them.

    alike: from which argument on they become of one type. moment: whether the last one must be a date or a time. part: whether
    the first one is a part of a date. result: what of it has to become null, a long text, NaN, or whatever its type may have.
    fits: whether Spark means the same by these arguments.
    """

    sql: str
    alike: int | None = None
    moment: bool = False
    part: bool = False
    result: OneOf["", "text", "double", "any"] = ""
    fits: Callable[[Sequence[Node]], bool] = lambda _: True


def _are_whole(nodes: Sequence[Node]) -> bool:
    """Whole numbers by their form: Spark would cut the fraction off other numbers before it divides."""
    casts = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
    return all(
        one.type_name.upper() in casts if isinstance(one, Cast) else isinstance(one, Literal) and one.kind == "INTEGER"
        for one in nodes
    )


def _counted_from(first: int) -> Callable[[Sequence[Node]], bool]:
    """Positive constants: negative places and zero mean different things to the two engines."""

    def fits(nodes: Sequence[Node]) -> bool:
        given = nodes[first:]
        return all(isinstance(one, Literal) and one.kind == "INTEGER" and int(one.text) > 0 for one in given)

    return fits


def _is_simple_pattern(nodes: Sequence[Node]) -> bool:
    """Matched in one pass. Spark backtracks over other patterns, and one record of 65,536 letters could last for days."""
    pattern = nodes[1].text if isinstance(nodes[1], Literal) else "\\"
    return "\\" not in pattern and (pattern.count("%") <= 1 or "%" not in pattern[1:-1])


_REPLACED: Final = (
    "transform(array(named_struct('s', {}, 'f', {}, 't', {})), v -> CASE WHEN octet_length(v.s)"
    " + coalesce((octet_length(v.s) - octet_length(replace(v.s, v.f, ''))) DIV nullif(octet_length(v.f), 0), 0)"
    " * (octet_length(v.t) - octet_length(v.f)) <= {longest} THEN replace(v.s, v.f, v.t) END)[0]"
)
"""The length is known before the text is built: replace(url, 'a', url) could ask for all the memory there is."""

_TRUNCATED: Final = Function(
    f"date_trunc('{{0}}', {in_range('TRY_CAST({1} AS TIMESTAMP_LTZ)', 'timestamp')})", moment=True, part=True
)
_EXTRACTED: Final = Function("CAST(extract({} FROM {}) AS BIGINT)", moment=True, part=True)
_LENGTH: Final = Function("CAST(char_length({}) AS BIGINT)")

FUNCTIONS: Final[Mapping[tuple[str, int], Function]] = {
    **{(name, 1): Function(f"{name}({{}})", result="text") for name in ("lower", "upper")},
    **{(name, 1): Function(f"{name}({{}})") for name in ("trim", "ltrim", "rtrim", "abs")},
    **{(name, 1): Function(f"CAST({name}({{}}) AS BIGINT)", moment=True) for name in PARTS},
    ("week", 1): Function("CAST(weekofyear({}) AS BIGINT)", moment=True),
    ("isnan", 1): Function("nullif({} IS NULL, TRUE)"),  # NaN is null by now, and DuckDB's answer to null is null
    ("-", 1): Function("try_subtract(0, {})", alike=0),
    ("length", 1): _LENGTH,
    ("len", 1): _LENGTH,
    ("+", 2): Function("try_add({}, {})", alike=0, result="any"),
    ("-", 2): Function("try_subtract({}, {})", alike=0, result="any"),
    ("*", 2): Function("try_multiply({}, {})", alike=0, result="any"),
    ("/", 2): Function("try_divide(CAST({} AS DOUBLE), {})", alike=0, result="double"),
    ("//", 2): Function("({} DIV nullif({}, 0))", fits=_are_whole),
    ("%", 2): Function("try_mod({}, {})", alike=0, result="any"),
    ("nullif", 2): Function("nullif({}, {})", alike=0),
    ("||", 2): Function("({} || {})", result="text"),
    ("~~", 2): Function("({} LIKE {})", fits=_is_simple_pattern),
    ("!~~", 2): Function("({} NOT LIKE {})", fits=_is_simple_pattern),
    ("contains", 2): Function("contains({}, {})"),
    ("starts_with", 2): Function("startswith({}, {})"),
    ("prefix", 2): Function("startswith({}, {})"),
    ("ends_with", 2): Function("endswith({}, {})"),
    ("suffix", 2): Function("endswith({}, {})"),
    ("left", 2): Function("left({}, {})", fits=_counted_from(1)),
    **{(name, 2): Function("substring({}, {})", fits=_counted_from(1)) for name in ("substring", "substr")},
    **{(name, 3): Function("substring({}, {}, {})", fits=_counted_from(1)) for name in ("substring", "substr")},
    **{(name, 2): _TRUNCATED for name in ("date_trunc", "datetrunc")},
    **{(name, 2): _EXTRACTED for name in ("date_part", "datepart")},
    ("split_part", 3): Function("split_part({}, {}, {})", fits=_counted_from(2)),
    ("replace", 3): Function(_REPLACED),
    ("if", 3): Function("if({}, {}, {})", alike=1),
}
"""By name and number of arguments."""
