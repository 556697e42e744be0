"""Users' expressions in DuckDB: each node of the tree is a step, and each step a column of its own.

source -> level 0: the columns that are needed, guarded -> level 1: calls on these -> level 2: calls on these calls -> ...

A step is `TRY(CASE WHEN guard THEN call END)`, guarded again by its type (`keytypes.guarded`). So every function sees only
arguments for which it was examined (`functions`), however deep it stands in an expression; an error in one step is a null of
that step, for that record. Steps are columns of nested SELECTs because a guard mentions its argument more than once: written in
place, each level would double the text, and the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import duckdb

from dphist.columns import quote_identifier
from dphist.engines.duckdb import types as keytypes
from dphist.engines.duckdb.session import quote_text
from dphist.engines.expressions import (
    LONGEST_KEY,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Operation,
    Visitor,
    check_literal,
    hint_of_cast,
)
from dphist.engines.functions import CASTS, FUNCTIONS, OPERATIONS, Function
from dphist.errors import InvalidParameter

_COMPARED: Final = frozenset(kind for kind in OPERATIONS if kind.startswith("COMPARE_") and kind != "COMPARE_BETWEEN")
_COMPARABLE: Final = frozenset(
    {"text", "whole", "number", "boolean", "date", "time", "timestamp", "blob", "uuid", "null"}
)
_WORDS: Final = {
    "whole": "a number", "number": "a number", "boolean": "true or false", "date": "a date", "time": "a time",
    "timestamp": "a time",
}  # fmt: skip
_MOST_LEVELS: Final = 64
_BYTES: Final = {"text": "strlen", "blob": "octet_length"}
_INDENT: Final = "  "
_JOINING: Final = frozenset({"concat", "concat_ws", "list_value", "||"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an expression: a column, or a constant with its `value`."""

    sql: str
    type_name: str
    level: int
    constant: bool = False
    value: object = None

    @property
    def family(self) -> str:
        """The family of its type, by which functions are chosen."""
        return keytypes.family(self.type_name)


