"""Files as one table: their paths, their format, and the columns of files and of folder names.

Every engine keeps these rules. How an engine reads files is in its own `source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import unquote

from dphist import checks
from dphist.engines.names import check_unique, wanted_columns
from dphist.errors import InvalidParameter, UnreadableSource
from dphist.words import did_you_mean

Format = Literal["parquet", "csv", "json"]
_MOST_NULLS: Final = 100
_MOST_DIGITS: Final = 38
_TYPE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_ ]*?) *(\([0-9]{1,9}(?:, ?[0-9]{1,9})?\))?")
_OTHER_NAMES: Final = {
    "BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP", "INT": "INTEGER", "LONG": "BIGINT", "NUMERIC": "DECIMAL", "REAL": "FLOAT",
    "STRING": "VARCHAR", "TEXT": "VARCHAR", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
ENCODINGS: Final = {
    "utf-8": ("utf8", "utf-8-sig"),
    "latin-1": ("latin1", "iso-8859-1", "iso8859-1"),
    "windows-1252": ("cp1252",),
    "utf-16": ("utf16",),
}
"""The encodings of CSV files, each with its other names. Python knows all these names."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files to read as one table, when their names do not say enough.

    How a record is read depends on the record, the header and these options: nothing is guessed from other records. Text
    formats carry no types: every column is read as text, unless `types` declares one. One line of a CSV file is one record.

    Args:
        paths: files, globs of them, or folders.
        format: ``parquet``, ``csv`` or ``json``, where the names do not tell.
        delimiter: of a CSV file.
        quote: of a CSV file; with None nothing in a line is special.
        header: the names of the columns of a CSV file that has no header, whose first line is a record.
        types: columns with their types; a value that does not fit becomes null. The columns of JSON files must be declared:
            nothing else says which there are.
        encoding: of a text file.
        nulls: texts that stand for null in a CSV file; an empty field always does.

    Raises:
        InvalidParameter: a value outside its domain.

    Example:
        >>> visits = dp.Files(("events.csv",), types={"age": "INTEGER"})
        >>> old = dp.release(visits, unit="user_id", by="country", where="age > 60", epsilon=1, delta=1e-8, max_groups=1)
        >>> old.to_arrow().column("country").to_pylist()[0]
        'DE'
    """

    paths: tuple[str | Path, ...]
    format: Format | None = None
    delimiter: str | None = None
    quote: str | None = '"'
    header: Literal[True] | Sequence[str] = True
    types: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    nulls: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.paths:
            raise InvalidParameter("at least one path", "none")
        if self.format is not None:
            checks.check_choice("format", self.format, get_args(Format))
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n\0"):
                hint = "write the character itself, in quotes for the shell: --delimiter ';'."
                raise InvalidParameter(f"one ASCII character as {name}", repr(value), hint)
        if self.quote is not None and self.quote == self.delimiter:
            raise InvalidParameter("a quote that is not the delimiter", repr(self.quote))
        if self.header is not True and (not isinstance(self.header, list | tuple) or not all(self.header)):
            # The first record must not tell the number of columns: it would decide which other records are read.
            raise InvalidParameter("True or a list of the columns' names as header", repr(self.header))
        object.__setattr__(self, "types", {column: _type_named(name, column) for column, name in self.types.items()})
        object.__setattr__(self, "encoding", _encoding_named(self.encoding))
        if self.encoding == "utf-16" and self.header is not True:
            # A byte order mark says how bytes are read. Without a header the mark would stand in the first record.
            raise InvalidParameter(
                "UTF-16 files with a header", "names for files without one", "convert them to UTF-8."
            )
        if isinstance(self.nulls, str) or not all(isinstance(text, str) for text in self.nulls):
            raise InvalidParameter("a list of texts as nulls", repr(self.nulls), "for example nulls=['NA'].")
        if len(self.nulls) > _MOST_NULLS or any(len(text) > _MOST_NULLS for text in self.nulls):
            # Arrow ends the process if nulls have a million letters.
            raise InvalidParameter(f"at most {_MOST_NULLS} texts of as many letters as nulls", "more")
        if any("\ud800" <= letter <= "\udfff" for text in self.nulls for letter in text):
            raise InvalidParameter("nulls that can be written in Unicode", "bytes of another encoding")
        object.__setattr__(self, "nulls", tuple(self.nulls))

    def require_kind(self, kind: Format) -> None:
        """Refuse options that files of this kind have no use for: nobody should believe that they changed something.

        Args:
            kind: ``parquet``, ``csv`` or ``json``.

        Raises:
            InvalidParameter: an option of CSV files is given for others.

        Example:
            >>> dp.Files(("events.parquet",), delimiter=";").require_kind("parquet")
            Traceback (most recent call last):
            dphist.errors.InvalidParameter: Expected CSV files with the option delimiter, got parquet files. Hint: leave it out.
        """
        given = {
            "delimiter": self.delimiter is not None,
            "encoding": self.encoding != "utf-8",
            "nulls": bool(self.nulls),
            "header": self.header is not True,
        }
        for name, is_given in given.items():
            if is_given and kind != "csv":
                raise InvalidParameter(f"CSV files with the option {name}", f"{kind} files", "leave it out.")


def _type_named(name: str, column: str) -> str:
    """A type in DuckDB's own name for it."""
    from dphist.engines.functions import CASTS

    parts = _TYPE.fullmatch(str(name).strip())
    base = "" if parts is None else _OTHER_NAMES.get(parts[1].upper(), parts[1].upper())
    if parts is None or base not in CASTS or (parts[2] and base != "DECIMAL"):
        usual = "text, integer, double, boolean, date, timestamp or decimal(18,2)"
        raise InvalidParameter(
            f"a simple type for {column}", repr(name), f"{usual}; also {', '.join(sorted(map(str.lower, CASTS)))}."
        )
    width, scale = ([*map(int, re.findall(r"[0-9]+", parts[2] or "(18)")), 0])[:2]
    if not 1 <= width <= _MOST_DIGITS or scale > width:
        raise InvalidParameter(f"a decimal of at most {_MOST_DIGITS} digits for {column}", repr(name))
    return base + (parts[2] or "")


