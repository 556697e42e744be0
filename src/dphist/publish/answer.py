"""The answer to a statement: a table that is computed from private ones, with all that these say about themselves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from dphist.columns import joint_unit
from dphist.planning.plan import STD_ERROR
from dphist.publish.charge import Receipt
from dphist.publish.record import AnswerRecord, keys_among
from dphist.publish.result import Published, Release
from dphist.report.cells import cells_of
from dphist.report.content import Appendix, Content, citation_of, explanation_of, records_of
from dphist.report.of_release import content_of
from dphist.words import cut

_LONGEST: Final = 240
"""Letters of a statement at the head of a report, which has all of it further down."""


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
        unit, names = joint_unit([one.unit for one in releases]), tuple(self.table.column_names)
        return AnswerRecord.model_construct(
            created=self.created, unit=unit, by=keys_among(names, releases), statement=self.statement,
            outer=self.outer, columns=names, releases=releases,
        )  # fmt: skip

    def content(self) -> Content:
        """What a report says: that of its private tables, with the table of the answer.

        Returns:
            Headline, guarantee, table and the rest, for `dphist.report`.

        Example:
            >>> "SELECT WITH DIFFERENTIAL_PRIVACY" in str(answer.content().headline)
            True
        """
        first, *others = [content_of(one.table, one.record) for one in self.releases]
        told = self.record
        values = value_names(self.table.column_names)
        keys = [name for name in self.table.column_names if not _is_beside(name, self.table.column_names)]
        keys = [name for name in keys if name not in values]
        asked = cut(" ".join(self.statement.split()), _LONGEST)

        def appendix() -> Sequence[Appendix]:
            steps = [Appendix("The statement", [("", self.statement)]), Appendix("The outer query", [("", self.outer)])]
            return [*steps, *first.appendix(), *(part for other in others for part in other.appendix())]

        if others:  # what readers are told to think of, and to cite, is the cost of all of them
            assumptions = dict.fromkeys(release.plan.mechanism.assumption for release in self.releases)
            protected = records_of(told.unit)
            explanation = explanation_of(told, protected, ", and ".join(assumptions))
            first = replace(first, explanation=explanation, citation=citation_of("Private tables", told))
        return replace(
            first,
            title="Private answer",
            headline=[
                ("Asked", asked),
                ("Answered", self._rows_in_words()),
                *first.headline,
            ],
            guarantee=" ".join(
                [*([told.guarantee] if others else []), first.guarantee, *(o.guarantee for o in others)]
            ),
            cells=cells_of(self.table, keys, values, None),
            table_note="± is one standard error." if values else "Values have no errors of their own.",
            reading=[*first.reading, *(line for other in others for line in other.reading)],
            appendix=appendix,
        )

    def _rows_in_words(self) -> str:
        rows = f"{self.table.num_rows:,} {'row' if self.table.num_rows == 1 else 'rows'}"
        groups = [f"{one.table.num_rows:,} {'group' if one.table.num_rows == 1 else 'groups'}" for one in self.releases]
        tables = f"a private table of {groups[0]}" if len(groups) == 1 else f"private tables of {' and '.join(groups)}"
        return f"The answer has {rows}. It is computed from {tables}, described below."


def value_names(names: Sequence[str]) -> list[str]:
    """The columns that have a standard error beside them."""
    return [name for name in names if name + STD_ERROR in names]


def _is_beside(name: str, names: Sequence[str]) -> bool:
    return name.endswith(STD_ERROR) and name.removesuffix(STD_ERROR) in names