class Steps:
    """The columns of a source, and the steps that expressions add to them.

    guarded: whether the columns are guarded already. longest: the bytes of a text that a step makes.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: Mapping[str, str],
        *,
        guarded: bool = False,
        longest: int = LONGEST_KEY,
    ) -> None:
        self._connection = connection
        self.longest = longest
        self._names: dict[str, str] = {}
        self._types: dict[str, str] = {}  # by quoted names, as levels are
        self._levels: list[dict[str, str]] = [{}]
        for name, kind in columns.items():
            quoted = self._names[name.casefold()] = quote_identifier(name)
            self._levels[0][quoted], self._types[quoted] = (quoted, kind) if guarded else keytypes.column(quoted, kind)

    def source(self, table: str) -> str:
        """The columns and steps as a table expression over `table`."""
        first, *steps = filter(None, self._levels)
        lines = []  # a name or a literal may hold a line break, so that nothing can be indented afterwards
        for depth, level in enumerate(reversed(steps), 3):
            lines += [f"{_INDENT * depth}SELECT *,{_listed(level, depth)}", f"{_INDENT * depth}FROM ("]
        depth = len(steps) + 3
        lines += [f"{_INDENT * depth}SELECT{_listed(first, depth)}", f"{_INDENT * depth}FROM {table}"]
        lines += [f"{_INDENT * (depth - number)}) AS level_{number}" for number in range(1, len(steps) + 1)]
        return "(\n" + "\n".join(lines) + "\n    ) AS read"

    def column(self, name: str) -> Piece:
        """A column of the source, without regard to case, as SQL reads names."""
        quoted = self._names[name.casefold()]
        return Piece(quoted, self._types[quoted], 0)

    def write(self, expression: Expression) -> Piece:
        """Add the steps of an expression; the last one is its value."""
        return _Writer(self).write(expression)

    def condition(self, expression: Expression) -> str:
        """Add the steps of a condition, which must be true or false."""
        piece = self.write(expression)
        if piece.family not in ("boolean", "null"):
            hint = "compare it with something, as in amount > 5."
            raise InvalidParameter(f"a condition that is true or false in {expression.text!r}", piece.type_name, hint)
        return piece.sql

    def add(self, sql: str, parts: Sequence[Piece], text: str) -> Piece:
        """One step, null where it fails. A step of constants alone is computed now and must not fail."""
        level = 1 + max((part.level for part in parts), default=-1)
        if level == 0:
            return self._constant(sql, text)
        if level > _MOST_LEVELS:
            raise InvalidParameter(f"an expression at most {_MOST_LEVELS} levels deep in {text!r}", "a deeper one")
        kind = self._type_of(f"TRY({sql})", text, parts)
        while len(self._levels) <= level + 1:
            self._levels.append({})
        raw = self._new_name()
        self._levels[level][raw] = f"TRY({sql})"
        guarded, kind = keytypes.column(raw, kind, self.longest)
        name = raw
        if guarded != raw:
            level, name = level + 1, self._new_name()
            self._levels[level][name] = guarded
        self._types[name] = kind
        return Piece(name, kind, level)

    def type_named(self, name: str) -> str:
        """The type that a name or an alias stands for, without its parameters; the name itself if there is none."""
        try:
            return keytypes.base(self._described(f"SELECT CAST(NULL AS {quote_identifier(name)})", name))
        except InvalidParameter:
            return name

    def _new_name(self) -> str:
        taken = {name.casefold() for level in self._levels for name in level}
        return next(name for number in count(1) if (name := f'"step_{number}"') not in taken)

    def _type_of(self, sql: str, text: str, parts: Sequence[Piece]) -> str:
        """The type of a step, from the types of columns and earlier steps alone."""
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in self._types.items())
        types = list(dict.fromkeys(part.type_name for part in parts))
        return self._described(f"SELECT {sql} AS step FROM (SELECT {nulls}) AS record", text, types)

    def _constant(self, sql: str, text: str) -> Piece:
        kind = self._described(f"SELECT {sql} AS step", text)
        if sql == "NULL":
            return Piece(sql, "NULL", -1, constant=True)
        plain = keytypes.family(kind) in ("text", "whole", "number", "boolean")
        guarded = keytypes.guarded(sql, kind)
        size = keytypes.length(guarded, kind) or "0"
        try:
            rows = self._connection.execute(
                f"SELECT {guarded if plain else f'CAST({guarded} AS VARCHAR)'}, {size}"
            ).fetchall()
        except duckdb.Error:  # of the user's own literals
            rows = []
        if not rows:
            raise InvalidParameter(f"literals that can be read in {text!r}", sql)
        value = rows[0][0]
        check_literal(rows[0][1] or 0, self.longest)
        return Piece(f"CAST(NULL AS {kind})" if value is None else sql, kind, -1, constant=True, value=value)

    def _described(self, query: str, text: str, types: Sequence[str] = ()) -> str:
        try:
            return str(self._connection.execute(f"DESCRIBE {query}").fetchall()[0][1])
        except duckdb.Error:
            pass
        raise InvalidParameter(
            f"types that go together in {text!r}",
            " and ".join(types) or "others",
            "cast one of them: CAST(... AS DOUBLE), for example.",
        )


_AS_TEXT: Final = ("number", "whole", "date", "timestamp", "boolean")
_OPERATORS: Final = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE"}


class _Writer(Visitor[Piece]):
    """Writes each node as a step."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def _add(self, sql: str, parts: Sequence[Piece]) -> Piece:
        return self._steps.add(sql, parts, self.text)

    def _column(self, node: Column) -> Piece:
        name, *fields = node.names
        piece = self._steps.column(name)
        if piece.family == "other":
            raise self._refusal(f"{name!r} of the type {piece.type_name}", "no function was examined with it.")
        for field_name in fields:
            if piece.family != "struct":
                raise self._refusal("a field of something that has none", f"{name!r} is of type {piece.type_name}.")
            piece = self._add(f"struct_extract({piece.sql}, {quote_text(field_name)})", [piece])
        return piece

    def _literal(self, node: Literal) -> Piece:
        return self._add(_literal(node, self.text), ())

    def _operation(self, node: Operation) -> Piece:
        parts, form = self.every(node.parts), OPERATIONS[node.kind]
        match node.kind:
            case "OPERATOR_TRY":
                return parts[0]  # every step is tried
            case "ARRAY_EXTRACT" if parts[0].family == "struct":
                return self._applied("struct_extract", parts)
            case "ARRAY_EXTRACT" | "ARRAY_SLICE":
                return self._applied(form, parts)
            case "CONJUNCTION_AND" | "CONJUNCTION_OR":
                return self._add(form.join(part.sql for part in parts), parts)
            case "COMPARE_BETWEEN":
                value, lower, upper = parts
                parts = [
                    self._compare("COMPARE_GREATERTHANOREQUALTO", [value, lower]),
                    self._compare("COMPARE_LESSTHANOREQUALTO", [value, upper]),
                ]
        return self._compare(node.kind, parts) if node.kind in _COMPARED else self._formed(form, parts)

    def _formed(self, form: str, parts: Sequence[Piece]) -> Piece:
        texts = [part.sql for part in parts]
        return self._add(form.format(*texts, all=", ".join(texts), others=", ".join(texts[1:])), parts)

    def _compare(self, kind: str, parts: Sequence[Piece]) -> Piece:
        return self._formed(OPERATIONS[kind], self._comparable(parts))

    def _comparable(self, parts: Sequence[Piece]) -> list[Piece]:
        """Values that can be compared. A quoted literal is cast to the type beside it, so that 'NaN' is null here, too."""
        for part in parts:
            if part.family not in _COMPARABLE:
                raise self._refusal(
                    f"a comparison of the type {part.type_name}", "compare a field or an element of it."
                )
        kinds = [part.type_name for part in parts if not part.constant and part.family not in ("text", "null")]
        others = [part.family for part in parts if part.family not in ("text", "null")]
        text = next((part for part in parts if part.family == "text" and not part.constant), None)
        if text is not None and others:
            raise InvalidParameter(
                f"values of one type beside each other in {self.text!r}",
                f"text beside {_WORDS.get(others[0], 'another type')}",
                _hint_of_cast(text, others).strip(),
            )
        if not kinds:
            return list(parts)
        cast = (
            self._add(f"CAST({p.sql} AS {kinds[0]})", [p]) if p.constant and p.family == "text" else p for p in parts
        )
        return list(cast)

    def _case(self, node: Case) -> Piece:
        parts = self.every(node.parts)
        pairs = zip(parts[:-1:2], parts[1::2], strict=True)
        branches = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in pairs)
        return self._add(f"CASE {branches} ELSE {parts[-1].sql} END", parts)

    def _cast(self, node: Cast) -> Piece:
        (part,) = self.every(node.parts)
        name = self._steps.type_named(node.type_name)
        examined = CASTS.get(name)
        if examined is None or not all(parameter.isdigit() for parameter in node.parameters):
            raise self._refusal(f"a cast to {name}", f"casts work to {', '.join(sorted(CASTS))}.")
        if not _fits(part, "|".join(examined)):
            raise self._refusal(
                f"a cast from {part.type_name} to {name}", f"it works from {', '.join(sorted(examined))}."
            )
        wanted = f"{name}({', '.join(node.parameters)})" if node.parameters and name == "DECIMAL" else name
        return self._add(f"CAST({part.sql} AS {wanted})", [part])

    def _call(self, node: Call) -> Piece:
        return self._applied(node.name, self.every(node.parts))

    def _applied(self, name: str, parts: list[Piece]) -> Piece:
        function = self._examined(name, parts)
        arguments = [part.sql for part in parts]
        call = f'"{name}"({", ".join(arguments)})'
        guards = [] if function.guard is None else [function.guard.format(*arguments, longest=self._steps.longest)]
        if name in _JOINING:  # a longer value would be built only to become null, however many arguments it has
            lengths = [f"coalesce({_BYTES[part.family]}({part.sql}), 0)" for part in parts if part.family in _BYTES]
            guards += [f"{' + '.join([*lengths, '0'])} <= {self._steps.longest}"]
        if guards:
            call = f"CASE WHEN {' AND '.join(f'({guard})' for guard in guards)} THEN {call} END"
        return self._add(call, parts)

    def _examined(self, name: str, parts: Sequence[Piece]) -> Function:
        """The overload that fits the arguments, or a refusal that says why the nearest overload does not."""
        reason, hint = f"{name} with {len(parts)} arguments", ""
        for function in FUNCTIONS.get(name, ()):
            families = _families(function, len(parts))
            if families is None:
                continue
            misfit = next((part for part, wanted in zip(parts, families, strict=True) if not _fits(part, wanted)), None)
            if misfit is not None:
                reason = f"{_called(name)} of the type {misfit.type_name}"
                wanted = families[parts.index(misfit)].split("|")
                if not hint and (misfit.family == "text" or (wanted == ["text"] and misfit.family in _AS_TEXT)):
                    hint = _hint_of_cast(misfit, wanted)
                continue
            if any(not parts[position].constant for position in function.constants if position < len(parts)):
                reason = f"{_called(name)} with an argument that is not a literal"
                continue
            values = tuple(part.value if part.constant else None for part in parts)
            if (problem := function.check(values)) is None:
                return function
            reason = f"{_called(name)} with {problem}"
        known = "; ".join(_spelled(function) for function in FUNCTIONS.get(name, ()))
        raise self._refusal(reason, f"{hint}what works: {known}.")

    def _refusal(self, got: str, hint: str) -> InvalidParameter:
        return InvalidParameter(
            f"examined functions of fitting types in {self.text!r}", got, f"{hint} docs/expressions.md has the list."
        )


