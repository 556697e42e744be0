"""What a report says of a release, an answer of SQL, the largest groups or a stream, whatever it is written as.

Plain sentences come first, then what they rest on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dphist.columns import Unit, not_protected, one_of, unit_in_words
from dphist.mechanisms import ContinualCounts, GroupMechanism
from dphist.planning import Plan
from dphist.planning.counted import left_out
from dphist.planning.describe import compared, facts, rates_in_words, standard_error_in_words, title
from dphist.planning.plan import STD_ERROR
from dphist.run.record import AnswerRecord, Record, ReleaseRecord, StreamRecord, TopKRecord
from dphist.run.totals import Estimate
from dphist.show import charts
from dphist.show.charts import Chart, chart
from dphist.show.table import Table, key_text, labels, numbers, table_of
from dphist.words import cut, enough, factor_of, percent, rounded_up, with_error

Fact: TypeAlias = tuple[str, str]
"""A label and its sentence."""


@dataclass(frozen=True, slots=True)
class Appendix:
    """What experts ask for, as (heading, labelled sentences, table with its head first, picture with its caption)."""

    heading: str
    facts: Sequence[Fact] = ()
    rows: Sequence[Sequence[str]] = ()
    picture: Chart | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A report. Texts are plain, nothing in them is escaped; pictures are drawn only where they are looked at."""

    title: str
    headline: Sequence[Fact]
    guarantee: str
    explanation: Sequence[str]
    table: Table
    table_note: str
    seen: Sequence[str]
    reading: Sequence[str]
    citation: str
    maker: str
    charts: Callable[[], Sequence[Chart]]
    curve: Callable[[], Chart | None]
    appendix: Callable[[], Sequence[Appendix]]
    share: float | None = None
    """Of all units, those in at least one group that is shown, where it was paid for."""


def _by_words(names: Sequence[str]) -> str:
    """The keys behind what is told of them."""
    return f" by {', '.join(names)}" if names else ""


def _counted(unit: Unit | None) -> str:
    """What is counted: units, of which a record names one."""
    if unit is None:
        return "units"
    return (
        f"different values of {unit_in_words(unit)}"
        if isinstance(unit, str)
        else f"different combinations of {unit_in_words(unit)}"
    )


def _for_whom(record: Record, protected: str) -> Fact:
    """Whose records were read, and who is protected."""
    read = f"Only records where {record.where} were read" if record.where else "All records were read"
    dropped = ", without those that have no key" if record.null_keys == "drop" else ""
    unit = f"; unit of privacy: {unit_in_words(record.unit)}" if record.unit else ""
    return "For whom", f"{read}{dropped}{unit}. What is protected: {protected}."


def _records_of(unit: Unit | None) -> str:
    """What a guarantee protects, by the name of its unit."""
    return f"all records of {'one unit' if unit is None else one_of(unit)}"


def _guarantee_of(record: Record, protected: str) -> str:
    """The guarantee in one plain sentence, with what it leaves out and the cautions that it deserves."""
    epsilon, delta = record.epsilon, record.delta
    further = f" plus a probability of {rounded_up(delta)} (delta)" if delta else ""
    plain = (
        f"Adding or removing {protected} changes how likely any result is by at most a factor of"
        f" {factor_of(epsilon).rpartition(' = ')[2]} (epsilon {epsilon:g}){further}."
    )
    _, mark, cautions = record.guarantee.partition("CAUTION: ")
    return " ".join(part for part in (plain, not_protected(record.unit), mark + cautions) if part)


def _explanation_of(record: Record, protected: str, assumption: str, takes_part: str = "is in the data") -> list[str]:
    """The guarantee for readers who never heard of one, and then to the letter. What is hidden: that a unit `takes_part`."""
    epsilon, delta = record.epsilon, record.delta
    one = "a unit" if record.unit is None else one_of(record.unit)
    sure = "all but certain" if epsilon > 20 else f"{rounded_up(100 / (1 + math.exp(-epsilon)), 3)} % sure"
    paragraphs = [
        f"Think of two tables, one made with {protected} and one made without. Random noise makes it hard to tell which of"
        " them this is, even for somebody who knows everybody else's records.",
        f"Epsilon says how hard. Somebody who thinks it as likely as not that {one} {takes_part} may become at most {sure}"
        f" of it by reading the table{', delta aside' if delta else ''}. No later computation on the table changes that.",
    ]
    if delta:
        paragraphs.append(
            f"Delta, {rounded_up(delta)}, comes on top. In the worst case it is the probability that the table tells everything"
            f" about {protected}."
        )
    return [
        *paragraphs,
        "Not protected is what is true of many: that a group is large may be learnt, and is meant to be. Every further table"
        " from the same data adds to epsilon and delta.",
        f"To the letter: {record.guarantee}",
        f"This holds provided {assumption}.",
    ]


