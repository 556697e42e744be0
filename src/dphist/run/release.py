"""What people read, write and report: every published object, with its plan and its guarantee. None holds a true value."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dphist import checks
from dphist.columns import Unit
from dphist.engines.base import Order, StoredTable
from dphist.engines.query import NullKeys
from dphist.errors import InvalidParameter, MissingExtra
from dphist.files import formats
from dphist.files.outputs import write_text
from dphist.ledger.charge import Receipt
from dphist.planning import Plan
from dphist.run.chosen_bounds import ChosenBounds
from dphist.run.record import AnswerRecord, Record, ReleaseRecord
from dphist.run.table import ORDERS
from dphist.run.totals import Totals
from dphist.run.withheld import Withheld

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

    from dphist.show.report import Content
    from dphist.show.view import View


class Published(ABC):
    """A private table. Holds no true value. `inputs` are the files it was made from, which it never replaces."""

    __slots__ = ()
    inputs: tuple[Path, ...]

    if TYPE_CHECKING:

        @property
        def table(self) -> pa.Table:
            """The table as Arrow."""

    @property
    @abstractmethod
    def record(self) -> Record:
        """Everything public about how the table was made, as it is stored, shown and verified."""

    def metadata(self) -> dict[str, Any]:
        """Everything public about how the table was made, as a file has it.

        Returns:
            A dictionary that JSON can hold: plan, guarantee, noise, version, time.

        Example:
            >>> release.metadata()["by"]
            ['country']
        """
        return self.record.to_data()

    @property
    def _view(self) -> View:
        """How it is shown: the one import upwards, to the room that shows."""
        from dphist.show.view import View

        return View(self)

    def content(self) -> Content:
        """What a report says, whatever it is written as.

        Returns:
            Headline, guarantee, table and the rest, for `dphist.show`.

        Example:
            >>> "user_id" in str(release.content())
            True
        """
        return self._view.content()

    def left_out(self) -> str:
        """Which units counts leave out: one sentence, which stands wherever they are shown.

        Returns:
            The sentence; nothing where all units of a group are counted.

        Example:
            >>> release.left_out()
            'A count is of units with each unit in one of its groups: units in more are missing from some of them, ...'
        """
        return self.record.left_out

    def without_value(self) -> list[str]:
        """In how many groups a mean, a variance or a quantile is null, since noise says less than its bounds alone, and why.

        Returns:
            A line for each column in which something is.

        Example:
            >>> release.without_value()
            []
        """
        return self.record.without_value

    def html(self) -> str:
        """The report as text, with the metadata in it.

        Returns:
            One HTML file that needs no network.

        Example:
            >>> release.html().startswith("<!DOCTYPE html>") or release.html().startswith("<!doctype html>")
            True
        """
        return self._view.html()

    def summary(self, *, markdown: bool = False) -> str:
        """The report for those without a browser, with the first rows of the table.

        Args:
            markdown: as Markdown instead of plain text.

        Returns:
            The text.

        Example:
            >>> "Guarantee" in release.summary() or "guarantee" in release.summary()
            True
        """
        return self._view.summary(markdown=markdown)

    @property
    def stored(self) -> StoredTable | None:
        """The table where an engine holds it; None if it is here."""
        return None

    @property
    def at_hand(self) -> bool:
        """Whether the table is in this process; one that Spark made is not, until it is asked for."""
        return self.stored is None

    def first(self, most: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all; of a release on Spark only these rows come to this machine.

        Args:
            most: how many rows at most.

        Returns:
            The rows as Arrow, and the number of groups.

        Example:
            >>> rows, groups = release.first(2)
            >>> rows.num_rows, groups > 2
            (2, True)
        """
        return (self.table.slice(0, most), self.table.num_rows) if self.stored is None else self.stored.first(most)

    def __repr__(self) -> str:
        return self._view.line()

    def _repr_html_(self) -> str:
        return self._view.card()

    def plot(self, most: int = 20, *, axes: Axes | None = None) -> Axes:
        """Draw the largest counts with their errors: bars, or a line where the only key is a date or a time.

        Whiskers are the intervals that were asked for, or else one standard error.

        Args:
            most: how many bars at most.
            axes: where to draw; without it on new axes, which a notebook shows.

        Returns:
            The axes, to go on with.

        Raises:
            MissingExtra: matplotlib is not installed; ``pip install 'dphist[plot]'``.
            InvalidParameter: the table has no counts.

        Example:
            >>> axes = release.plot(5)
            >>> axes.get_title(loc="left")
            'Whiskers reach one standard error...'
        """
        return self._view.plot(most, axes)

    def to_arrow(self) -> pa.Table:
        """The table as Arrow.

        Returns:
            Keys, values and their standard errors.

        Example:
            >>> release.to_arrow().column_names
            ['country', 'count', 'count_std_error', 'count_noisy']
        """
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame.

        Returns:
            The frame.

        Raises:
            MissingExtra: pandas is not installed.

        Example:
            >>> release.to_pandas()["country"][0]
            'DE'
        """
        try:
            import pandas as pd  # noqa: F401
        except ModuleNotFoundError:
            raise MissingExtra("pandas", "pandas frames") from None
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars frame.

        Returns:
            The frame.

        Raises:
            MissingExtra: Polars is not installed.

        Example:
            >>> release.to_polars()["country"][0]
            'DE'
        """
        try:
            import polars as pl
        except ModuleNotFoundError:
            raise MissingExtra("polars", "Polars frames") from None
        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def write(self, path: str | Path, *, overwrite: bool = False, raw_csv: bool = False) -> None:
        """Write the table as Parquet, CSV or JSON by the name of the file, with its metadata inside or beside it.

        Spark writes a folder of such files, with the metadata in it. In a CSV file texts that a spreadsheet would run as
        formulas begin with an apostrophe.

        Args:
            path: a name that ends in .parquet, .csv or .json.
            overwrite: replace an existing file, or folder that dphist wrote; never one that was read for this table.
            raw_csv: leave texts that a spreadsheet would run as they are.

        Raises:
            InvalidParameter: the file exists, or cannot be written.

        Example:
            >>> from pathlib import Path
            >>> release.write("countries.csv")
            >>> Path("countries.csv").read_text().splitlines()[0]
            'country,count,count_std_error,count_noisy'
            >>> release.write("countries.csv")
            Traceback (most recent call last):
            dphist.errors.InvalidParameter: Expected a new file for the output, got countries.csv, which exists. ...
        """
        options: dict[str, Any] = {"inputs": self.inputs, "overwrite": overwrite, "raw_csv": raw_csv}
        if self.stored is None:
            formats.write_table(self.table, self.metadata(), Path(path), **options)
        else:
            formats.write_folder(self.stored, self.metadata(), str(path), **options)

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a report: one HTML file that needs no network or, by the name of the file, a summary as .md or .txt.

        Args:
            path: the file.
            overwrite: replace an existing one.

        Raises:
            InvalidParameter: the file exists, or cannot be written.

        Example:
            >>> release.report("countries.html")
        """
        kind = Path(path).suffix.lower()
        text = self.summary(markdown=kind == ".md") if kind in (".md", ".txt") else self.html()
        write_text(text, Path(path), inputs=self.inputs, overwrite=overwrite)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is released beside the plan: which records, which keys, in which form. All of it public."""

    unit: Unit
    by: tuple[str, ...]
    where: str | None = None
    null_keys: NullKeys = "group"
    order: Order = "count"
    intervals: float | None = None
    integers: bool = False
    allow_negative: bool = False

    def __post_init__(self) -> None:
        checks.check_choice("order", self.order, ORDERS)
        if self.intervals is not None and not 0 < self.intervals < 1:
            raise InvalidParameter("a level of intervals in (0, 1)", self.intervals, "0.95 is a common choice.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Published):
    """A private table with its plan.

    One that Spark made stays where Spark wrote it, in a private directory, until it is asked for; `close`, the end of a with
    block or the end of this object removes it.

    Example:
        >>> release = dp.release("events.parquet", unit="user_id", by="country", epsilon=1, delta=1e-8, max_groups=1)
        >>> release
        Release(30 groups by country; epsilon 1, delta ...)
        >>> release.to_arrow().column("country").to_pylist()[:3]
        ['DE', 'FR', 'CH']
    """

    held: pa.Table | StoredTable
    plan: Plan
    selection: Selection
    totals: Totals | None
    created: dt.datetime
    receipt: Receipt | None = None
    inputs: tuple[Path, ...] = field(default=(), repr=False)
    bounds: tuple[ChosenBounds, ...] = ()
    withheld: tuple[Withheld, ...] = ()

    @property
    def total(self) -> float | None:
        """The noisy number of units in at least one group; None if the plan has none. `totals` has its error, and more."""
        return None if self.totals is None else self.totals.total.value

    @property
    def stored(self) -> StoredTable | None:
        """The table where an engine holds it; None if it is here."""
        return None if isinstance(self.held, pa.Table) else self.held

    @property
    def table(self) -> pa.Table:
        """The table as Arrow."""
        return self.held if self.stored is None else self.stored.to_arrow()

    def to_spark(self) -> DataFrame:
        """The table of a release on Spark as a DataFrame, in its order; nothing of it comes to this machine.

        Returns:
            The DataFrame.

        Raises:
            InvalidParameter: the release was not made by Spark.

        Example:
            >>> release.to_spark()
            Traceback (most recent call last):
            dphist.errors.InvalidParameter: Expected a release that was made by Spark, got one that was not. Hint: ...
        """
        if self.stored is None:
            raise InvalidParameter("a release that was made by Spark", "one that was not", "use to_arrow().")
        return self.stored.to_spark()

    def close(self) -> None:
        """Remove the private directory of a release on Spark; nothing to do for others.

        Example:
            >>> release.close()
        """
        if self.stored is not None:
            self.stored.close()

    def __enter__(self) -> Release:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def record(self) -> ReleaseRecord:
        """Plan, guarantee, noise, threshold, version and time. Nothing but public parameters and noisy values."""
        chosen, totals = self.selection, self.totals
        return ReleaseRecord.model_construct(
            created=self.created, unit=chosen.unit, keys=chosen.by, where=chosen.where,
            null_keys=chosen.null_keys, order=chosen.order, intervals=chosen.intervals, integers=chosen.integers,
            allow_negative=chosen.allow_negative and totals is not None, bounds=self.bounds, withheld=self.withheld,
            total_units=totals and totals.total, covered_units=totals and totals.covered,
            other_units=totals and totals.other, ledger=self.receipt, plan=self.plan,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer(Published):
    """The answer to a statement. releases: the private tables that it is computed from, each with its plan.

    Example:
        >>> con = dp.connect(tables={"events": "events.parquet"}, unit="user_id")
        >>> answer = con.sql('''
        ...     SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-8, max_groups_contributed = 1)
        ...       country, COUNT(DISTINCT user_id) AS people
        ...     FROM events GROUP BY country''')
        >>> answer.to_arrow().column_names
        ['country', 'people', 'people_std_error']
    """

    held: pa.Table
    statement: str
    outer: str
    releases: tuple[Release, ...]
    created: dt.datetime
    inputs: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def table(self) -> pa.Table:
        """The table as Arrow."""
        return self.held

    @property
    def epsilon(self) -> float:
        """Of all private tables together, which protect the same unit."""
        return self.record.epsilon

    @property
    def delta(self) -> float:
        """Of all private tables together, which protect the same unit."""
        return self.record.delta

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The entries of the ledger that paid, if there is one."""
        return tuple(release.receipt for release in self.releases if release.receipt is not None)

    @property
    def record(self) -> AnswerRecord:
        """The statement, what is computed from the private tables, and everything public about each of these."""
        releases = tuple(release.record for release in self.releases)
        return AnswerRecord.model_construct(
            created=self.created, statement=self.statement, outer=self.outer,
            columns=tuple(self.table.column_names), releases=releases,
        )  # fmt: skip