def _hint_of_cast(part: Piece, families: Iterable[str]) -> str:
    """A hint how to cast a text to a wanted family."""
    if part.constant or part.level:
        return hint_of_cast("...", families, column=False)
    text = part.sql[1:-1] if part.sql[1:-1].isidentifier() else part.sql
    return hint_of_cast(text, families, column=part.family == "text")


def _listed(columns: Mapping[str, str], depth: int) -> str:
    start = "\n" + _INDENT * (depth + 1)
    return start + f",{start}".join(f"{sql} AS {name}" for name, sql in columns.items())


def _families(function: Function, number: int) -> Sequence[str] | None:
    """The family of each argument, or None if the function does not take so many."""
    given = function.arguments
    if number == len(given):
        return given
    return [*given, *[given[-1]] * (number - len(given))] if function.repeated and number > len(given) else None


def _fits(part: Piece, wanted: str) -> bool:
    allowed = set(wanted.split("|"))
    if "number" in allowed:
        allowed.add("whole")
    if part.family == "other":
        return False
    return "any" in allowed or part.family in allowed | {"null"}


def _called(name: str) -> str:
    """The word that people write for a function."""
    return _OPERATORS.get(name, name)


def _spelled(function: Function) -> str:
    words = [f"{word} literal" if i in function.constants else word for i, word in enumerate(function.arguments)]
    if function.name in _OPERATORS:
        return f" {_OPERATORS[function.name]} ".join(words)
    return f"{function.name}({', '.join(words)}{', …' if function.repeated else ''})"


def _literal(node: Literal, text: str) -> str:
    match node.kind:
        case "STRING":
            return quote_text(node.text)
        case "INTEGER":
            return repr(int(node.text))
        case "NUMERIC":  # digits, a point and an exponent, nothing else
            try:
                float(node.text)
            except ValueError:
                raise InvalidParameter(f"a number in {text!r}", repr(node.text)) from None
            return node.text
        case "BOOLEAN":
            return "TRUE" if node.text == "true" else "FALSE"
        case "NULL_LITERAL":
            return "NULL"
        case "HEX":
            return f"CAST(unhex({quote_text(node.text)}) AS BLOB)"
    raise InvalidParameter(f"numbers, texts, true, false or NULL as literals in {text!r}", node.kind.lower())
