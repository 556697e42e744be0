"""The answer to a statement: a table that is computed from private ones, with all that these say about themselves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from dphist.columns import joint_unit
from dphist.notebook import shortened
from dphist.planning.plan import STD_ERROR
from dphist.publish.charge import Receipt
from dphist.publish.digests import VERSION
from dphist.publish.result import Published, Release
from dphist.report.cells import cells_of
from dphist.report.content import Appendix, Content, citation_of, explanation_of, records_of
from dphist.report.of_release import content_of
from dphist.version import __version__
from dphist.words import budget, rounded_up

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
        return total_of([release.plan.epsilon for release in self.releases])

    @property
    def delta(self) -> float:
        """Of all private tables together, which protect the same unit."""
        return total_of([release.plan.request.delta for release in self.releases])

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The entries of the ledger that paid, if there is one."""
        return tuple(release.receipt for release in self.releases if release.receipt is not None)

    def metadata(self) -> dict[str, Any]:
        """The statement, what is computed from the private tables, and everything public about each of these.

        Returns:
            A dictionary that JSON can hold.

        Example:
            >>> answer.metadata()["format"]
            'dphist-answer'
        """
        return describe_answer(
            self.statement,
            self.outer,
            [release.metadata() for release in self.releases],
            self.created,
            self.table.column_names,
        )

    def left_out(self) -> str:
        """Which units the counts of its private tables leave out: see `Published.left_out`.

        Returns:
            The sentence, or one for each kind of private table.

        Example:
            >>> answer.left_out()
            ''
        """
        return " ".join(dict.fromkeys(words for release in self.releases if (words := release.left_out())))

    def without_value(self) -> list[str]:
        """What is withheld in its private tables: see `Published.without_value`.

        Returns:
            A line for each column in which something is.

        Example:
            >>> answer.without_value()
            []
        """
        return [line for release in self.releases for line in release.without_value()]

    def content(self) -> Content:
        """What a report says: that of its private tables, with the table of the answer.

        Returns:
            Headline, guarantee, table and the rest, for `dphist.report`.

        Example:
            >>> "SELECT WITH DIFFERENTIAL_PRIVACY" in str(answer.content().headline)
            True
        """
        first, *others = [content_of(one.table, one.plan, one.metadata()) for one in self.releases]
        told = self.metadata()
        values = value_names(self.table.column_names)
        keys = [name for name in self.table.column_names if not _is_beside(name, self.table.column_names)]
        keys = [name for name in keys if name not in values]
        asked = shortened(" ".join(self.statement.split()), _LONGEST)

        def appendix() -> Sequence[Appendix]:
            steps = [Appendix("The statement", [("", self.statement)]), Appendix("The outer query", [("", self.outer)])]
            return [*steps, *first.appendix(), *(part for other in others for part in other.appendix())]

        if others:  # what readers are told to think of, and to cite, is the cost of all of them
            assumptions = dict.fromkeys(release.plan.mechanism.assumption for release in self.releases)
            protected = records_of(told["unit"])
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
                [*([told["guarantee"]] if others else []), first.guarantee, *(o.guarantee for o in others)]
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


def total_of(parts: Sequence[float]) -> float:
    """The sum, never below it: parts of a budget are decimal numbers, and equal shares of it make a whole again."""
    whole = sum(Fraction(repr(float(one))) for one in parts)
    return parts[0] if len(parts) == 1 else float(rounded_up(Fraction(whole), 12))


def describe_answer(
    statement: str, outer: str, releases: Sequence[dict[str, Any]], created: dt.datetime, names: Sequence[str]
) -> dict[str, Any]:
    """The metadata of an answer.

    Raises:
        InvalidParameter: its private tables protect different units, so that they have no cost together.
    """
    epsilon, delta = (total_of([one["plan"]["request"][name] for one in releases]) for name in ("epsilon", "delta"))
    guarantee = releases[0]["guarantee"]
    if len(releases) > 1:
        each = "; ".join(f"({number}) {one['guarantee']}" for number, one in enumerate(releases, 1))
        guarantee = f"{len(releases)} private tables, together {budget(epsilon, delta)}. {each}"
    keys = {name.casefold() for one in releases for name in one["by"]}
    return {
        "format": "dphist-answer",
        "version": VERSION,
        "dphist": __version__,
        "created": created.isoformat(timespec="seconds"),
        "statement": statement,
        "outer": outer,
        "unit": joint_unit([one["unit"] for one in releases]),
        "by": [name for name in names if name.casefold() in keys],
        "columns": list(names),
        "epsilon": epsilon,
        "delta": delta,
        "guarantee": guarantee,
        "ledger": releases[0]["ledger"] if len(releases) == 1 else None,
        "releases": list(releases),
    }
