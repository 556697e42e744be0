"""Completions of a word in a statement: keywords, options, functions, tables and columns.

They rest on tokens alone: half a statement can seldom be parsed. Names of columns come from schemas; no record is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dphist.errors import DphistError
from dphist.sql import options
from dphist.sql.parse import GoogleSQL

if TYPE_CHECKING:
    from dphist.sql.connection import Connection

KEYWORDS: Final = (
    "SELECT", "WITH", "DIFFERENTIAL_PRIVACY", "OPTIONS(", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AS",
    "JOIN", "LEFT JOIN", "ON", "USING", "UNION ALL", "INTERSECT DISTINCT", "EXCEPT DISTINCT", "DISTINCT", "AND", "OR", "NOT",
    "IN", "IS NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "NULL", "TRUE", "FALSE", "DESC",
)  # fmt: skip
FUNCTIONS: Final = (
    "COUNT(", "SUM(", "AVG(", "VAR_POP(", "STDDEV_POP(", "PERCENTILE_CONT(", "APPROX_QUANTILES(",
)  # fmt: skip

_WORD: Final = re.compile(r"\w*\Z")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_CLAUSES: Final = {
    TokenType.SELECT, TokenType.FROM, TokenType.JOIN, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
    TokenType.ON, TokenType.USING, TokenType.LIMIT, TokenType.WITH,
}  # fmt: skip
_SOURCES: Final = {TokenType.FROM, TokenType.JOIN}
_NAMES: Final = {TokenType.VAR, TokenType.IDENTIFIER}


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a statement; None if a quote or a comment in it does not end."""
    try:
        return GoogleSQL().tokenize(text)
    except (SqlglotError, ValueError, RecursionError):
        return None


def is_whole(text: str) -> bool:
    """Whether a statement ends here: with a semicolon outside of quotes and comments. An empty text is whole, too."""
    found = tokens_of(text)
    return found is not None and (not found or found[-1].token_type is TokenType.SEMICOLON)


class Suggestions:
    """Completions for the tables of a connection. The columns of each table are read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, list[str]] = {}

    def of(self, before: str, behind: str = "") -> tuple[str, list[str]]:
        """The word before the cursor, and its completions, the likeliest first."""
        word = _WORD.search(before)[0]  # type: ignore[index]
        front = before[: len(before) - len(word)]
        tokens = tokens_of(f"{front}x")
        if not tokens or (tokens[-1].text, tokens[-1].end) != ("x", len(front)):
            return word, []  # inside of quotes or a comment
        last = max((place for place, one in enumerate(tokens) if one.token_type is TokenType.SEMICOLON), default=-1)
        offered = self._offered(tokens[last + 1 : -1], (tokens_of(before + behind) or tokens)[last + 1 :])
        small = word.islower()
        fold = word.casefold()
        shown = [one.lower() if small and one.isupper() else one for one in offered]
        return word, [one for one in dict.fromkeys(shown) if one.strip("`").casefold().startswith(fold) and one != word]

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(self._connection.tables)

    def columns(self, table: str) -> list[str]:
        """The columns of a table; none if it cannot be read, as the statement itself will say."""
        if table not in self._known:
            self._known[table] = []
            with suppress(DphistError):
                self._known[table] = list(self._connection.columns(table))
        return self._known[table]

    def _offered(self, tokens: Sequence[Token], whole: Sequence[Token]) -> Iterator[str]:
        """tokens: the tokens before the word. whole: the tokens of the statement, as far as it is written."""
        last = tokens[-1].token_type if tokens else None
        named = self._named(whole)
        if last is TokenType.DOT:
            table = named.get(tokens[-2].text.casefold()) if len(tokens) > 1 else None
            yield from map(_quoted, self.columns(table) if table else ())
            return
        inside, clause = _around(tokens)
        if inside == "options":
            yield from self._of_options(tokens, named)
        elif last in _SOURCES or (last is TokenType.COMMA and clause in _SOURCES):
            yield from map(_quoted, self.tables)
            yield from map(_quoted, _definitions(whole))
        else:
            tables = dict.fromkeys(named.values()) or self.tables
            yield from (_quoted(column) for table in tables for column in self.columns(table))
            yield from (_quoted(name) for name in named if name not in map(str.casefold, tables))
            if inside and clause is None:
                yield from (f"{name} => " for name in options.ARGUMENTS)
            yield from FUNCTIONS
            yield from KEYWORDS

    def _of_options(self, tokens: Sequence[Token], named: dict[str, str]) -> Iterator[str]:
        if tokens[-1].token_type is not TokenType.EQ:
            given = {one.text.casefold() for one in tokens}
            yield from (f"{name} = " for name in options.NAMES if name not in given)
        elif tokens[-2].text.casefold() == "privacy_unit_column":
            tables = dict.fromkeys(named.values()) or self.tables
            yield from (_quoted(column) for table in tables for column in self.columns(table))
        elif tokens[-2].text.casefold() == "group_selection_strategy":
            yield from options.STRATEGIES

    def _named(self, tokens: Sequence[Token]) -> dict[str, str]:
        """The tables by their names and aliases in lower case, as far as the statement names them."""
        tables = {name.casefold(): name for name in self.tables}
        found = {}
        for place, one in enumerate(tokens):
            before = tokens[place - 1].token_type if place else None
            if one.text.casefold() not in tables or before not in {*_SOURCES, TokenType.COMMA}:
                continue
            table = tables[one.text.casefold()]
            found[table.casefold()] = table
            behind = list(tokens[place + 1 : place + 3])
            if behind and behind[0].token_type is TokenType.ALIAS:
                behind.pop(0)
            if behind and behind[0].token_type in _NAMES:
                found[behind[0].text.casefold()] = table
        return found


def _around(tokens: Sequence[Token]) -> tuple[str, TokenType | None]:
    """The word before the innermost open bracket, in lower case, and the clause inside this bracket."""
    depth = 0
    clause = None
    for place in range(len(tokens) - 1, -1, -1):
        kind = tokens[place].token_type
        if kind is TokenType.R_PAREN:
            depth += 1
        elif kind is TokenType.L_PAREN and depth:
            depth -= 1
        elif kind is TokenType.L_PAREN:
            return (tokens[place - 1].text.casefold() if place else ""), clause
        elif depth == 0 and clause is None and kind in _CLAUSES:
            clause = kind
    return "", clause


def _definitions(tokens: Sequence[Token]) -> Iterator[str]:
    """The names of queries of WITH."""
    for place in range(len(tokens) - 2):
        kinds = [one.token_type for one in tokens[place : place + 3]]
        if kinds[0] in _NAMES and kinds[1:] == [TokenType.ALIAS, TokenType.L_PAREN]:
            yield tokens[place].text


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) else f"`{name}`"