def _encoding_named(name: str) -> str:
    wanted = str(name).lower().replace("_", "-")
    for encoding, others in ENCODINGS.items():
        if wanted in (encoding, *others):
            return encoding
    raise InvalidParameter(f"one of the encodings {', '.join(ENCODINGS)}", repr(name))


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the lines of a CSV file are divided; `quote` None if no character is special. An empty field is null, too."""

    delimiter: str
    quote: str | None
    header: bool
    encoding: str = "utf-8"
    nulls: tuple[str, ...] = ()

    def value(self, text: str) -> str | None:
        """The value of a field."""
        return None if not text or text in self.nulls else text


Folder = dict[str, str | None]
"""The columns that the names of a file's folders add, as in year=2026/month=11/events.parquet."""

_SUFFIXES: Final[dict[str, Format]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSIONS: Final = (".gz", ".zst")
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


def form_of(files: Files, paths: Sequence[str]) -> CsvFormat:
    """How the lines of CSV files are divided: as declared, or by the end of the first name."""
    delimiter = files.delimiter or ("\t" if ".tsv" in Path(paths[0]).suffixes else ",")
    return CsvFormat(delimiter, files.quote, files.header is True, files.encoding, tuple(files.nulls))


def json_columns(files: Files, needed: Sequence[str], folder: Folder) -> list[str]:
    """The declared columns that are needed. A needed column that is not declared is refused: it may be misspelled.

    An error that depended on records would tell whether some record has the column. Without a declaration a misspelled
    column would be null in all records: an empty table, charged in full.
    """
    known = {name.casefold() for name in (*files.types, *folder)}
    missing = [name for name in dict.fromkeys(needed) if name.casefold() not in known]
    if missing:
        options = " ".join(f"--type {name}=text" for name in missing)
        raise UnreadableSource(
            "every column of JSON files to be declared",
            f"no type for {', '.join(map(repr, missing))}",
            did_you_mean(missing[0], list(files.types))
            + f"JSON has no header: declare what is there with {options} or dp.Files(paths, types={{...}}); text, integer,"
            " double, boolean, date and timestamp are types.",
        )
    return wanted_columns(list(files.types), needed)


def check_types(files: Files, names: Iterable[str]) -> None:
    """Refuse a type for a column that does not exist, or that has one: Parquet files declare all but the columns of folders."""
    if unknown := set(files.types) - set(names):
        hint = "a text column of a CSV or JSON file, or a folder such as year=2026, can have one."
        raise InvalidParameter("types for columns that exist and have none", ", ".join(sorted(unknown)), hint)


def folders_of(paths: Sequence[str]) -> list[Folder]:
    """The columns of each file's folders; none at all unless every file has the same ones."""
    folders: list[Folder] = []
    for path in paths:
        pairs = [part.split("=", 1) for part in Path(path).parts[:-1] if part.partition("=")[1] and part[0] != "="]
        folders.append({name: None if value == NULL_FOLDER else _decoded(value) for name, value in pairs})
    return folders if all(list(folder) == list(folders[0]) for folder in folders) else [{} for _ in paths]


def _decoded(value: str) -> str:
    """A text with escapes such as %20 decoded, if every % begins an escape."""
    return value if re.search("%(?![0-9A-Fa-f]{2})", value) else unquote(value)


def without_values(path: str) -> str:
    """A path as an error may show it: the value of a folder such as user=alice is a key of its records."""
    return str(Path(*(f"{part.partition('=')[0]}=..." if "=" in part else part for part in Path(path).parts)))


def check_folders(folder: Folder, names: Sequence[str] | dict[str, str]) -> None:
    """A folder's name must not stand in for a column of the file: every record would be counted under it."""
    check_unique(list(folder))
    inside = {name.casefold() for name in names}
    if clash := [name for name in folder if name.casefold() in inside]:
        raise UnreadableSource(
            f"{clash[0]!r} as a column of the files or in the names of their folders",
            "both",
            "rename the folder or the column: one would silently replace the other.",
        )


def is_hidden(name: str) -> bool:
    """Whether a file or folder holds no data: _SUCCESS, .part-0.crc. A folder _x=1 does, as everywhere in Hive's layout."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(".crc")


def format_of_files(files: Files, paths: Sequence[str]) -> Format:
    """The format of all files, if it is one and the options fit it."""
    found = {files.format: ""} if files.format else {format_of_file(path): path for path in paths}
    if len(found) > 1:
        names = ", ".join(f"{kind} ({Path(path).name})" for kind, path in sorted(found.items()))
        raise UnreadableSource("files of one format", names, "name those of one kind by a glob such as 'events/*.csv'.")
    (kind,) = found
    files.require_kind(kind)
    return kind


def format_of_file(path: str) -> Format:
    """The format by the end of the name."""
    suffixes = Path(path).suffixes
    last = suffixes[-2] if len(suffixes) > 1 and suffixes[-1].lower() in _COMPRESSIONS else (suffixes or [""])[-1]
    if (found := _SUFFIXES.get(last.lower())) is None:
        raise UnreadableSource(
            "a name that ends in .parquet, .csv, .tsv, .json, .jsonl or .ndjson",
            repr(Path(path).name),
            "rename it if it is one of these; if not, convert it: a spreadsheet can be saved as CSV.",
        )
    return found
