"""The one reader of what dphist stored earlier: plans, sessions, streams, ledgers, metadata.

Any bytes may be in a file, so they pass two gates. `parse` reads JSON with bounds on length, depth and digits, without
repeated names and with finite numbers alone. `build` and `validate` compare it with a type, strictly: a text is no number,
true is not 1, and a name that the type does not know is refused. What does not fit is one error, which names the first wrong
field and quotes nothing of it. Pydantic is loaded when it is first needed: importing it takes longer than all else that
`dphist --help` does.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from dphist.errors import InvalidParameter
from dphist.files.outputs import near
from dphist.version import __version__
from dphist.words import canonical

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Failure = type[InvalidParameter]
Extra = Literal["forbid", "ignore"]

MOST_BYTES: Final = 4 << 20
"""The longest JSON that is read: a plan has some thousand bytes. As Python objects, JSON takes up to forty times its length."""

MOST_DEPTH: Final = 20
_MOST_DIGITS: Final = 20
_MOST_LETTERS: Final = 64
"""The letters of a whole number, and of one with a point: the shortest text of a double has at most 24."""

_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class StoredAs:
    """An annotation for a type that JSON lacks: the function that makes the value from a value of JSON."""

    read: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.read)


def read_file(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Of a file that is too long little more than `most` bytes are read."""
    try:
        if not path.is_file():
            got, hint = ("something else", "name the file itself.") if path.exists() else ("nothing", near(path))
            raise InvalidParameter(f"{what} at {path}", got, hint)
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidParameter):
            raise
        raise InvalidParameter(f"{what} at {path}", f"an unreadable file ({type(problem).__name__})") from None
    if len(content) > most:
        raise InvalidParameter(f"{what} of at most {most:,} bytes at {path}", "a longer file")
    return content


def parse(content: bytes, source: str, *, most: int = MOST_BYTES, error: Failure = InvalidParameter) -> dict[str, Any]:
    """Parse a stranger's JSON object: UTF-8, no name twice, finite numbers of ordinary length, not nested deeply."""
    try:
        if len(content) > most:
            raise ValueError("too long")
        data = json.loads(
            content.decode("utf-8"),
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_short,
            object_pairs_hook=_without_repeats,
        )
        _check_shape(data, MOST_DEPTH)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise error(f"one readable JSON object in {source}", "something else", "is it the right file?")
    return data


def check_version(found: object, version: int, what: str, remedy: str, *, error: Failure = InvalidParameter) -> None:
    """Refuse a file of another format. No format is converted."""
    if type(found) is int and found == version:
        return
    got, writer = (
        (f"version {found}", "an older" if found < version else "a newer")
        if type(found) is int
        else ("another", "another")
    )
    raise error(
        f"{what} of version {version}", got, f"dphist {__version__} does not read what {writer} one wrote; {remedy}."
    )


def _finite(text: str) -> float:
    if len(text) > _MOST_LETTERS or not math.isfinite(value := float(text)):
        raise ValueError("no number")
    return value


def _short(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("too long")
    return int(text)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice: one reader takes the first value, another the last, and they read two claims."""
    if len(data := dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return data


def _check_shape(data: Any, depth: int) -> None:
    """Refuse deep nesting, and texts that UTF-8 or a database cannot hold."""
    if depth == 0:
        raise ValueError("nested deeply")
    if isinstance(data, str):
        if "\0" in data:
            raise ValueError("a NUL")
        data.encode("utf-8")  # UTF-8 has no half of a surrogate pair
    elif isinstance(data, dict):
        for name, value in data.items():
            _check_shape(name, depth)
            _check_shape(value, depth - 1)
    elif isinstance(data, list):
        for value in data:
            _check_shape(value, depth - 1)


def validate(
    kind: Any,
    data: object,
    source: str,
    *,
    extra: Extra | None = "forbid",
    error: Failure = InvalidParameter,
) -> Any:
    """Data compared with a type, strictly; the type is a dataclass, whose constructor checks values, or a pydantic model.

    extra: forbid or ignore names that the type does not know; None: as the model says.
    """
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_json(canonical(data), strict=True, extra=extra)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
    except (ArithmeticError, RecursionError):  # a constructor raises these for numbers that are too large for doubles
        raise error(f"numbers of ordinary size in {source}", "others") from None
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidParameter):  # raised by a constructor: its words may quote the file
        raise error(f"{excerpt(cause.expected, 200)} in {source}", "something else") from None
    place = excerpt(".".join(map(str, first["loc"]))) or "text"
    raise error(f"a valid {place} in {source}", "another one", f"{first['msg']}.") from None


def build(
    kind: type[T],
    data: object,
    source: str,
    *,
    extra: Extra = "forbid",
    error: Failure = InvalidParameter,
) -> T:
    """A dataclass from valid data, with numbers as they are written: 1 stays 1 in a field for doubles."""
    validate(kind, data, source, extra=extra, error=error)
    built: T = _construct(kind, data)
    return built


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _construct(kind: Any, data: Any) -> Any:
    """Valid data as values of the type."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        readers = [note.read for note in notes if isinstance(note, StoredAs)]
        return readers[0](data) if readers else _construct(inner, data)
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [one for one in get_args(kind) if one is not type(None)]
        return data if data is None or len(kinds) > 1 else _construct(kinds[0], data)
    if get_origin(kind) is tuple:
        return tuple(_construct(get_args(kind)[0], value) for value in data)
    if is_dataclass(kind):
        known: Any = kind
        hints = _hints(known)
        return known(**{name: _construct(hints[name], value) for name, value in data.items() if name in hints})
    return data


def excerpt(text: str, most: int = _LONGEST) -> str:
    """Words of a stranger's file: short, and without letters that a terminal would obey."""
    shown = ascii(text)[1:-1]
    return shown if len(shown) <= most else shown[:most] + "…"
