"""Statements that a rule of `engines.relations.owner` refuses, the rules without it, and tables that show what it is for.

The bugs are those of `tests/mutants/engines.toml`, by name.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
from statement_grammar import COLUMNS, PUBLIC

from dphist.engines import relations

_BUGS: Final = tomllib.loads((Path(__file__).parents[1] / "mutants" / "engines.toml").read_text(encoding="utf-8"))
_CLAUSE: Final = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1) {} AS k,"
)
_COUNT: Final = f"{_CLAUSE} COUNT(*, contribution_bounds_per_group => (0, 9)) AS n FROM "

STATEMENTS: Final = {
    "sql-join-without-unit": _COUNT.format("e.likes") + "events AS e JOIN visits AS v ON e.page = v.page GROUP BY k",
    "sql-join-of-different-units": _COUNT.format("o.price")
    + "events AS e JOIN orders AS o ON e.page = o.page GROUP BY k",
    "sql-fold-by-any-key": _COUNT.format("m") + "(SELECT page, COUNT(*) AS m FROM events GROUP BY page) GROUP BY k",
    "sql-select-of-the-first-column": _COUNT.format("likes") + "(SELECT page AS user_id, likes FROM events) GROUP BY k",
    "sql-select-of-what-is-computed": _COUNT.format("likes")
    + "(SELECT MOD(user_id, 2) AS user_id, likes FROM events) GROUP BY k",
    "sql-union-by-one-side": _COUNT.format("c")
    + "(SELECT user_id AS a, page AS b, likes AS c FROM events UNION ALL SELECT page, user_id, minutes FROM visits) GROUP BY k",
    "sql-union-of-one-side": _COUNT.format("b")
    + "(SELECT user_id AS a, page AS b FROM events UNION ALL SELECT page, topic FROM pages) GROUP BY k",
    "sql-union-of-different-units": _COUNT.format("b")
    + "(SELECT user_id AS a, page AS b FROM events UNION ALL SELECT customer, page FROM orders) GROUP BY k",
    "sql-private-list": _COUNT.format("likes") + "events WHERE page IN (SELECT user_id FROM visits) GROUP BY k",
}
"""By the bug with which they get through."""

_ROWS: Final[dict[str, list[tuple[int | None, ...]]]] = {
    "events": [(1, 1, 1), (1, 2, 3), (2, 1, 2), (2, 3, 1), (3, 2, 3), (3, 1, 2), (None, 1, 1)],
    "visits": [(1, 1, 2), (2, 2, 1), (3, 1, 3), (1, 3, 1), (2, 1, 1), (None, 2, 2)],
    "orders": [(1, 2, 1), (2, 3, 2), (3, 1, 3), (2, 1, 1)],
}
TABLES: Final = {
    **{
        name: pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], list(COLUMNS[name]))
        for name, rows in _ROWS.items()
    },
    **PUBLIC,
}
"""On them each statement shows what is wrong with it."""


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """The rules with this bug, wherever they are used: their functions are written anew, their classes stay."""
    exchange, sound = _BUGS["engines/relations.py"][bug], relations.owner
    text = Path(relations.__file__).read_text(encoding="utf-8").replace(exchange["old"], exchange["new"])
    functions: list[ast.stmt] = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    rules: dict[str, Any] = dict(vars(relations))
    exec(compile(ast.Module(functions, []), relations.__file__, "exec"), rules)
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("dphist.") and getattr(module, "owner", None) is sound:
                stack.enter_context(mock.patch.object(module, "owner", rules["owner"]))
        yield