def _citation_of(what: str, record: Record, also: str = "") -> str:
    """A line to cite the table by."""
    unit = f" per {unit_in_words(record.unit)}{also}" if record.unit else ""
    return (
        f"{what}{_by_words(record.by)}, released with (ε = {record.epsilon:g}, δ ="
        f" {record.delta:.3g})-differential privacy{unit} by dphist {record.dphist} on {record.created:%Y-%m-%d}."
    )


def _maker_of(record: Record) -> str:
    """Who made it, and when."""
    return f"dphist {record.dphist}, {record.created.isoformat(timespec='seconds')}"


def _counted_in_words(unit: Unit | None, by: Sequence[str], *, largest: bool = False) -> str:
    """What a count of each group is."""
    listed = " on the list" if largest else ""
    return f"For each {' and '.join(by)}{listed}: how many {_counted(unit)} there are. Units are counted, not rows."


def _given_that(happened: str) -> str:
    """What counts are where noise decided which groups there are."""
    return (
        f"Counts are estimated given that their groups were {happened}, which noise helped them to; the plain noisy counts are"
        " the column count_noisy of the table file."
    )


def _groups_shown(count: int) -> str:
    """How many groups are shown."""
    if count == 0:
        return "No group was released: none was large enough"
    return f"{count:,} {'group is' if count == 1 else 'groups are'} shown"


def capital(words: str) -> str:
    """A sentence from its words."""
    return words[:1].upper() + words[1:]


_LONGEST: Final = 240
"""Letters of a statement at the head of a report, which has all of it further down."""

_HEAD = ("mechanism", "noise std", "threshold", "95 % released at", "against the plan")


