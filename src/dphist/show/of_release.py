"""The reports of a release (counts by a key, keys alone, one number for all units together), and of an answer of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from dphist.mechanisms import GroupMechanism
from dphist.planning import Plan
from dphist.planning.counted import left_out
from dphist.planning.describe import compared, facts, rates_in_words, standard_error_in_words, title
from dphist.planning.plan import STD_ERROR
from dphist.publish.record import AnswerRecord, ReleaseRecord
from dphist.publish.totals import Estimate
from dphist.show import content, pictures
from dphist.show.charts import Chart, chart
from dphist.show.content import Appendix, Content, Fact, capital
from dphist.show.table import numbers, table_of
from dphist.words import cut, enough, percent, with_error

_LONGEST: Final = 240
"""Letters of a statement at the head of a report, which has all of it further down."""

_HEAD = ("mechanism", "noise std", "threshold", "95 % released at", "against the plan")


def content_of(table: pa.Table, record: ReleaseRecord) -> Content:
    """Everything that is told of a release."""
    plan, by, level, protected = record.plan, record.by, record.intervals, content.records_of(record.unit)
    what = "Keys" if plan.request.keys_only else "Counts"
    heading = f"Private {what.lower()}{content.by_words(by)}"
    return Content(
        title=heading,
        headline=[
            ("Counted", _counted(table, record)),
            content.for_whom(record, protected),
            ("How sure", _sure(table, plan, level)),
            ("Missing", _missing(record)),
        ],
        guarantee=content.guarantee_of(record, protected),
        explanation=content.explanation_of(record, protected, plan.mechanism.assumption),
        table=table_of(table, by, plan.value_names, level),
        table_note=_note(plan, level),
        seen=_seen(record),
        reading=_reading(record),
        citation=content.citation_of(what, record),
        maker=content.maker_of(record),
        charts=lambda: [one for one in (chart(table, by, level),) if one is not None],
        curve=lambda: _curve(plan) if by else None,
        appendix=lambda: _appendix(table, record),
        share=_share(record),
    )


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
        explanation = content.explanation_of(record, content.records_of(record.unit), ", and ".join(assumptions))
        first = replace(first, explanation=explanation, citation=content.citation_of("Private tables", record))
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


def _counted(table: pa.Table, record: ReleaseRecord) -> str:
    units = content.counted(record.unit)
    if not record.by:
        return f"How many {units} there are, all units together; units, not rows."
    shown = content.groups_shown(table.num_rows)
    if record.plan.request.keys_only:
        return f"Which {' and '.join(record.by)} have enough {units}; nothing was counted. {shown}."
    return f"{content.counted_in_words(record.unit, record.by)} {shown}."


def _sure(table: pa.Table, plan: Plan, level: float | None) -> str:
    if plan.request.keys_only:
        return f"{capital(dict(rates_in_words(plan.mechanism))['spurious'])}."
    if level is not None:
        covers = "covers what would stand there without noise"
        if plan.mechanism.in_rounds:
            covers = "is made to cover the true value, noise and estimates included,"
        missing = " Whom a count leaves out is in none of them." if left_out(plan) else ""
        return f"Each interval {covers} with {percent(level)} % probability.{missing}"
    typical = ""
    if table.num_rows:
        typical = f" On a count it is about {_median_error(table)}."
    return f"{standard_error_in_words(plan.mechanism)}{typical}"


def _median_error(table: pa.Table) -> str:
    return with_error(0.0, float(np.median(numbers(table, "count" + STD_ERROR)))).partition("± ")[2]


def _note(plan: Plan, level: float | None) -> str:
    if plan.request.keys_only:
        return "Keys alone, in their order."
    return standard_error_in_words(plan.mechanism) if level is None else f"With {percent(level)} % intervals."


def _missing(record: ReleaseRecord) -> str:
    parts = ["No unit with a record that was read."]
    if record.by:
        parts = [_lost(record.plan.mechanism, keys_only=record.plan.request.keys_only)]
    if (words := _units_in_all(record)) is not None:
        parts.append(words)
    return " ".join(part for part in (*parts, *record.without_value, record.left_out) if part)


def _lost(mechanism: GroupMechanism, *, keys_only: bool) -> str:
    if mechanism.threshold is None:
        return "No group of the public list."
    half, most = (enough(mechanism.count_released_with(p)) for p in (0.5, 0.95))
    alone = " that are in no other" if mechanism.in_rounds else ""
    size = f" ({mechanism.size_in_words})" if keys_only else ""
    return f"Small groups: one of {half} units{alone} is shown with 50 % probability, one of {most} with 95 %{size}."


def _units_in_all(record: ReleaseRecord) -> str | None:
    """How many units there are, and how many of them the table does not show at all."""
    total, other = record.total_units, record.other_units
    if total is None:
        return None
    words = f"There are about {_with_error(total)} units in all"
    return (
        f"{words}."
        if other is None
        else f"{words}, of whom about {_with_error(other)} are in none of the groups shown."
    )


def _with_error(estimate: Estimate) -> str:
    return f"{estimate.value:,.0f} ± {estimate.std_error:,.0f}"


def _share(record: ReleaseRecord) -> float | None:
    total, part = record.total_units, record.covered_units
    if total is None or part is None or total.value <= 0:
        return None
    return min(max(part.value / total.value, 0.0), 1.0)


def _seen(record: ReleaseRecord) -> list[str]:
    """Which groups could be seen, and how many people that leaves out."""
    if not record.by:
        return []
    words = []
    if (share := _share(record)) is not None and record.covered_units is not None:
        covered = _with_error(record.covered_units)
        words.append(f"About {100 * share:.0f} % of the units are in at least one of the groups shown: {covered}.")
    if (total := _units_in_all(record)) is not None:
        words.append(total)
    plan, mechanism = record.plan, record.plan.mechanism
    if mechanism.threshold is None:
        return [*words, "All groups of the public list are released."]
    half, most = (enough(mechanism.count_released_with(p)) for p in (0.5, 0.95))
    if plan.request.keys_only:
        return [
            *words,
            f"Of groups of {half} units 50 % are released, of {most} units 95 % ({mechanism.size_in_words}).",
        ]
    if mechanism.in_rounds:
        return [
            *words,
            "The probability that a group is selected grows with the weight that its units give it, which is their number if"
            f" they have no other undecided group: 50 % at {half}, 95 % at {most}.",
        ]
    return [*words, f"A group is released with 50 % probability if it has {half} units, with 95 % if it has {most}."]


def _curve(plan: Plan) -> Chart | None:
    mechanism = plan.mechanism
    if mechanism.threshold is None:
        return None
    if plan.request.keys_only:
        return _shares_released(mechanism)
    grid = pictures.grid(1.15 * mechanism.count_released_with(0.999), 120)
    points = [(mechanism.count_released_with(p), p) for p in (0.5, 0.95)]
    heights = np.array([mechanism.release_probability(x) for x in grid])
    weight = "the weight of its units" if mechanism.in_rounds else "its true number of units"
    caption = f"The probability that a group is released, by {weight}."
    return Chart("", pictures.curve(grid, heights, points, "The probability that a group is released"), caption)


def _shares_released(mechanism: GroupMechanism) -> Chart:
    """Of keys alone: up to sizes of which hardly any is lost."""
    grid = pictures.grid(4 * mechanism.count_released_with(0.5), 31)  # each of them is an integral
    points = [(x, 1 - mechanism.share_lost(x)) for x in map(mechanism.count_released_with, (0.5, 0.95))]
    heights = np.array([1 - mechanism.share_lost(x) for x in grid])
    caption = f"The share of groups that are released, by their units ({mechanism.size_in_words})."
    return Chart("", pictures.curve(grid, heights, points, "The share of groups that are released"), caption)


def _reading(record: ReleaseRecord) -> list[str]:
    if record.plan.request.keys_only:
        return [f"{capital(record.estimand)}."]
    words = [f"A count estimates {record.estimand}."]
    words += [f"{one['name']} estimates {one['estimand']}." for one in record.aggregates]
    words += map(str, record.bounds)
    if record.plan.mechanism.hides_small_counts:
        words.append(content.given_that("released"))
    return words


def _appendix(table: pa.Table, record: ReleaseRecord) -> list[Appendix]:
    plan, plain = record.plan, ("guarantee", "provided")
    sentences: list[Fact] = [
        ("mechanism", title(plan.mechanism)),
        *facts(plan.request, plan.mechanism, record.unit),
    ]
    _, *rows = compared(plan.request, plan.mechanism, plan.alternatives, "chosen", "–")
    found = [
        Appendix("What was done", [("", record.summary)]),
        Appendix("The plan", [fact for fact in sentences if fact[0] not in plain]),
        Appendix("What the alternatives would have cost", rows=[_HEAD, *(row[:3] + row[4:] for row in rows)]),
    ]
    if plan.request.keys_only or table.num_rows < 2:
        return found
    picture = pictures.histogram(numbers(table, "count"))
    return [
        *found,
        Appendix("All released counts", picture=Chart("", picture, "How many released groups have which count.")),
    ]
