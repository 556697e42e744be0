"""Cases for the fuzzer: what is listed, with each combination of types and literals, or some of them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from function_values import CONSTANTS, PLAINER, PLAINEST, SYNTAX_SQL, TYPES, VALUES

from dphist.engines.expressions import LONGEST_KEY
from dphist.engines.functions import CASTS, FUNCTIONS, Function

_PLAIN: Final = "text|number|boolean|date|time|timestamp|interval|uuid"
_COMPARED: Final = (
    "EQUAL", "NOTEQUAL", "LESSTHAN", "GREATERTHAN", "LESSTHANOREQUALTO", "GREATERTHANOREQUALTO", "DISTINCT_FROM",
    "NOT_DISTINCT_FROM",
)  # fmt: skip

SYNTAX: Final = {
    function.name: (function,)
    for function in (
        *(Function(f"COMPARE_{word}", ("any", "any")) for word in _COMPARED),
        *(Function(f"COMPARE_{word}", (_PLAIN, _PLAIN), repeated=True) for word in ("IN", "NOT_IN")),
        *(Function(f"CONJUNCTION_{word}", ("boolean",), repeated=True) for word in ("AND", "OR")),
        Function("OPERATOR_NOT", ("boolean",)),
        *(Function(f"OPERATOR_{word}", ("any",)) for word in ("IS_NULL", "IS_NOT_NULL")),
        Function("OPERATOR_COALESCE", ("any",), repeated=True),
        Function("CASE_EXPR", ("boolean", "any", "any")),
    )
}
"""What the parser does not turn into functions, by the type of its node."""

Argument = tuple[str, str | None]
"""The type of a column, or a literal."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to try: combinations of one overload, how many of them with a literal for a column, tuples, calls alone.

    `types` is how many types of each family: all of them, some or few. `shifts` move the tuples along DuckDB's vectors,
    which hold 2,048 rows.
    """

    combinations: int
    literals: int
    rows: int
    alone: int
    types: Literal["all", "some", "few"] = "all"
    shifts: tuple[int, ...] = (1, 2047)
    seed: int = 0


QUICK: Final = Effort(combinations=1, literals=1, rows=60, alone=1, types="few", shifts=(2047,))
LONGER: Final = Effort(combinations=1, literals=1, rows=100, alone=2, types="some", shifts=(2047,))
THOROUGH: Final = Effort(combinations=40, literals=12, rows=600, alone=4)


@dataclass(frozen=True, slots=True)
class Case:
    """A call as SQL over the columns c0, c1, ..., its guard, and the types of the columns."""

    name: str
    call: str
    guard: str | None
    types: tuple[str, ...]

    @property
    def tried(self) -> str:
        """The call as the writer of expressions runs it."""
        return f"TRY({self.call if self.guard is None else f'CASE WHEN {self.guard} THEN {self.call} END'})"


def all_cases(effort: Effort) -> Iterator[Case]:
    """Cases of everything that is listed: functions, syntax and casts."""
    for function in itertools.chain(*FUNCTIONS.values(), *SYNTAX.values()):
        yield from cases_of(function, effort)
    for target, families in CASTS.items():
        decimals = [f"DECIMAL({width}, {scale})" for width, scale in ((4, 1), (18, 3), (38, 38))]
        for kind in (kind for family in sorted(families) for kind in _types(family, effort)):
            for name in decimals if target == "DECIMAL" else [target]:
                for how in ("CAST", "TRY_CAST"):
                    yield Case(f"{how} {target}", f"{how}(c0 AS {name})", None, (kind,))


def cases_of(function: Function, effort: Effort) -> Iterator[Case]:
    """Cases of one overload, also with a literal in place of a column: DuckDB has other code for those."""
    chance = random.Random(f"{function.name} {function.arguments} {effort.seed}")
    most = 0 if not function.repeated else 1 if effort.types == "few" else 2
    for more in range(most + 1):
        families = [*function.arguments, *function.arguments[-1:] * more]
        choices: list[list[Argument]] = []
        for position, union in enumerate(families):
            if position in function.constants:
                choices.append([("", text) for text in CONSTANTS[function.name, len(families), position]])
            else:
                choices.append([(kind, None) for family in union.split("|") for kind in _types(family, effort)])
        drawn = [arguments for arguments in _drawn(choices, effort, chance) if _is_accepted(function, arguments)]
        yield from (_case(function, arguments) for arguments in drawn)
        for _ in range(effort.literals if len(families) > 1 else 0):
            arguments = chance.choice(drawn)
            position = chance.choice([p for p, (_, text) in enumerate(arguments) if text is None])
            kind = arguments[position][0]
            literal = ("", f"CAST({chance.choice(VALUES[kind])} AS {kind})")
            yield _case(function, (*arguments[:position], literal, *arguments[position + 1 :]))


def batches(cases: Iterable[Case], size: int) -> list[list[Case]]:
    """Cases over the same columns together, as many as fit into one query."""
    by_types: dict[tuple[str, ...], list[Case]] = {}
    for case in dict.fromkeys(cases):
        by_types.setdefault(case.types, []).append(case)
    return [group[at : at + size] for group in by_types.values() for at in range(0, len(group), size)]


def _types(family: str, effort: Effort) -> Sequence[str]:
    return {"all": TYPES, "some": PLAINER, "few": PLAINEST}[effort.types][family]


def _drawn(choices: list[list[Argument]], effort: Effort, chance: random.Random) -> list[tuple[Argument, ...]]:
    """A product, or some of it: first arguments of the same type, which are the ones that bind, then any."""
    if math.prod(map(len, choices)) <= effort.combinations:
        return list(itertools.product(*choices))
    longest = max(map(len, choices))
    alike = [tuple(choice[step % len(choice)] for choice in choices) for step in range(longest)]
    mixed = [tuple(chance.choice(choice) for choice in choices) for _ in range(effort.combinations)]
    return list(dict.fromkeys([*alike, *mixed]))[: max(longest, effort.combinations)]


def _is_accepted(function: Function, arguments: Sequence[Argument]) -> bool:
    """Whether the check lets these literals through."""
    values = tuple(None if text is None else value_of(text) for _, text in arguments)
    return function.check(values) is None


def value_of(text: str) -> object:
    """What a literal in SQL means."""
    return text[1:-1].replace("''", "'") if text.startswith("'") else int(text)


def _case(function: Function, arguments: Sequence[Argument]) -> Case:
    columns = itertools.count()
    texts = [f"c{next(columns)}" if text is None else text for _, text in arguments]
    call = (
        SYNTAX_SQL[function.name](*texts) if function.name in SYNTAX_SQL else f'"{function.name}"({", ".join(texts)})'
    )
    guard = None if function.guard is None else function.guard.format(*texts, longest=LONGEST_KEY)
    return Case(function.name, call, guard, tuple(kind for kind, text in arguments if text is None))
