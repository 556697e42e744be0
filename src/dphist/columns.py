"""How texts name what is in a record: a column, an SQL expression under a name, and the unit that a guarantee protects.

A unit is one text, or several whose values make it up together: person and day. All of it goes by the text alone, never by what
columns a source has, so that a unit means the same in every file, and for every ledger.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias

from dphist.errors import InvalidParameter
from dphist.words import printable

Unit: TypeAlias = str | tuple[str, ...]
"""One text stays a text, as every file had it before units could have several parts."""

ONE_UNIT: Final = "all records of one unit"
"""What is protected, whatever the unit is."""

_FOLDED: Final = str.maketrans(ascii_uppercase, ascii_lowercase)

_DERIVED: Final = re.compile(
    r"""\s*(?: (?P<plain>[^\W\d]\w*) | "(?P<quoted>(?:[^"]|"")+)" )\s*=(?!=)\s*(?P<expression>.+)""",
    re.VERBOSE | re.DOTALL,
)


def split_name(text: str) -> tuple[str, str | None]:
    """Name and expression of `month=date_trunc('month', time)`; a name may be "quoted". Any other text is a column.

    A column that has an equals sign behind a word in its name is written as key="the=name".

    >>> split_name("revenue = price * quantity"), split_name("Price (EUR)")
    (('revenue', 'price * quantity'), ('Price (EUR)', None))
    """
    match = _DERIVED.fullmatch(text)
    if match is None:
        return text, None
    return match["plain"] or match["quoted"].replace('""', '"'), match["expression"].strip()


def joined_name(name: str, expression: str | None, *, unit: bool = False) -> str:
    """The text that `split_name` takes apart like that, or `split_unit` for a part of a unit.

    >>> joined_name("url", None), joined_name("k", "a=b"), joined_name("a=b", None)
    ('url', '"k"=a=b', '"a=b"="a=b"')
    """
    if expression is None and (split_unit if unit else split_name)(name) == (name, None):
        return name
    return f"{quote_identifier(name)}={quote_identifier(name) if expression is None else expression}"


def quote_identifier(name: str) -> str:
    """A column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def split_unit(text: str) -> tuple[str, str | None]:
    """Name and expression of a part of a unit. An expression in brackets or a call needs no name: lower(email).

    A column with a bracket in its name is written as person="the (name)".
    """
    name, expression = split_name(text)
    return (name, text.strip()) if expression is None and "(" in text else (name, expression)


def unit_of(given: str | Sequence[str]) -> Unit:
    """A unit as it is stored and compared, checked."""
    parts = (given,) if isinstance(given, str) else given
    if not (isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts)):
        raise InvalidParameter("a column, an expression or a list of them as the unit", type(given).__name__)
    if not parts or not all(parts):
        raise InvalidParameter("a column that names the unit", "nothing", "--unit COLUMN says whose record it is.")
    if len(set(parts)) < len(parts):
        raise InvalidParameter("different parts of a unit", ", ".join(parts), "name each part once.")
    return parts[0] if len(parts) == 1 else tuple(parts)


def parts_of(unit: Unit) -> tuple[str, ...]:
    """The columns and expressions whose values make up a unit."""
    return (unit,) if isinstance(unit, str) else tuple(unit)


def kind_of(unit: Unit) -> tuple[str, ...]:
    """A unit as the names of its parts: tables that compute a part differently mean the same by the same name.

    Names are one as DuckDB's are: whatever the case of A to Z.

    >>> kind_of("Person=lower(email)") == kind_of("person"), kind_of("straße") == kind_of("strasse")
    (True, False)
    """
    return tuple(split_unit(part)[0].translate(_FOLDED) for part in parts_of(unit))


def joint_unit(units: Sequence[Unit]) -> Unit:
    """The unit of several releases whose costs are added up: as all of them spell it, or with every spelling.

    Raises:
        InvalidParameter: they protect different units, so that their costs are costs of nobody.

    >>> joint_unit(["person=user", "person=customer"])
    '"person"=user, customer'
    """
    first = units[0]
    for unit in units:
        if kind_of(unit) != kind_of(first):
            got = " and ".join(kind_in_words(one) for one in (first, unit))
            raise InvalidParameter(
                "releases of one unit, whose costs add up", got, "state the cost of each unit apart."
            )
    spellings = [tuple(dict.fromkeys(texts)) for texts in zip(*map(parts_of, units), strict=True)]
    return unit_of([texts[0] if len(texts) == 1 else _spelled(texts) for texts in spellings])


def _spelled(texts: Sequence[str]) -> str:
    return joined_name(split_unit(texts[0])[0], ", ".join(split_unit(text)[1] or text for text in texts))


def kind_in_words(unit: Unit) -> str:
    """The names of a unit's parts in words, without how they are computed.

    >>> kind_in_words(("person=lower(email)", "day"))
    'person and day'
    """
    return unit_in_words(unit_of([split_unit(part)[0] for part in parts_of(unit)]))


def unit_in_words(unit: Unit) -> str:
    """Its parts as they were asked for.

    >>> unit_in_words(("person", "day"))
    'person and day'
    """
    *others, last = map(printable, parts_of(unit))
    return f"{', '.join(others)} and {last}" if others else last


def one_of(unit: Unit) -> str:
    """One unit by its name.

    >>> one_of("person"), one_of("lower(email)"), one_of(("person", "day"))
    ('one person', 'one value of lower(email)', 'one combination of person and day')
    """
    words = unit_in_words(unit)
    if not isinstance(unit, str):
        return f"one combination of {words}"
    return f"one {words}" if split_unit(unit)[1] is None else f"one value of {words}"


def protected(unit: Unit | None, what: str = ONE_UNIT) -> str:
    """What is protected, in words: a column is called the unit, any other unit by its name."""
    plain = unit is None or (isinstance(unit, str) and split_unit(unit)[1] is None)
    return what if unit is None or plain else what.replace("one unit", one_of(unit))


def not_protected(unit: Unit | None) -> str:
    """A warning about a unit of several parts: each part by itself is not protected."""
    if unit is None or isinstance(unit, str):
        return ""
    names = " or ".join(f"one {printable(split_unit(part)[0])}" for part in unit)
    return f"Each combination is protected by itself, not all records of {names}."
