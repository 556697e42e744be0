"""A released table with its plan: what people read, write and report."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.engines.query import NullKeys, parse_key
from dphist.errors import InvalidParameter
from dphist.mechanisms import AdaptiveGaussian
from dphist.outputs import write_text
from dphist.planning import Plan
from dphist.planning import storage as plan_storage
from dphist.planning.describe import guarantee
from dphist.publish import files
from dphist.publish.charge import Receipt
from dphist.publish.digests import VERSION
from dphist.publish.table import ORDERS, Order
from dphist.report import html
from dphist.version import __version__

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame

    from dphist.publish.spark import SparkTable


@dataclass(frozen=True, slots=True)
class Request:
    """What is released beside the plan: which records, which keys, in which form. All of it public."""

    unit: str
    by: tuple[str, ...]
    where: str | None = None
    null_keys: NullKeys = "group"
    order: Order = "count"
    intervals: float | None = None
    integers: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("order", self.order, ORDERS)
        if self.intervals is not None and not 0 < self.intervals < 1:
            raise InvalidParameter("a level of intervals in (0, 1)", self.intervals, "0.95 is a common choice.")


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A private table with its plan. Holds no true value.

    One that was made by Spark stays where Spark wrote it, in a private directory, until it is asked for; `close`, the end of
    a with block or the end of this object removes it. inputs: the files it was made from, which it never replaces.
    """

    held: pa.Table | SparkTable
    plan: Plan
    request: Request
    total: float | None
    created: dt.datetime
    receipt: Receipt | None = None
    inputs: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def table(self) -> pa.Table:
        """The same as `to_arrow()`."""
        return self.to_arrow()

    def to_arrow(self) -> pa.Table:
        """The table as Arrow."""
        return self.held if isinstance(self.held, pa.Table) else self.held.to_arrow()

    def first(self, most: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are; of a release on Spark only these rows come to this machine."""
        if isinstance(self.held, pa.Table):
            return self.held.slice(0, most), self.held.num_rows
        return self.held.first(most)

    def to_spark(self) -> DataFrame:
        """The table of a release on Spark as a DataFrame, in its order; nothing of it comes to this machine."""
        if isinstance(self.held, pa.Table):
            raise InvalidParameter("a release that was made by Spark", "one that was not", "use to_arrow().")
        return self.held.to_spark()

    def close(self) -> None:
        """Remove the private directory of a release on Spark; nothing to do for others."""
        if not isinstance(self.held, pa.Table):
            self.held.close()

    def __enter__(self) -> Release:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def metadata(self) -> dict[str, Any]:
        """Plan, guarantee, noise, threshold, version and time. Nothing but public parameters and noisy values."""
        return describe_release(self.plan, self.request, self.total, self.created, self.receipt)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table as Parquet, CSV or JSON by the name of the file, with its metadata inside or beside it.

        Spark writes a folder of such files, with the metadata in it. An existing file, or folder that dphist wrote, is refused
        unless `overwrite`, and then too if it was read for this release.
        """
        if isinstance(self.held, pa.Table):
            files.write_table(self.held, self.metadata(), Path(path), inputs=self.inputs, overwrite=overwrite)
        else:
            self.held.write(str(path), self.metadata(), inputs=self.inputs, overwrite=overwrite)

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a report to look at: one HTML file that needs no network. Existing files as in `write`."""
        page = html.render(self.to_arrow(), self.plan, self.metadata())
        write_text(page, Path(path), inputs=self.inputs, overwrite=overwrite)


def describe_release(
    plan: Plan, request: Request, total: float | None, created: dt.datetime, receipt: Receipt | None = None
) -> dict[str, Any]:
    """The metadata of a release, wherever its table is."""
    summary = plan.summary()
    return {
        "format": "dphist-release",
        "version": VERSION,
        "dphist": __version__,
        "created": created.isoformat(timespec="seconds"),
        "unit": request.unit,
        "by": [parse_key(key).name for key in request.by],
        "keys": list(request.by),
        "where": request.where,
        "null_keys": request.null_keys,
        "order": request.order,
        "intervals": request.intervals,
        "integers": request.integers,
        "guarantee": guarantee(plan.request, plan.mechanism),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "noise_std": summary.noise_std,
        "threshold": None if isinstance(plan.mechanism, AdaptiveGaussian) else summary.threshold,
        "total_units": None if total is None else {"value": total, "std_error": _total_std(plan)},
        "estimand": estimand(plan),
        "ledger": None if receipt is None else receipt.to_data(),
        "plan": plan_storage.to_data(plan.request, plan.mechanism, plan.alternatives),
    }


def estimand(plan: Plan) -> str:
    """What a count estimates, in words: intervals cover the noise, not what bounding left out."""
    most = plan.request.groups_per_unit
    if isinstance(plan.mechanism, AdaptiveGaussian):
        return (
            "the number of units in the group, all of them; intervals cover the noise and an estimate of what is lost where"
            " units in many groups are scaled down (sums and means: of values clamped to their bounds)"
        )
    if plan.request.sketch is not None:
        return "the count of units in a sketch of the data, which is never larger than the count in the data"
    return (
        f"the count of units after each unit was limited to {most:,} of its groups, chosen at random; intervals cover the"
        " noise, not what this limit left out"
    )


def _total_std(plan: Plan) -> float | None:
    scale = plan.request.total_scale
    return None if scale is None else float(np.sqrt(2.0) * scale)


class Published(ABC):
    """A private table. Holds no true value."""

    __slots__ = ()
    table: pa.Table
    inputs: tuple[Path, ...]
    """The files it was made from, which it never replaces."""

    def to_arrow(self) -> pa.Table:
        """The table as Arrow."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Everything public about how the table was made."""

    @abstractmethod
    def html(self) -> str:
        """The report as text."""

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table as Parquet, CSV or JSON by the name of the file, with its metadata inside or beside it.

        An existing file is refused unless `overwrite`, and then too if it was the source.
        """
        files.write_table(self.table, self.metadata(), Path(path), inputs=self.inputs, overwrite=overwrite)

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a report to look at: one HTML file that needs no network. Existing files as in `write`."""
        write_text(self.html(), Path(path), inputs=self.inputs, overwrite=overwrite)
