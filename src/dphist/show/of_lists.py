"""The reports of the largest groups, counted or ranked, and of the running counts of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.mechanisms import ContinualCounts
from dphist.publish.record import StreamRecord, TopKRecord
from dphist.show import content, pictures
from dphist.show.charts import Chart, chart
from dphist.show.content import Appendix, Content, Fact
from dphist.show.table import key_text, labels, numbers, table_of

_PLUS_MINUS = "± is one standard error of the noise."


def content_of_largest(table: pa.Table, record: TopKRecord, *, complete: bool) -> Content:
    """Everything that is told of the largest groups."""
    plan, by, protected = record.plan, record.by, content.records_of(record.unit)
    ranked = plan.mechanism.noise_std is None
    shown = f"{content.groups_shown(table.num_rows)}; at most {plan.k:,} were asked for."
    counts = content.counted_in_words(record.unit, by, largest=True)
    if ranked:
        units = content.counted(record.unit)
        counts = f"Which {' and '.join(by)} have most {units}, in their order. Units count, not rows."
    ended = "" if complete else " The list ended early: no other group was clearly larger than the rest."
    missing = "A group that is missing may be nearly as large as the last one."
    reading = (
        "The list is an order without counts."
        if ranked
        else f"{record.left_out or 'A count estimates the number of units in the group.'} {content.given_that('listed')}"
    )
    return Content(
        title=f"{'The largest groups, ranked,' if ranked else 'Private counts of the largest groups'}{content.by_words(by)}",
        headline=[
            ("Counted", f"{counts} {shown}"),
            content.for_whom(record, protected),
            ("How sure", "The list is an order without counts; noise may have exchanged groups of similar size."
             if ranked else _PLUS_MINUS),
            ("Missing", " ".join(part for part in (f"{missing}{ended}", record.left_out) if part)),
        ],
        guarantee=content.guarantee_of(record, protected),
        explanation=content.explanation_of(record, protected, plan.mechanism.assumption),
        table=table_of(table, ["rank", *by], [], None) if ranked else table_of(table, by, ["count"], None),
        table_note="Ranks, largest first." if ranked else _PLUS_MINUS,
        seen=[],
        reading=[reading, missing],
        citation=content.citation_of("Groups", record),
        maker=content.maker_of(record),
        charts=lambda: _charts(None if ranked else chart(table, by, None)),
        curve=lambda: None,
        appendix=lambda: [Appendix("The plan", plan.mechanism.facts(plan.k))],
    )  # fmt: skip


def content_of_running(
    table: pa.Table,
    record: StreamRecord,
    facts: Sequence[Fact],
    history: Sequence[tuple[int, pa.Table]],
) -> Content:
    """Everything that is told of running counts: the largest groups over the rounds, and the counts now."""
    by, unit, mechanism = record.by, record.unit, record.mechanism
    protected = content.records_of(unit).replace("all records of", "what") + " adds in one round"
    shown = f"{content.groups_shown(table.num_rows)}; round {record.round:,} of {mechanism.rounds:,}."
    threshold = dict(facts)["threshold"]
    return Content(
        title=f"Private running counts{content.by_words(by)}",
        headline=[
            ("Counted", f"{content.counted_in_words(unit, by)} The rounds are added up. {shown}"),
            content.for_whom(record, protected),
            ("How sure", _PLUS_MINUS),
            ("Missing", f"Small groups: {threshold}. {record.left_out}"),
        ],
        guarantee=content.guarantee_of(record, protected),
        explanation=content.explanation_of(record, protected, mechanism.assumption, "adds anything in a given round"),
        table=table_of(table, by, ["count"], None),
        table_note=_PLUS_MINUS,
        seen=[],
        reading=[
            "A count estimates the sum over all rounds of the units counted in the group. The noise has as many terms as the"
            " number of the round has set bits.",
            "Protected is what one unit adds in one round; for all rounds of a unit together epsilon adds up.",
        ],
        citation=content.citation_of("Groups", record, " and round"),
        maker=content.maker_of(record),
        charts=lambda: _charts(_over_rounds(table, by, mechanism, history), chart(table, by, None)),
        curve=lambda: None,
        appendix=lambda: [Appendix("The plan", facts)],
    )


def _charts(*charts: Chart | None) -> list[Chart]:
    return [one for one in charts if one is not None]


def _over_rounds(
    table: pa.Table, by: Sequence[str], mechanism: ContinualCounts, history: Sequence[tuple[int, pa.Table]]
) -> Chart | None:
    if table.num_rows == 0 or len(history) < 2:
        return None
    rounds = np.array([number for number, _ in history], np.float64)
    reaches = np.array([mechanism.std_at(number) for number, _ in history])
    counted = [dict(zip(_keys(past, by), numbers(past, "count").tolist(), strict=True)) for _, past in history]
    top = table.slice(0, pictures.COLOURS)
    names = labels([key_text(top, by, row) for row in range(top.num_rows)], 34)
    lines = [
        pictures.Line(label, np.array([counts.get(key, np.nan) for counts in counted]), reaches)
        for label, key in zip(names, _keys(top, by), strict=True)
        if any(key in counts for counts in counted)
    ]
    caption = (
        "Running counts as they were released; the bands reach one standard error to both sides. A line is missing where the"
        f" noisy count was not above the threshold of {mechanism.threshold:,} (grey)."
    )
    picture = pictures.lines(rounds, lines, mechanism.threshold, "round")
    return Chart("The largest groups over the rounds", picture, caption, [line.label for line in lines])


def _keys(table: pa.Table, by: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in by), strict=True))
