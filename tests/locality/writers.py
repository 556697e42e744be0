"""The same table through every writer and frame that a user may have.

What a source holds is a function of the schema and of each record, never of the records together: a column that pandas would
store as float because one value is missing is stored so always. `seen` says what the engine is expected to find, as Arrow.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from nasty_tables import UNIT
from oracle import tag_of, values_of
from record_expressions import Value

from dphist.engines.parser import read_expression
from dphist.engines.relations import Combine, Derived, Filter, Join, Scan, Values
from dphist.engines.source import Files

Write = Callable[[pa.Table, Path], Any]
See = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Writer:
    """A name, how a table becomes a source, which table the engine finds there, and whether text may be summed.

    derived: a tree of relations, which is proved for its unit alone.
    """

    name: str
    write: Write
    see: See
    untyped: bool = False
    derived: bool = False

    def __repr__(self) -> str:
        return self.name


def _without(*tags: str) -> See:
    """All columns but those of some types, which the writer does not take."""

    def see(table: pa.Table) -> pa.Table:
        kept = [
            n
            for n in table.column_names
            if n == UNIT or not {tag_of(table.schema.field(n).type), str(table.schema.field(n).type)} & {*tags}
        ]
        return table.select(kept)

    return see


def _parquet(**options: Any) -> Write:
    def write(table: pa.Table, folder: Path) -> Path:
        path = folder / "x.parquet"
        pq.write_table(_without_null_words(table), path, **options)
        return path

    return write


def _without_null_words(table: pa.Table) -> pa.Table:
    """Arrow does not write dictionaries in which a word is null."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, plain.dictionary_encode())
    return table


