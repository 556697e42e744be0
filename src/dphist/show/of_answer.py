"""The report of the answer to a statement: those of its private tables, with the table of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from dphist.planning.plan import STD_ERROR
from dphist.publish.record import AnswerRecord
from dphist.show.content import Appendix, Content, citation_of, explanation_of, records_of
from dphist.show.of_release import content_of
from dphist.show.table import table_of
from dphist.words import cut

_LONGEST: Final = 240
"""Letters of a statement at the head of a report, which has all of it further down."""


def content_of_answer(table: pa.Table, record: AnswerRecord, privates: Sequence[pa.Table]) -> Content:
    """Everything that is told of an answer, which is computed from private tables."""
    first, *others = [content_of(*one) for one in zip(privates, record.releases, strict=True)]
    names = table.column_names
    values = [name for name in names if name + STD_ERROR in names]
    keys = [name for name in names if name not in values and name.removesuffix(STD_ERROR) not in values]

    def appendix() -> Sequence[Appendix]:
        steps = [Appendix("The statement", [("", record.statement)]), Appendix("The outer query", [("", record.outer)])]
        return [*steps, *first.appendix(), *(part for other in others for part in other.appendix())]

    if others:  # what readers are told to think of, and to cite, is the cost of all of them
        assumptions = dict.fromkeys(release.plan.mechanism.assumption for release in record.releases)
        explanation = explanation_of(record, records_of(record.unit), ", and ".join(assumptions))
        first = replace(first, explanation=explanation, citation=citation_of("Private tables", record))
    return replace(
        first,
        title="Private answer",
        headline=[
            ("Asked", cut(" ".join(record.statement.split()), _LONGEST)),
            ("Answered", _rows_in_words(table, privates)),
            *first.headline,
        ],
        guarantee=" ".join([*([record.guarantee] if others else []), *(one.guarantee for one in (first, *others))]),
        table=table_of(table, keys, values, None),
        table_note="± is one standard error." if values else "Values have no errors of their own.",
        reading=[*first.reading, *(line for other in others for line in other.reading)],
        appendix=appendix,
    )


def _rows_in_words(table: pa.Table, privates: Sequence[pa.Table]) -> str:
    rows = f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}"
    groups = [f"{one.num_rows:,} {'group' if one.num_rows == 1 else 'groups'}" for one in privates]
    tables = f"a private table of {groups[0]}" if len(groups) == 1 else f"private tables of {' and '.join(groups)}"
    return f"The answer has {rows}. It is computed from {tables}, described below."
