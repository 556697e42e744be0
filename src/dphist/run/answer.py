"""The answer to a statement: a table that is computed from private ones, with all that these say about themselves."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dphist.ledger.charge import Receipt
from dphist.run.record import AnswerRecord
from dphist.run.release import Published, Release


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
