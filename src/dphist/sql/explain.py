"""A statement explained: the command that does the same, the rows that are counted and whose they are, the plan, the rest."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from dphist.engines.duckdb.sources import quote_identifier
from dphist.engines.query import Files
from dphist.engines.relations import Combine, Filter, Fold, Join, Matching, Relation, Scan, Select, Values, owner
from dphist.publish.explain import explain
from dphist.publish.run import Job
from dphist.sql.translate import PrivateSelect

_FLAGS: Final = {
    "sums": "--sum",
    "means": "--mean",
    "variances": "--variance",
    "stds": "--std",
    "distinct": "--distinct",
}


def explain_statement(
    text: str, privates: Sequence[PrivateSelect], jobs: Sequence[Job], outer: str, number: int | None
) -> str:
    """Everything about one statement. Reads schemas and no record."""
    parts = [] if number is None else [f"Statement {number}\n\n{textwrap.indent(text, '  ')}"]
    for place, (private, job) in enumerate(zip(privates, jobs, strict=True), 1):
        if len(privates) > 1:
            parts.append(f"Private SELECT {place}, the table {private.table}")
        parts.append("The same release as a command:\n" + textwrap.indent(command_of(private, job), "  "))
        parts.append("The rows that are counted, and whose they are:\n" + "\n".join(_lines(private.relation)))
        parts.append(explain(job, partial(_without_names, unnamed=private.unnamed)).rstrip())
    parts.append("After that, from the published table alone, which costs nothing:\n" + textwrap.indent(outer, "  "))
    return "\n\n".join(parts) + "\n"


def _without_names(sql: str, unnamed: Mapping[str, str]) -> str:
    """SQL of an engine, with other names for columns that nobody asked for."""
    for column, name in unnamed.items():
        sql = sql.replace(quote_identifier(column), quote_identifier(name))
    return sql


def command_of(private: PrivateSelect, job: Job) -> str:
    """The command of a release; of rows from several tables, as if they were a file."""
    words = ["dphist", "select" if private.keys_only else "release"]
    words += _paths(private.command_source.source) if private.command_source is not None else ["ROWS.parquet"]
    words += ["--unit", private.unit]
    for key in private.by:
        words += ["--by", key]
    if private.where is not None:
        words += ["--where", private.where]
    request = job.plan.request
    words += ["--epsilon", _number(request.epsilon), "--delta", _number(request.delta)]
    for name, value in private.options.items():
        words += [*_flag(name, request.max_groups if name == "max_groups" else value)]
    if private.public_keys is not None:
        words += ["--keys", "KEYS.parquet"]
    words += ["-o", "out.parquet"]
    note = "\n# ROWS.parquet stands for the rows below; they are not written down"
    return " ".join(map(shlex.quote, words)) + (note if private.command_source is None else "")


def _paths(source: object) -> list[str]:
    if isinstance(source, Files):
        return [str(path) for path in source.paths]
    return [str(source)] if isinstance(source, str | Path) else ["TABLE"]


def _flag(name: str, value: Any) -> Iterator[str]:
    if name == "distinct":
        for column, most in value.items():
            yield from ("--distinct", f"{column}:{most}")
    elif name in _FLAGS:
        for column, bounds in value.items():
            yield from (_FLAGS[name], f"{column}:{_bounds(bounds)}")
    elif name == "quantiles":
        for column, (probabilities, *bounds) in value.items():
            yield from ("--quantile", f"{column}:{','.join(map(_number, probabilities))}:{_bounds(bounds)}")
    elif name == "weights":
        for column, share in value.items():
            yield from ("--weight", f"{column}={_number(share)}")
    else:
        yield from (f"--{name.replace('_', '-')}", str(value))


def _number(value: float) -> str:
    """The shortest text that is read as the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _bounds(bounds: Sequence[Any]) -> str:
    if tuple(bounds) == ("auto", "auto"):
        return "auto"
    return ":".join(one if isinstance(one, str) else _number(one) for one in bounds)


def _lines(relation: Relation, depth: int = 1) -> Iterator[str]:
    """A tree as indented lines, each with why its rows are somebody's."""
    found = owner(relation)
    whose = "public" if found.public else f"each row belongs to one {found.kind}"
    yield f"{'  ' * depth}{_words(relation)}: {whose}{_reason(relation)}"
    for child in _children(relation):
        yield from _lines(child, depth + 1)


def _children(relation: Relation) -> list[Relation]:
    names = ("child", "listed", "left", "right")
    return [getattr(relation, name) for name in names if hasattr(relation, name)]


def _words(relation: Relation) -> str:
    match relation:
        case Scan():
            return f"table {relation.table}"
        case Values():
            return f"{len(relation.rows)} listed rows"
        case Select():
            computed = [f"{one.text} AS {name}" for name, one in relation.computed.items()]
            return f"columns {', '.join([*relation.kept, *computed])}"
        case Filter():
            return f"rows where {relation.condition.text}"
        case Join():
            pairs = " and ".join(f"{one} = {other}" for one, other in relation.pairs) or "every pair"
            return f"{relation.kind} join on {pairs}"
        case Matching():
            return f"rows whose {relation.column} is {'not ' if relation.negated else ''}in a list"
        case Combine():
            return relation.kind
        case Fold():
            return f"groups by {', '.join(relation.keys)}"


def _reason(relation: Relation) -> str:
    if owner(relation).public:
        return ""
    match relation:
        case Scan():
            return ", as declared"
        case Filter():
            return "; a row stays or goes by itself"
        case Matching() if owner(relation.listed).public:
            return "; a row stays or goes by itself and by a public list"
        case Matching():
            return "; a row stays or goes by what its own unit has in the list"
        case Select():
            return "; the unit is carried unchanged, the rest is computed from the same row"
        case Join() if owner(relation.left).public or owner(relation.right).public:
            return "; beside it stand public rows"
        case Join():
            return "; beside it stand rows of the same unit"
        case Combine():
            return "; equal rows are of equal units"
        case Fold():
            return "; a group holds rows of one unit"
        case _:
            return ""