def _many_parquet(table: pa.Table, folder: Path) -> str:
    """Several files, one of them empty."""
    one = min(1, len(table))
    cuts = [0, one, one, max(one, len(table) // 2), len(table)]  # each record once, also of a table of one
    for number, (first, last) in enumerate(pairwise(cuts)):
        part = _without_null_words(table.slice(first, last - first))
        pq.write_table(part, folder / f"part{number}.parquet", row_group_size=2)
    return str(folder / "part*.parquet")


def _bloom(table: pa.Table, folder: Path) -> Path:
    simple = [f.name for f in table.schema if not pa.types.is_boolean(f.type) and not pa.types.is_nested(f.type)]
    options = {name: {"ndv": 10, "fpp": 0.1} for name in simple if not pa.types.is_null(table.schema.field(name).type)}
    path: Path = _parquet(bloom_filter_options=options, row_group_size=2)(table, folder)
    return path


def _polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _polars_parquet(**options: Any) -> Write:
    def write(table: pa.Table, folder: Path) -> Path:
        _polars(table).write_parquet(folder / "x.parquet", **options)
        return folder / "x.parquet"

    return write


def _duckdb_parquet(options: str) -> Write:
    def write(table: pa.Table, folder: Path) -> Path:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.register("given", table)
            connection.execute(f"COPY (SELECT * FROM given) TO '{folder}/x.parquet' (FORMAT parquet{options})")
        return folder / "x.parquet"

    return write


def _relation(of_file: bool) -> Write:
    def write(table: pa.Table, folder: Path) -> duckdb.DuckDBPyRelation:
        connection = duckdb.connect(config={"threads": 1})
        if of_file:
            return connection.read_parquet(str(_parquet(row_group_size=2)(table, folder)))
        connection.register("given", table)
        connection.execute("CREATE TABLE kept AS SELECT * FROM given")
        return connection.table("kept")

    return write


def _chunked(table: pa.Table, folder: Path) -> pa.Table:
    """Odd borders, empty chunks, offsets into larger buffers."""
    cuts = sorted({0, 1, len(table) // 3, len(table)})
    pieces = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    return pa.concat_tables([table.slice(0, 0), *pieces])


def _reader(table: pa.Table, folder: Path) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, iter(_chunked(table, folder).to_batches(max_chunksize=3)))


def _in_numpy(table: pa.Table) -> pa.Table:
    """NumPy columns: integers that may be missing are floats, whether or not one is missing, and what is missing is NaN."""
    widths = {"int": pa.float64(), "float64": pa.float64(), "float32": pa.float32()}
    columns = {}
    for name in table.column_names:
        tag, values = tag_of(table.schema.field(name).type), values_of(table.column(name))
        if tag in widths:
            columns[name] = pa.array([None if _is_missing(v) else float(v[1]) for v in values], widths[tag])  # type: ignore[index]
        elif tag == "text" or name == UNIT:
            columns[name] = pa.array([_spelled(v) for v in values], pa.string())
    return pa.table(columns)


def _is_missing(value: Value) -> bool:
    return value is None or value[1] != value[1]


def _numpy_frame(table: pa.Table) -> pd.DataFrame:
    seen = _in_numpy(table)
    kinds = [f.type.to_pandas_dtype() if pa.types.is_floating(f.type) else object for f in seen.schema]
    columns = zip(seen.column_names, seen.columns, kinds, strict=True)
    return pd.DataFrame({name: pd.Series(column.to_pylist(), dtype=kind) for name, column, kind in columns})


_NULLABLE: Final = {
    **{
        getattr(pa, f"{u}int{n}")(): getattr(pd, f"{u.upper()}Int{n}Dtype")()
        for u in ("", "u")
        for n in (8, 16, 32, 64)
    },
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(),
    pa.large_string(): pd.StringDtype(),
}


def _nullable(table: pa.Table) -> pa.Table:
    """The columns that have a nullable type in pandas; the unit as text if need be."""
    kept = table.select([n for n in table.column_names if n == UNIT or table.schema.field(n).type in _NULLABLE])
    if table.schema.field(UNIT).type in _NULLABLE:
        return kept
    return kept.set_column(0, UNIT, pa.array([_spelled(v) for v in values_of(table.column(UNIT))], pa.string()))


def _nullable_frame(table: pa.Table) -> pd.DataFrame:
    return _nullable(table).to_pandas(types_mapper=_NULLABLE.get)


def _pandas_parquet(table: pa.Table, folder: Path) -> Path:
    _nullable_frame(table).to_parquet(folder / "x.parquet", row_group_size=3)
    return folder / "x.parquet"


def _in_objects(table: pa.Table) -> pa.Table:
    """Python objects are text, value by value, with one spelling for values that are equal; NaN is missing."""
    columns = {}
    for name in table.column_names:
        if name == UNIT or tag_of(table.schema.field(name).type) in ("int", "bool", "text", "float64"):
            spelled = [None if _is_missing(v) else _spelled_once(v[1]) for v in values_of(table.column(name))]  # type: ignore[index]
            columns[name] = pa.array(spelled, pa.string())
    return pa.table(columns)


def _spelled_once(value: Any) -> str:
    if isinstance(value, str) or value in (math.inf, -math.inf) or value != int(value):
        return str(value)
    return str(int(value))


def _object_frame(table: pa.Table) -> pd.DataFrame:
    columns = {name: values_of(table.column(name)) for name in _in_objects(table).column_names}
    return pd.DataFrame(
        {name: pd.Series([v and v[1] for v in values], dtype=object) for name, values in columns.items()}
    )


def _text_frame(table: pa.Table) -> pd.DataFrame:
    return pd.DataFrame({n: pd.Series(table.column(n).to_pylist(), dtype=object) for n in table.column_names})


def _category_frame(table: pa.Table) -> pd.DataFrame:
    seen = _as_text(table)
    frame = pd.DataFrame(index=range(len(table)))
    for name, column in zip(seen.column_names, seen.columns, strict=True):
        known = sorted({value for value in column.to_pylist() if value is not None})
        frame[name] = pd.Categorical(column.to_pylist(), categories=[*known, "unused category"])
    return frame


def _as_text(table: pa.Table) -> pa.Table:
    """Every simple column as text."""
    columns = {}
    for name in table.column_names:
        if name == UNIT or tag_of(table.schema.field(name).type) not in ("struct", "list", "binary", "null", "decimal"):
            columns[name] = pa.array([_spelled(value) for value in values_of(table.column(name))], pa.string())
    return pa.table(columns)


def _spelled(value: Value) -> str | None:
    if value is None:
        return None
    return value[1] if value[0] == "text" else str(value[1]).lower() if value[0] == "bool" else str(value[1])


def _csv_text(table: pa.Table) -> pa.Table:
    """An empty field is null. Lines inside a field, and marks before a line, are what `test_engine_lines` looks at."""
    text = _as_text(table)
    columns = {name: text.column(name).to_pylist() for name in text.column_names}
    lines = {
        name: [v if v and not {*v} & {*"\r\n\ufeff"} else None for v in values] for name, values in columns.items()
    }
    return pa.table({name: pa.array(values, pa.string()) for name, values in lines.items()})


_NULLS: Final = ("NaN", "null", "1", "a,b")


def _without_nulls(table: pa.Table) -> pa.Table:
    """Texts that were declared to be no values."""
    text = _csv_text(table)
    columns = [[None if value in _NULLS else value for value in column.to_pylist()] for column in text.columns]
    return pa.table([pa.array(values, pa.string()) for values in columns], text.column_names)


def _rows(table: pa.Table) -> list[list[str]]:
    columns = [[value or "" for value in column.to_pylist()] for column in _csv_text(table).columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _python_csv(
    *, header: bool = True, suffix: str = ".csv", declared: dict[str, Any] | None = None, **options: Any
) -> Write:
    """declared: what the reader is told, and the encoding that is written."""
    declared = declared or {}
    text: dict[str, Any] = {"newline": "", "encoding": declared.get("encoding", "utf-8")}

    def write(table: pa.Table, folder: Path) -> Any:
        path = folder / f"x{suffix}"
        with gzip.open(path, "wt", **text) if suffix.endswith(".gz") else path.open("w", **text) as file:
            writer = csv.writer(file, **options)
            if header:
                writer.writerow(_csv_text(table).column_names)
            writer.writerows(_rows(table))
        return Files((path,), header=True if header else _csv_text(table).column_names, **declared)

    return write


def _pandas_csv(table: pa.Table, folder: Path) -> Path:
    pd.DataFrame(_rows(table), columns=_csv_text(table).column_names).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def _polars_csv(table: pa.Table, folder: Path) -> Path:
    _polars(_csv_text(table)).write_csv(folder / "x.csv")
    return folder / "x.csv"


def _json_records(table: pa.Table) -> list[Mapping[str, Any]]:
    return [dict(row) for row in _as_text(table).to_pylist()]


def _declared(path: Path, table: pa.Table) -> Files:
    return Files((path,), types=dict.fromkeys(_as_text(table).column_names, "text"))


def _json_lines(table: pa.Table, folder: Path) -> Files:
    lines = [json.dumps(record, ensure_ascii=number % 2 == 0) for number, record in enumerate(_json_records(table))]
    (folder / "x.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return _declared(folder / "x.jsonl", table)


def _polars_json(table: pa.Table, folder: Path) -> Files:
    _polars(_as_text(table)).write_ndjson(folder / "x.ndjson")
    return _declared(folder / "x.ndjson", table)


def _pandas_json(table: pa.Table, folder: Path) -> Files:
    _text_frame(_as_text(table)).to_json(folder / "x.jsonl", orient="records", lines=True)
    return _declared(folder / "x.jsonl", table)


def _beside(write: Write, see: See) -> Write:
    """The same rows by way of relations: beside a public one, and filtered by it."""

    def derive(table: pa.Table, folder: Path) -> Derived:
        rows = Join(_scan(see(table)), Values(("one",), (("1",),)), "inner", ())
        return Derived(Filter(rows, read_expression("one = 1")), {"table": write(table, folder)})

    return derive


def _above(write: Write, see: See) -> Write:
    """The same rows above none of them: the table is read twice."""

    def derive(table: pa.Table, folder: Path) -> Derived:
        scan = _scan(see(table))
        none = Filter(scan, read_expression("FALSE"))
        rows = Combine(scan, none, "union all", tuple((name, name, name) for name in scan.names))
        return Derived(rows, {"table": write(table, folder)})

    return derive


def _scan(table: pa.Table) -> Scan:
    return Scan("table", {name: name for name in table.column_names}, UNIT, unit_kind=UNIT)


_all: See = _without()
_no_views: See = _without("string_view")
_version_1: See = _without("string_view", "timestamp[ns]", "timestamp[ns, tz=UTC]", "uint32", "time64[ns]")
_polars_takes: See = _without("string_view", "date64[day]", "date64[ms]", "time")
_TYPED: Final = {
    "pyarrow": (_parquet(), _no_views),
    "pyarrow groups of 1": (_parquet(row_group_size=1), _no_views),
    "pyarrow groups of 2": (_parquet(row_group_size=2, write_page_index=True), _no_views),
    "pyarrow groups of 7": (_parquet(row_group_size=7, data_page_version="2.0", compression="gzip"), _no_views),
    "pyarrow without statistics": (_parquet(write_statistics=False, compression="none"), _no_views),
    "pyarrow without dictionary": (_parquet(use_dictionary=False, compression="zstd", max_rows_per_page=2), _no_views),
    "pyarrow version 1.0": (_parquet(version="1.0", compression="lz4", store_schema=False), _version_1),
    "pyarrow bloom filters": (_bloom, _no_views),
    "pyarrow brotli": (_parquet(compression="brotli", use_content_defined_chunking=True), _no_views),
    "pyarrow several files": (_many_parquet, _no_views),
    "polars parquet": (_polars_parquet(), _polars_takes),
    "polars parquet groups of 2": (_polars_parquet(row_group_size=2, statistics="full"), _polars_takes),
    "polars parquet without statistics": (_polars_parquet(statistics=False, compression="snappy"), _polars_takes),
    "duckdb parquet": (_duckdb_parquet(""), _all),
    "duckdb parquet v2": (_duckdb_parquet(", PARQUET_VERSION V2, ROW_GROUP_SIZE 2048, COMPRESSION zstd"), _all),
    "arrow": (lambda table, folder: table, _all),
    "arrow chunks": (_chunked, _all),
    "arrow reader": (_reader, _all),
    "arrow batch": (lambda table, folder: table.combine_chunks().to_batches()[0] if len(table) else table, _no_views),
    "polars": (lambda table, folder: _polars(table), _polars_takes),
    "polars lazy": (lambda table, folder: _polars(table).lazy(), _polars_takes),
    "duckdb relation": (_relation(of_file=False), _all),
    "duckdb relation of a file": (_relation(of_file=True), _no_views),
    "pandas pyarrow": (lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype), _all),
    "pandas nullable": (lambda table, folder: _nullable_frame(table), _nullable),
    "pandas parquet": (_pandas_parquet, _nullable),
    "pandas categories": (lambda table, folder: _category_frame(table), _as_text),
}  # fmt: skip
_TABLES: Final = (
    Writer("pandas objects", lambda table, folder: _object_frame(table), _in_objects, untyped=True),
    Writer("pandas numpy", lambda table, folder: _numpy_frame(table), _in_numpy),
    *(Writer(name, write, see) for name, (write, see) in _TYPED.items()),
    *(
        Writer(f"csv {name}", write, _csv_text, untyped=True)
        for name, write in {
            "python": _python_csv(lineterminator="\n"),
            "python crlf": _python_csv(),
            "python quoted": _python_csv(quoting=csv.QUOTE_ALL, lineterminator="\n"),
            "python tabs": _python_csv(suffix=".tsv", delimiter="\t", lineterminator="\n"),
            "python gzip": _python_csv(suffix=".csv.gz", lineterminator="\n"),
            "without header": _python_csv(header=False, lineterminator="\n"),
            "utf-16": _python_csv(delimiter=";", declared={"encoding": "utf-16", "delimiter": ";"}),
            "pandas": _pandas_csv,
            "polars": _polars_csv,
        }.items()
    ),
    Writer(
        "csv with nulls", _python_csv(declared={"nulls": _NULLS}, lineterminator="\n"), _without_nulls, untyped=True
    ),
    *(
        Writer(f"json {name}", write, _as_text, untyped=True)
        for name, write in {
            "lines": _json_lines,
            "polars": _polars_json,
            "pandas": _pandas_json,
        }.items()
    ),
)
_DERIVED: Final = {
    "pyarrow groups of 2": _beside, "arrow reader": _beside, "pandas numpy": _above, "csv python": _above,
    "json lines": _beside,
}  # fmt: skip
WRITERS: Final = (
    *_TABLES,
    *(
        Writer(f"{one.name}, derived", _DERIVED[one.name](one.write, one.see), one.see, derived=True)
        for one in _TABLES
        if one.name in _DERIVED
    ),
)
