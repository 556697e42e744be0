"""Statements in GoogleSQL with the clause of differential privacy, on every engine."""

from importlib.util import find_spec

from dphist.errors import MissingExtra

if find_spec("sqlglot") is None:
    raise MissingExtra("sql", "SQL statements")
