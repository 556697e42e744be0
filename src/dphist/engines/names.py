"""Names of columns: a missing column is refused with the closest existing names that may be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from dphist.engines.expressions import Expression, at_column
from dphist.errors import InvalidParameter, UnreadableSource
from dphist.words import did_you_mean

if TYPE_CHECKING:
    from dphist.engines.source import CsvFormat


def check_columns(
    plain: Sequence[str], expressions: Collection[Expression], names: Sequence[str], form: CsvFormat | None
) -> None:
    """Refuse a column that does not exist, and name the closest columns.

    form: of CSV files whose first line has the names. Without a header that line is a record. So a message shows only words
    that spell a wanted name in other letters or signs (user_id, User-ID). It shows close names only if the line has all other
    wanted names, as no record has.
    """
    there = {column: column in names for column in plain}
    folded = {name.casefold() for name in names}
    for expression in expressions:
        there = {**{column: column.casefold() in folded for column in expression.columns}, **there}
    for missing in (name for name, found in there.items() if not found):
        others = [found for name, found in there.items() if name != missing]
        same = [name for name in names if letters_of(name) == letters_of(missing) != ""]
        shown = names if form is None or (others and all(others)) else same
        listed = "," in missing  # several names in one
        hint = "" if listed else did_you_mean(missing, same or shown, cutoff=0.5 if form is None else 0.6).strip()
        problem = InvalidParameter("a column that exists", repr(missing), hint + hint_of_name(missing))
        if not hint and form is None:
            hint = f"the columns are {', '.join(names[:20])}." + hint_of_name(missing)
            parts = [part.strip() for part in missing.split(",")]
            if len(parts) > 1 and set(parts) <= set(names):
                hint = f"name each by itself: {' '.join(f'--by {part}' for part in parts)}."
            elif missing not in plain:
                hint += f" A text is written in single quotes: '{missing}'."
            problem = InvalidParameter("a column that exists", repr(missing), hint)
        elif not hint and form is not None:
            problem = _not_in_header(missing, list(there), names, form)
        raise at_column(problem, missing, expressions)


def _not_in_header(missing: str, asked: Sequence[str], names: Sequence[str], form: CsvFormat) -> InvalidParameter:
    if len(names) == 1 and (delimiter := _delimiter(names[0], asked, form)):
        sign = "tab" if delimiter == "\t" else f"'{delimiter}'"
        return InvalidParameter(
            f"a column {missing!r}",
            f"one column in all, with {sign} in its name",
            f"the header looks separated by {sign}; add --delimiter {sign}.",
        )
    hint = f"the first line has {len(names)} columns, none of this name; {NO_HEADER}"
    return InvalidParameter("a column that exists", repr(missing), hint + hint_of_name(missing))


def letters_of(name: str) -> str:
    """A name without case and signs."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _delimiter(header: str, asked: Sequence[str], form: CsvFormat) -> str | None:
    """The delimiter that cuts a wanted name out of a header. A record holds no such name."""
    asked = [name.casefold() for name in asked]
    for delimiter in (";", "\t", "|", ","):
        parts = [part.strip(f" {form.quote or ''}").casefold() for part in header.split(delimiter)]
        if len(parts) > 1 and any(name in parts for name in asked):
            return delimiter
    return None


def hint_of_name(column: str) -> str:
    """A hint for a missing column that looks like an expression."""
    seems = any(letter in column for letter in "(*/+|:'")
    return " An SQL expression needs a name: revenue=price*quantity." if seems else ""


NO_HEADER: Final = "if the file has no header, name its columns: --no-header a,b,c or dp.Files(paths, header=[...])."


def wanted_columns(names: Sequence[str], needed: Sequence[str]) -> list[str]:
    """The columns that are needed, without regard to case, as SQL reads names."""
    folded = {name.casefold() for name in needed}
    return [name for name in names if name.casefold() in folded]


def check_header_names(names: Sequence[str]) -> None:
    """Refuse a name that comes twice, without showing it."""
    if len({name.casefold() for name in names}) < len(names):
        raise UnreadableSource(
            f"different names in the {len(names)} columns of the first line", "some that are equal", NO_HEADER
        )


def check_unique(names: Sequence[str]) -> None:
    """Refuse names that differ in case only, since SQL does not tell them apart."""
    times = Counter(name.casefold() for name in names)
    twice = [name for name in names if times[name.casefold()] > 1]
    if twice:
        raise InvalidParameter("column names that differ in more than case", ", ".join(twice), "rename one of them.")
