"""The tables and units that a call of `dphist sql` names: --table, --public, --unit and the options of text files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import dphist
from dphist.cli.options import Source
from dphist.errors import InvalidParameter
from dphist.words import did_you_mean

_NAMED: Final = re.compile(r"([^\W\d]\w*)=(?!=)(.*)", re.DOTALL)
"""NAME=PATH or TABLE=COLUMN. Any other text is a path or a column alone."""
_TEXT: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_JSON: Final = _TEXT[2:]
_NOT_SAID: Final[dict[str, Any]] = {"delimiter": None, "encoding": "utf-8", "types": [], "nulls": [], "no_header": None}
"""The values of the options of text files that a call does not name."""


def tables_of(tables: Sequence[str], public: Sequence[str], reading: dict[str, Any]) -> dict[str, object]:
    """The sources by name. Public tables are marked, and the options of text files apply to text files."""
    paths = paths_of(tables)
    marked = [text for text in public if text in paths]
    for name, more in paths_of([text for text in public if text not in paths], "--public", paths).items():
        if name in paths:
            hint = f"write --table {name}=PATH and --public {name}."
            raise InvalidParameter(f"{name!r} from --table or from --public", "both", hint)
        paths[name], marked = more, [*marked, name]
    if not paths:
        raise InvalidParameter("--table", "none", "name a table: --table events=events.parquet.")
    sources = _sources(paths, reading)
    return {name: dphist.public(source) if name in marked else source for name, source in sources.items()}


def units_of(units: Sequence[str], tables: Sequence[str]) -> str | dict[str, str] | None:
    """One unit for all tables, or a unit for each table that --unit names."""
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


def paths_of(
    texts: Sequence[str], flag: str = "--table", known: Sequence[str] | dict[str, Any] = ()
) -> dict[str, list[str]]:
    """The paths by name. A path such as a=b.csv reads as NAME=PATH: write ./a=b.csv, or give it a name."""
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
    """The source of each table. Text files have the options of text files, JSON files only --type, other files none."""
    given = [name for name, value in reading.items() if value != _NOT_SAID[name]]
    ends = {name: "".join(Path(some[0]).suffixes).lower() for name, some in paths.items()}
    text = [name for name, end in ends.items() if not end or any(one in end for one in _TEXT)]
    if given and not text:
        flag = {"types": "--type", "nulls": "--null", "no_header": "--no-header"}.get(given[0], f"--{given[0]}")
        raise InvalidParameter(f"tables of text files with {flag}", "none", "leave it out.")
    sources: dict[str, object] = {}
    for name, some in paths.items():
        own = {**reading, "types": _types_of(name, reading["types"], paths)}
        if any(one in ends[name] for one in _JSON):
            own = {**_NOT_SAID, "types": own["types"]}
        sources[name] = Source(some, **(own if name in text else _NOT_SAID)).files()
    return sources


def _types_of(table: str, types: Sequence[str], tables: dict[str, Any]) -> list[str]:
    """The types of one table: amount=double is for every table of text files, events.amount=double for events."""
    own = []
    for text in types:
        owner, dot, rest = text.partition(".")
        if dot and owner in tables:
            own += [rest] if owner == table else []
        else:
            own.append(text)
    return own
