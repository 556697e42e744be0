"""The tables of `dphist sql`: --table, --public and --unit as `dphist.connect` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from dphist.cli.options import option
from dphist.cli.reading import files_to_read
from dphist.errors import InvalidParameter
from dphist.words import did_you_mean

_NAMED: Final = re.compile(r"([^\W\d]\w*)=(?!=)(.*)", re.DOTALL)
"""A name of SQL, an equals sign, and the rest. Any other text is a path, or a column."""
_TEXT: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_JSON: Final = _TEXT[2:]
_NOT_SAID: Final[dict[str, Any]] = {
    "delimiter": None,
    "encoding": "utf-8",
    "types": None,
    "nulls": None,
    "no_header": None,
}
"""How files are read where nothing is said."""


def _table_names(context: typer.Context) -> list[str]:
    """For completion: the tables that a call names so far."""
    return list(_paths(context.params.get("tables") or ()))


Tables: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--table",
        "A table that statements name: files, a glob or a folder; without NAME= it is called like its file. Repeatable: paths"
        " of one name add up.",
        "Data",
        common=True,
        metavar="NAME=PATH",
    ),
]
Public: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--public",
        "A table whose rows belong to nobody: a name of --table, or NAME=PATH. Repeatable.",
        "Data",
        common=True,
        metavar="NAME",
        autocompletion=_table_names,
    ),
]
Units: TypeAlias = Annotated[
    list[str] | None,
    option(
        "--unit",
        "The column that says whose row it is, where OPTIONS does not: of all private tables, or TABLE=COLUMN;"
        " TABLE=NAME=EXPRESSION names what it computes. Repeatable.",
        "Privacy",
        common=True,
        metavar="COLUMN",
        autocompletion=_table_names,
    ),
]


def tables_of(tables: Sequence[str], public: Sequence[str], reading: dict[str, Any]) -> dict[str, object]:
    """Sources by name, the public ones marked, text files read as the options of text files say."""
    import dphist

    paths = _paths(tables)
    marked = [text for text in public if text in paths]
    for name, more in _paths([text for text in public if text not in paths], "--public", paths).items():
        if name in paths:
            hint = f"write --table {name}=PATH and --public {name}."
            raise InvalidParameter(f"{name!r} from --table or from --public", "both", hint)
        paths[name], marked = more, [*marked, name]
    if not paths:
        raise InvalidParameter("--table", "none", "name a table: --table events=events.parquet.")
    sources = _sources(paths, reading)
    return {name: dphist.public(source) if name in marked else source for name, source in sources.items()}


def units_of(units: Sequence[str], tables: Sequence[str]) -> str | dict[str, str] | None:
    """One text for all tables, or one for each that is named."""
    found: dict[str, str] = {}
    for text in units:
        match = _NAMED.fullmatch(text)
        if match is None:
            if len(units) > 1:
                hint = "write --unit TABLE=COLUMN for each table."
                raise InvalidParameter("one --unit for all tables", f"{text!r} beside another", hint)
            return text
        table, unit = match[1], match[2]
        if table not in tables:
            hint = f"{did_you_mean(table, tables)}the tables are {', '.join(tables)}."
            raise InvalidParameter("--unit TABLE=COLUMN of a table", repr(text), hint)
        if table in found:
            raise InvalidParameter(f"one --unit for {table!r}", "it more than once", "leave all but one of them out.")
        if not unit:
            raise InvalidParameter(f"a column of {table!r} behind --unit {table}=", "nothing")
        found[table] = unit
    return found or None


def _paths(
    texts: Sequence[str], flag: str = "--table", known: Sequence[str] | dict[str, Any] = ()
) -> dict[str, list[str]]:
    """Every name with its paths. A path that holds an equals sign behind a word begins with ./ or has a name."""
    found: dict[str, list[str]] = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        name, path = (match[1], match[2]) if match else (Path(text).name.partition(".")[0], text)
        if not path:
            raise InvalidParameter(f"{flag} NAME=PATH", repr(text), f"for example {flag} events=events.parquet.")
        if flag == "--public" and match is None and Path(text).name == name:
            hint = f"{did_you_mean(text, known)}add --table {name}=PATH, or write --public {name}=PATH."
            raise InvalidParameter("--public with the name of a table", repr(text), hint)
        if not re.search(r"\w", name) or set(name) & set("*?["):
            hint = f"the path does not say what the table is called: {flag} events={text}"
            raise InvalidParameter(f"{flag} NAME=PATH", repr(text), hint)
        found.setdefault(name, []).append(path)
    return found


def _sources(paths: dict[str, list[str]], reading: dict[str, Any]) -> dict[str, object]:
    """What is read of each: text files by the options, of which those of CSV files are not for JSON. Others by their names."""
    given = [name for name, value in reading.items() if value != _NOT_SAID[name]]
    ends = {name: "".join(Path(some[0]).suffixes).lower() for name, some in paths.items()}
    text = [name for name, end in ends.items() if not end or any(one in end for one in _TEXT)]
    if given and not text:
        flag = {"types": "--type", "nulls": "--null", "no_header": "--no-header"}.get(given[0], f"--{given[0]}")
        raise InvalidParameter(f"tables of text files with {flag}", "none", "leave it out.")
    sources: dict[str, object] = {}
    for name, some in paths.items():
        own = {**reading, "types": _types_of(name, reading["types"] or (), paths)}
        if any(one in ends[name] for one in _JSON):
            own = {**_NOT_SAID, "types": own["types"]}
        sources[name] = files_to_read(some, own if name in text else _NOT_SAID)
    return sources


def _types_of(table: str, types: Sequence[str], tables: dict[str, Any]) -> list[str]:
    """Those of this table: amount=double is for every table of text files, events.amount=double for one."""
    own = []
    for text in types:
        owner, dot, rest = text.partition(".")
        if dot and owner in tables:
            own += [rest] if owner == table else []
        else:
            own.append(text)
    return own
