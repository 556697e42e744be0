"""How the files of a command are read: the options of text files, the same for every command that reads records."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from dphist.cli.options import option
from dphist.errors import InvalidParameter
from dphist.planning.choices import ENCODINGS

if TYPE_CHECKING:
    from dphist.engines.source import Files

_OPTIONS: Final = {
    "delimiter": (
        str | None,
        option(
            "--delimiter",
            "CSV: what separates the columns, such as ';' or tab (default: a comma, a tab in .tsv files).",
            "Data",
            common=True,
            metavar="SIGN",
        ),
    ),
    "encoding": (
        str,
        option("--encoding", "CSV: how letters are written.", "Data", choices=ENCODINGS, metavar="NAME"),
    ),
    "types": (
        list[str] | None,
        option(
            "--type",
            "CSV and JSON: the type of a column, such as amount=double, text otherwise; values that do not fit are null. JSON"
            " needs one for every column. Repeatable.",
            "Data",
            common=True,
            metavar="COLUMN=TYPE",
        ),
    ),
    "nulls": (
        list[str] | None,
        option(
            "--null", "CSV: a text that means no value, as an empty field does. Repeatable.", "Data", metavar="TEXT"
        ),
    ),
    "no_header": (
        str | None,
        option(
            "--no-header", "CSV files without a header: the names of all columns, as a,b,c.", "Data", metavar="NAMES"
        ),
    ),
}
_DEFAULTS: Final = {"encoding": "utf-8"}


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of text files, behind its own, in place of a parameter `reading` for `files_to_read`."""
    own = inspect.signature(command, eval_str=True).parameters
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=Annotated[kind, said]
        )
        for name, (kind, said) in _OPTIONS.items()
    ]
    others = [one.replace(kind=one.KEYWORD_ONLY) for name, one in own.items() if name != "reading"]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(reading={name: given.pop(name) for name in _OPTIONS}, **given)

    run.__signature__ = inspect.Signature([*others, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def files_to_read(source: list[str], reading: dict[str, Any]) -> Files:
    """What a command reads, and how."""
    from dphist.engines.source import Files

    names = reading["no_header"]
    types = dict(map(_type, reading["types"] or ()))
    if len(types) < len(reading["types"] or ()):
        raise InvalidParameter("one --type for each column", "two for one of them")
    return Files(
        tuple(source),
        delimiter=reading["delimiter"],
        encoding=reading["encoding"],
        types=types,
        nulls=reading["nulls"] or (),
        header=True if names is None else names.split(","),
    )


def _type(text: str) -> tuple[str, str]:
    column, _, kind = text.rpartition("=")
    if not column or not kind:
        raise InvalidParameter("--type column=type", repr(text), "for example --type amount=double.")
    return column, kind
