"""A statement becomes a tree: GoogleSQL as sqlglot reads it, with the privacy clause and named arguments, which sqlglot lacks.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(name = value, ...)   a `PrivacyClause` in the place of a hint
    SUM(x, contribution_bounds_per_group => (0, 1))               the call, with its named arguments in "named"

Every node knows its place in the text, so that a refusal can show it. No engine gets the text itself: `sql.dialect` writes
expressions from the tree, and DuckDB's own parser reads them (`engines.parser`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dphist.errors import InvalidParameter, MissingExtra

try:
    from sqlglot import exp
    from sqlglot.dialects.bigquery import BigQuery
    from sqlglot.errors import ParseError, SqlglotError, TokenError
    from sqlglot.parsers.bigquery import BigQueryParser
    from sqlglot.tokenizer_core import TokenType
except ModuleNotFoundError:
    raise MissingExtra("sql", "SQL statements") from None

LONGEST_STATEMENT: Final = 2**18
"""The most characters of one text."""

_DEEPEST: Final = 100
"""The most brackets that are open at once: sqlglot reads them by recursion."""

_WIDEST: Final = 240
"""The most letters of a line that a refusal shows."""

_SHIFTS: Final = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
_RANKED: Final = (*_SHIFTS, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe)

_SPAN: Final = "span"
_SKETCH: Final = (
    "the form is SELECT WITH DIFFERENTIAL_PRIVACY keys, aggregates FROM table GROUP BY keys; see docs/sql.md."
)
_OTHER_CLAUSES: Final = {
    "ANONYMIZATION": "write SELECT WITH DIFFERENTIAL_PRIVACY, max_groups_contributed for kappa, SUM(x,"
    " contribution_bounds_per_group => (0, 9)) for ANON_SUM(x CLAMPED BETWEEN 0 AND 9), and so on.",
    "AGGREGATION_THRESHOLD": "a threshold without noise protects nobody from those who know the others: write SELECT WITH"
    " DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, min_privacy_units_per_group = 50, ...) for threshold = 50.",
}
"""Clauses of BigQuery that are not ours, with what to write instead."""

_PLACED: Final = (
    "statement", "select_query", "subquery", "cte", "with", "table", "join", "lateral", "unnest", "where", "group",
    "having", "qualify", "order", "limit", "table_sample", "pivot", "expression", "alias", "disjunction",
    "conjunction", "equality", "comparison", "range", "bitwise", "term", "factor", "unary", "type", "column",
    "primary", "set_operations", "ordered", "from"
)  # fmt: skip
"""The methods of the parser that make nodes, by their names behind `_parse_`."""


class PrivacyClause(exp.Hint):
    """WITH DIFFERENTIAL_PRIVACY, with its options as pairs."""


def place_of(node: exp.Expr) -> tuple[int, int]:
    """The places of a node's first character and of the character behind its last."""
    span: tuple[int, int] = node.meta.get(_SPAN, (0, 1))
    if _SPAN not in node.meta:  # a node that was built from parts with places
        inner = [one.meta[_SPAN] for one in node.walk() if _SPAN in one.meta]
        if inner:
            return min(first for first, _ in inner), max(last for _, last in inner)
        return (0, 1) if node.parent is None else place_of(node.parent)
    return span


def located(problem: InvalidParameter, text: str, place: tuple[int, int] | None) -> InvalidParameter:
    """The problem with the line, the column and a caret, unless it has a place already."""
    if problem.pointer or place is None:
        return problem
    first, last = place
    first = min(first, len(text))
    start = text.rfind("\n", 0, first) + 1
    line = text[start:].partition("\n")[0].rstrip("\r")
    column = first - start
    carets = max(1, min(last - first, len(line) - column))
    number = text.count("\n", 0, first) + 1
    shown, before, carets = _excerpt(line, column, carets)
    problem.pointer = f"line {number}, column {column + 1}\n{shown}\n{before}{'^' * carets}"
    return problem