def content_of(table: pa.Table, record: ReleaseRecord) -> Content:
    """Everything that is told of a release."""
    plan, by, level, protected = record.plan, record.by, record.intervals, _records_of(record.unit)
    what = "Keys" if plan.request.keys_only else "Counts"
    heading = f"Private {what.lower()}{_by_words(by)}"
    return Content(
        title=heading,
        headline=[
            ("Counted", _counted_groups(table, record)),
            _for_whom(record, protected),
            ("How sure", _sure(table, plan, level)),
            ("Missing", _missing(record)),
        ],
        guarantee=_guarantee_of(record, protected),
        explanation=_explanation_of(record, protected, plan.mechanism.assumption),
        table=table_of(table, by, plan.value_names, level),
        table_note=_note(plan, level),
        seen=_seen(record),
        reading=_reading(record),
        citation=_citation_of(what, record),
        maker=_maker_of(record),
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
        explanation = _explanation_of(record, _records_of(record.unit), ", and ".join(assumptions))
        first = replace(first, explanation=explanation, citation=_citation_of("Private tables", record))
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


def _counted_groups(table: pa.Table, record: ReleaseRecord) -> str:
    units = _counted(record.unit)
    if not record.by:
        return f"How many {units} there are, all units together; units, not rows."
    shown = _groups_shown(table.num_rows)
    if record.plan.request.keys_only:
        return f"Which {' and '.join(record.by)} have enough {units}; nothing was counted. {shown}."
    return f"{_counted_in_words(record.unit, record.by)} {shown}."


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
    grid = charts.axis(1.15 * mechanism.count_released_with(0.999), 120)
    points = [(mechanism.count_released_with(p), p) for p in (0.5, 0.95)]
    heights = np.array([mechanism.release_probability(x) for x in grid])
    weight = "the weight of its units" if mechanism.in_rounds else "its true number of units"
    caption = f"The probability that a group is released, by {weight}."
    return Chart("", charts.curve(grid, heights, points, "The probability that a group is released"), caption)


def _shares_released(mechanism: GroupMechanism) -> Chart:
    """Of keys alone: up to sizes of which hardly any is lost."""
    grid = charts.axis(4 * mechanism.count_released_with(0.5), 31)  # each of them is an integral
    points = [(x, 1 - mechanism.share_lost(x)) for x in map(mechanism.count_released_with, (0.5, 0.95))]
    heights = np.array([1 - mechanism.share_lost(x) for x in grid])
    caption = f"The share of groups that are released, by their units ({mechanism.size_in_words})."
    return Chart("", charts.curve(grid, heights, points, "The share of groups that are released"), caption)


def _reading(record: ReleaseRecord) -> list[str]:
    if record.plan.request.keys_only:
        return [f"{capital(record.estimand)}."]
    words = [f"A count estimates {record.estimand}."]
    words += [f"{one['name']} estimates {one['estimand']}." for one in record.aggregates]
    words += map(str, record.bounds)
    if record.plan.mechanism.hides_small_counts:
        words.append(_given_that("released"))
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
    picture = charts.histogram(numbers(table, "count"))
    return [
        *found,
        Appendix("All released counts", picture=Chart("", picture, "How many released groups have which count.")),
    ]


_PLUS_MINUS = "± is one standard error of the noise."


def content_of_largest(table: pa.Table, record: TopKRecord, *, complete: bool) -> Content:
    """Everything that is told of the largest groups."""
    plan, by, protected = record.plan, record.by, _records_of(record.unit)
    ranked = plan.mechanism.noise_std is None
    shown = f"{_groups_shown(table.num_rows)}; at most {plan.k:,} were asked for."
    counts = _counted_in_words(record.unit, by, largest=True)
    if ranked:
        units = _counted(record.unit)
        counts = f"Which {' and '.join(by)} have most {units}, in their order. Units count, not rows."
    ended = "" if complete else " The list ended early: no other group was clearly larger than the rest."
    missing = "A group that is missing may be nearly as large as the last one."
    reading = (
        "The list is an order without counts."
        if ranked
        else f"{record.left_out or 'A count estimates the number of units in the group.'} {_given_that('listed')}"
    )
    return Content(
        title=f"{'The largest groups, ranked,' if ranked else 'Private counts of the largest groups'}{_by_words(by)}",
        headline=[
            ("Counted", f"{counts} {shown}"),
            _for_whom(record, protected),
            ("How sure", "The list is an order without counts; noise may have exchanged groups of similar size."
             if ranked else _PLUS_MINUS),
            ("Missing", " ".join(part for part in (f"{missing}{ended}", record.left_out) if part)),
        ],
        guarantee=_guarantee_of(record, protected),
        explanation=_explanation_of(record, protected, plan.mechanism.assumption),
        table=table_of(table, ["rank", *by], [], None) if ranked else table_of(table, by, ["count"], None),
        table_note="Ranks, largest first." if ranked else _PLUS_MINUS,
        seen=[],
        reading=[reading, missing],
        citation=_citation_of("Groups", record),
        maker=_maker_of(record),
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
    protected = _records_of(unit).replace("all records of", "what") + " adds in one round"
    shown = f"{_groups_shown(table.num_rows)}; round {record.round:,} of {mechanism.rounds:,}."
    threshold = dict(facts)["threshold"]
    return Content(
        title=f"Private running counts{_by_words(by)}",
        headline=[
            ("Counted", f"{_counted_in_words(unit, by)} The rounds are added up. {shown}"),
            _for_whom(record, protected),
            ("How sure", _PLUS_MINUS),
            ("Missing", f"Small groups: {threshold}. {record.left_out}"),
        ],
        guarantee=_guarantee_of(record, protected),
        explanation=_explanation_of(record, protected, mechanism.assumption, "adds anything in a given round"),
        table=table_of(table, by, ["count"], None),
        table_note=_PLUS_MINUS,
        seen=[],
        reading=[
            "A count estimates the sum over all rounds of the units counted in the group. The noise has as many terms as the"
            " number of the round has set bits.",
            "Protected is what one unit adds in one round; for all rounds of a unit together epsilon adds up.",
        ],
        citation=_citation_of("Groups", record, " and round"),
        maker=_maker_of(record),
        charts=lambda: _charts(_over_rounds(table, by, mechanism, history), chart(table, by, None)),
        curve=lambda: None,
        appendix=lambda: [Appendix("The plan", facts)],
    )


def _charts(*found: Chart | None) -> list[Chart]:
    return [one for one in found if one is not None]


def _over_rounds(
    table: pa.Table, by: Sequence[str], mechanism: ContinualCounts, history: Sequence[tuple[int, pa.Table]]
) -> Chart | None:
    if table.num_rows == 0 or len(history) < 2:
        return None
    rounds = np.array([number for number, _ in history], np.float64)
    reaches = np.array([mechanism.std_at(number) for number, _ in history])
    counted = [dict(zip(_keys(past, by), numbers(past, "count").tolist(), strict=True)) for _, past in history]
    top = table.slice(0, charts.COLOURS)
    names = labels([key_text(top, by, row) for row in range(top.num_rows)], 34)
    lines = [
        charts.Line(label, np.array([counts.get(key, np.nan) for counts in counted]), reaches)
        for label, key in zip(names, _keys(top, by), strict=True)
        if any(key in counts for counts in counted)
    ]
    caption = (
        "Running counts as they were released; the bands reach one standard error to both sides. A line is missing where the"
        f" noisy count was not above the threshold of {mechanism.threshold:,} (grey)."
    )
    picture = charts.lines(rounds, lines, mechanism.threshold, "round")
    return Chart("The largest groups over the rounds", picture, caption, [line.label for line in lines])


def _keys(table: pa.Table, by: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in by), strict=True))
