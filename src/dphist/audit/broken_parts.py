"""Parts of the product that are broken on purpose, to be put in the place of the real ones in an attack."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from dphist.audit.ledger_attack import charged
from dphist.audit.trials import KEY, UNIT, published
from dphist.engines.duckdb.engine import DuckDBEngine
from dphist.engines.query import GroupByQuery, Key
from dphist.histogram import ContributionBounds, Histogram
from dphist.noise.entropy import allow_test_entropy
from dphist.noise.testing import SeededEntropy
from dphist.planning import Plan
from dphist.publish.result import Release


class Unbounded(DuckDBEngine):
    """Bounds nothing, and says that it did."""

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Count all pairs."""
        return replace(DuckDBEngine.histogram(self, source, query, ContributionBounds(), **options), bounds=bounds)


class OneThrough(DuckDBEngine):
    """Bounds everybody but the unit named `heavy`."""

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Two histograms, added up."""
        assert isinstance(source, pa.Table)
        through = pa.compute.fill_null(pa.compute.equal(source.column(UNIT), "heavy"), False)
        parts = [
            DuckDBEngine.histogram(self, source.filter(chosen), query, limit, **options)
            for chosen, limit in ((pa.compute.invert(through), bounds), (through, ContributionBounds()))
        ]
        return added(parts, bounds)


class SkipsRowGroups(DuckDBEngine):
    """Skips row groups of a file in which `first` is at most 5, as their statistics have it: they leave NaN out."""

    skipped: ClassVar[float] = 5.0

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Read what is left into memory and count that."""
        if isinstance(source, Path):
            with pa.parquet.ParquetFile(source) as file:
                place = file.schema_arrow.names.index("first")
                told = [file.metadata.row_group(i).column(place).statistics for i in range(file.num_row_groups)]
                kept = [i for i, one in enumerate(told) if not (one and one.has_min_max and one.max <= self.skipped)]
                source = file.read_row_groups(kept)
        return DuckDBEngine.histogram(self, source, query, bounds, **options)


class GuessesTypes(DuckDBEngine):
    """Keys are numbers if all records have one: 1 and 01 are one group then, and two if one unit has a word."""

    def histogram(self, source: object, query: GroupByQuery, bounds: ContributionBounds, **options: Any) -> Histogram:
        """Count with the type that fits all records."""
        assert isinstance(source, pa.Table)
        with suppress(pa.ArrowInvalid):
            source = source.set_column(1, KEY, source.column(KEY).cast(pa.int64()).cast(pa.string()))
        return DuckDBEngine.histogram(self, source, query, bounds, **options)


def added(parts: Sequence[Histogram], bounds: ContributionBounds) -> Histogram:
    """Histograms of one sum, added up group by group, that say they were bounded together."""
    tables = [
        part.keys.append_column("units", pa.array(part.counts)).append_column("steps", pa.array(part.sums["sum_value"]))
        for part in parts
    ]
    merged = pa.concat_tables(tables).group_by(KEY).aggregate([("units", "sum"), ("steps", "sum")])
    counts, steps = (merged.column(f"{name}_sum").to_numpy() for name in ("units", "steps"))
    return Histogram(merged.select([KEY]), counts, bounds, {"sum_value": steps}, parts[0].measures)


def with_doubles(table: pa.Table, plan: Plan) -> Release:
    """Normal noise in doubles, for counts that are published as they come."""
    made = published(table, plan)
    counts = made.table.column("count").to_numpy()
    words = SeededEntropy(1).words(2 * len(counts)).astype(np.float64) / 2.0**64
    radius = np.sqrt(-2 * np.log(np.maximum(words[: len(counts)], 1e-300)))
    noisy = np.floor(counts) + 3.0 * radius * np.cos(2 * np.pi * words[len(counts) :])
    return replace(made, held=made.table.set_column(1, "count", pa.array(noisy)))


def with_one_seed(table: pa.Table, plan: Plan) -> Release:
    """The same words for every release, and groups in the order of their keys."""
    with allow_test_entropy():
        made = plan.mechanism.perturb(_in_key_order(table).counts, SeededEntropy(7))  # type: ignore[union-attr]
    histogram = _in_key_order(table)
    shown = histogram.keys.take(pa.array(made.index)).append_column("count", pa.array(made.counts))
    return replace(published(table.slice(0, 0), plan), held=shown)


def _in_key_order(table: pa.Table) -> Histogram:
    found = DuckDBEngine().histogram(table, GroupByQuery(UNIT, (Key(KEY),)), ContributionBounds(1))
    return found.take(np.argsort(found.keys.column(0).to_numpy(), kind="stable"))


def as_read(table: pa.Table, plan: Plan) -> Release:
    """The rows of a release in the order in which their keys first appear."""
    made = published(table, plan)
    first = table.column(KEY).unique().to_pylist()
    place = pa.array([first.index(key) for key in made.table.column(KEY).to_pylist()])
    return replace(made, held=made.table.append_column("place", place).sort_by("place").drop_columns(["place"]))


def with_dictionary(source: pa.Table, folder: Path) -> Iterator[Path]:
    """Released keys as they would be if the keys of the source were taken as they are."""
    keys = source.column(KEY)
    whole = keys.combine_chunks() if pa.types.is_dictionary(keys.type) else keys.combine_chunks().dictionary_encode()
    path = folder / "released.parquet"
    pa.parquet.write_table(pa.table({KEY: whole.take(pa.array([0, 1, 2]))}), path)
    yield path


def charged_to_a_copy(path: Path) -> bool:
    """A ledger that does not remember what was charged."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        shutil.copy(path, copy)
        return charged(copy)
