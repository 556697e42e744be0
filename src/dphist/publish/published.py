"""What a published list can do: be read as Arrow, pandas or Polars, be written with its metadata, be reported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dphist.outputs import write_text
from dphist.publish import files

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


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
