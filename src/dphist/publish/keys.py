"""A public list of groups: from a file, a list or a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter


def public_keys(source: object, names: Sequence[str]) -> pa.Table:
    """The different groups of a public list, one column per key.

    A text file holds one key per line (one key column) or is a CSV with a header (several); a Parquet file has the key columns;
    a list holds values, or tuples of them.
    """
    if isinstance(source, str | Path):
        table = _read(Path(source), names)
    elif isinstance(source, pa.Table):
        table = source
    elif isinstance(source, Iterable):
        table = _from_values(list(source), names)
    else:
        raise InvalidParameter("public keys as a file, a list or an Arrow table", type(source).__name__)
    if sorted(table.column_names) != sorted(names):
        raise InvalidParameter(f"public keys with the columns {list(names)}", table.column_names)
    table = table.select(list(names)).group_by(list(names), use_threads=False).aggregate([])
    if table.num_rows == 0:
        raise InvalidParameter("at least one public key", "none")
    return table.select(list(names))


def _read(path: Path, names: Sequence[str]) -> pa.Table:
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path, columns=list(names))
        if path.suffix.lower() == ".csv":
            as_text = pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=False
            )
            return pa_csv.read_csv(path, convert_options=as_text).select(list(names))
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, KeyError) as problem:
        hint = f"one key per line, or a .csv or .parquet with the columns {list(names)}."
        raise InvalidParameter(f"a readable list of keys at {path}", type(problem).__name__, hint) from None
    if len(names) != 1:
        raise InvalidParameter("a .csv or .parquet list for several keys", path.name)
    return pa.table({names[0]: pa.array([line for line in lines if line.strip()], pa.string())})


def _from_values(values: list[Any], names: Sequence[str]) -> pa.Table:
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    if any(len(row) != len(names) for row in rows):
        raise InvalidParameter(f"public keys with {len(names)} values each", "another number")
    return pa.table({name: pa.array([row[i] for row in rows]) for i, name in enumerate(names)})