def _excerpt(line: str, column: int, carets: int) -> tuple[str, str, int]:
    """A printable part of a line, the blanks before the carets, and the number of carets."""
    cut = max(0, min(column - _WIDEST // 4, len(line) - _WIDEST))
    shown = "".join(
        letter if letter.isprintable() or letter == "\t" else "\ufffd" for letter in line[cut : cut + _WIDEST]
    )
    before = "".join("\t" if letter == "\t" else " " for letter in shown[: column - cut])
    return shown, before, min(carets, max(1, len(shown) - len(before)))


def _placed(name: str) -> Callable[..., Any]:
    """A method of the parser that notes the place of its result, unless the result has one."""
    inner = getattr(BigQueryParser, name)

    def parse(self: Any, *arguments: Any, **settings: Any) -> Any:
        first = self._curr
        result = inner(self, *arguments, **settings)
        if isinstance(result, exp.Expr) and _SPAN not in result.meta and first and self._prev:
            # Some methods get the node to the left as their first argument.
            given = (*arguments, *settings.values())
            left = next((one for one in given if isinstance(one, exp.Expr)), None)
            if left is None or _SPAN in left.meta:
                start = first.start if left is None else left.meta[_SPAN][0]
                result.meta[_SPAN] = (start, max(start + 1, self._prev.end + 1))
        return result

    return parse


class _Parser(BigQueryParser):
    """BigQuery's parser, with the clause, named arguments and places."""

    def _parse_hint(self) -> exp.Hint | None:
        """Read the privacy clause, which stands where sqlglot expects a hint."""
        first = self._curr
        if not self._match_text_seq("WITH", "DIFFERENTIAL_PRIVACY"):
            return super()._parse_hint()
        options = []
        if self._match_text_seq("OPTIONS"):
            self._match_l_paren()
            if not self._match(TokenType.R_PAREN):
                options = self._parse_csv(self._parse_option)
                self._match_r_paren()
        clause = PrivacyClause(expressions=options)
        clause.meta[_SPAN] = (first.start, self._prev.end + 1)
        return clause

    def _parse_option(self) -> exp.Expr | None:
        """name = value; the value may be a column."""
        first = self._curr
        name = self._parse_id_var()
        if name is None or not self._match(TokenType.EQ):
            self.raise_error("Expected name = value in OPTIONS")
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("Expected a value in OPTIONS")
        pair = self.expression(exp.PropertyEQ(this=name, expression=value))
        pair.meta[_SPAN] = (first.start, self._prev.end + 1)
        return pair

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        """The positional arguments. Named arguments are kept for the call."""
        arguments = super()._parse_function_args(alias)
        self._named = [one for one in arguments if isinstance(one, exp.Kwarg)]
        return [one for one in arguments if not isinstance(one, exp.Kwarg)]

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """DISTINCT ends before the named arguments: they belong to the call."""
        first = self._curr
        if not self._match(TokenType.DISTINCT):
            return super()._parse_lambda(alias)
        compared = [self._parse_disjunction()]
        while self._curr and self._curr.token_type == TokenType.COMMA and not self._named_next():
            self._advance()
            compared.append(self._parse_disjunction())
        result = self.expression(exp.Distinct(expressions=[one for one in compared if one is not None]))
        result.meta[_SPAN] = (first.start, self._prev.end + 1)
        return result

    def _named_next(self) -> bool:
        """Whether `, name =>` follows."""
        following = self._tokens[self._index + 1 : self._index + 3]
        return len(following) == 2 and following[1].token_type == TokenType.FARROW

    def _warn_unsupported(self) -> None:
        """Log nothing: a statement that is no query is refused later, by its name."""

    _named: list[exp.Expr]

    def _parse_function_call(self, *arguments: Any, **settings: Any) -> exp.Expr | None:
        """A call with the name as written, its place and its named arguments."""
        first, before = self._curr, getattr(self, "_named", [])
        self._named = []
        result = super()._parse_function_call(*arguments, **settings)
        named, self._named = self._named, before
        if isinstance(result, exp.Expr):
            call = result.this if isinstance(result, exp.Window) else result
            if isinstance(call, exp.Expr):
                if named:
                    call.set("named", named)
                if first and "called" not in call.meta:
                    call.meta["called"] = first.text
                    call.meta[_SPAN] = (first.start, self._prev.end + 1)
        return result


for _name in _PLACED:
    setattr(_Parser, f"_parse_{_name}", _placed(f"_parse_{_name}"))


class GoogleSQL(BigQuery):
    """The dialect."""

    parser_class = _Parser  # type: ignore[assignment]


def called(node: exp.Expr) -> str:
    """The name of a function as it was written."""
    return str(node.meta.get("called") or node.sql_names()[0] if isinstance(node, exp.Func) else node.key).upper()


def ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes around a node, from the inside outwards."""
    while (parent := node.parent) is not None:
        yield parent
        node = parent


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND puts together."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def has_aggregate(node: Any) -> bool:
    """Whether an expression holds an aggregate outside of subqueries and windows."""
    if not isinstance(node, exp.Expr):
        return False
    if isinstance(node, exp.AggFunc):
        return True
    return not isinstance(node, exp.Query | exp.Window) and any(map(has_aggregate, node.iter_expressions()))


def words_of(node: exp.Expr) -> str:
    """A node in words of SQL, for a refusal."""
    if isinstance(node, exp.Func):
        return f"the function {called(node)}"
    return {"groupingsets": "GROUPING SETS"}.get(node.key, node.key.upper())


def parse(text: str) -> list[exp.Expr]:
    """The statements of a text: at least one.

    Raises:
        InvalidParameter: the text cannot be read; the error shows the place.
    """
    _check_text(text)
    try:
        statements = [one for one in GoogleSQL().parse(text) if one is not None and not isinstance(one, exp.Semicolon)]
    except ParseError as problem:
        raise _unreadable(text, problem) from None
    except TokenError as problem:
        opened = re.search(r"Missing (.+) from \d+:(\d+)", str(problem.__cause__))
        place, length = (int(opened[2]), len(opened[1])) if opened else (max(text.rfind("/*"), 0), 2)
        hint = f"close it with {opened[1] if opened else '*/'}; a quote inside of a text is written \\' or \\\"."
        raise _no_sql(text, "a text, name or comment that does not end", hint, (place, place + length)) from None
    except RecursionError:
        raise _no_sql(text, "a statement that is too deep", "use WITH for parts.") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise _no_sql(text, "a text that cannot be read", _SKETCH) from None
    if not statements:
        raise InvalidParameter("an SQL statement", "nothing", _SKETCH)
    for node in (node for one in statements for node in one.find_all(*_RANKED)):
        _check_rank(node, text)
    return statements


def _check_rank(node: exp.Expr, text: str) -> None:
    """Refuse an operator without brackets that sqlglot does not rank as BigQuery does: it reads a | b & c from the left."""
    others = _RANKED if not isinstance(node, exp.DPipe) else (*_RANKED, exp.Add, exp.Sub, exp.Mul, exp.Div)
    for operand in (node.this, node.expression):
        shifts = isinstance(node, _SHIFTS) and isinstance(operand, _SHIFTS)
        if isinstance(operand, others) and type(operand) is not type(node) and not shifts:
            expected = "brackets around |, &, ^, <<, >> or || beside others"
            raise located(InvalidParameter(expected, "none", "write a | (b & c)."), text, place_of(node))


def _check_text(text: str) -> None:
    expected = f"at most {LONGEST_STATEMENT:,} characters of SQL"
    if len(text) > LONGEST_STATEMENT:
        hint = "split it, or join a public table in the place of a long list."
        raise located(InvalidParameter(expected, f"{len(text):,}", hint), text, (0, 1))
    depth = 0
    for place, letter in enumerate(text):
        problem = None
        depth += (letter in "([") - (letter in ")]")
        if letter == "\0" or "\ud800" <= letter <= "\udfff":
            hint = "take it out; the text may be in another encoding than UTF-8."
            problem = InvalidParameter("SQL in letters that can be written", "a NUL or half of a letter", hint)
        elif depth > _DEEPEST:
            problem = InvalidParameter(f"at most {_DEEPEST} brackets inside each other", "more", "use WITH for parts.")
        if problem is not None:
            raise located(problem, text, (place, place + 1))


def _no_sql(text: str, got: str, hint: str, place: tuple[int, int] | None = (0, 1)) -> InvalidParameter:
    return located(InvalidParameter("GoogleSQL, as BigQuery reads it", got, hint), text, place)


def _unreadable(text: str, problem: ParseError) -> InvalidParameter:
    """The error of sqlglot as a refusal in our words, at its place."""
    found = problem.errors[0] if problem.errors else {}
    line, column, highlight = found.get("line"), found.get("col"), str(found.get("highlight") or "")
    words = str(found.get("description") or "").partition(" but got")[0].rstrip(".")
    hint = f"{words[0].lower()}{words[1:]}." if words.startswith("Expected") else _SKETCH
    if line is None or column is None:
        return _no_sql(text, "a text that it cannot read", hint, None)
    starts = [0, *(place + 1 for place, letter in enumerate(text) if letter == "\n")]
    # sqlglot gives the column of the last character.
    last = starts[min(line, len(starts)) - 1] + column
    length = max(1, len(highlight))
    shown = highlight.split("\n")[0][:40]
    if shown.upper() == "WITH":
        hint = "the clause is SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ...), once, right behind SELECT."
        word = re.match(r"\s*(\w+)", text[last:])
        if word is not None and (instead := _OTHER_CLAUSES.get(word[1].upper())):
            shown, hint, length, last = f"WITH {word[1]}", instead, length + word.end(), last + word.end()
    if shown.upper() == "CLAMPED":
        hint = "write SUM(x, contribution_bounds_per_group => (0, 9)) for SUM(x CLAMPED BETWEEN 0 AND 9)."
    got = f"{shown!r} where it does not fit" if shown.strip() else "a text that ends too early"
    return _no_sql(text, got, hint, (max(0, last - length), last))
