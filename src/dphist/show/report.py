"""The words of a report about a release, an answer of SQL, the largest groups or a stream. Every format has the same words.

Plain sentences come first, then numbers and theorems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from dphist.columns import Unit, not_protected, one_of, unit_in_words
from dphist.mechanisms import GroupMechanism
from dphist.planning import Plan
from dphist.planning.describe import compared, facts, rates_in_words, standard_error_in_words, title
from dphist.planning.plan import STD_ERROR
from dphist.run.record import AnswerRecord, Record, ReleaseRecord, StreamRecord, TopKRecord
from dphist.run.strategies import strategy_of
from dphist.run.totals import Estimate
from dphist.show.charts import Chart, chances, chart, histogram, over_rounds
from dphist.show.table import Table, numbers, sized, table_of
from dphist.words import cut, enough, factor_of, percent, rounded_up, with_error

Fact: TypeAlias = tuple[str, str]
"""A label and its sentence."""


@dataclass(frozen=True, slots=True)
class Appendix:
    """A part of a report for experts. The first of `rows` is the head of a table."""

    heading: str
    facts: Sequence[Fact] = ()
    rows: Sequence[Sequence[str]] = ()
    picture: Chart | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A report. Texts are plain, without escapes. Only formats with pictures draw them."""

    title: str
    headline: Sequence[Fact]
    guarantee: str
    explanation: Sequence[str]
    table: Table
    table_note: str
    reading: Sequence[str]
    citation: str
    maker: str
    charts: Callable[[], Sequence[Chart | None]]
    appendix: Callable[[], Sequence[Appendix]]
    curve: Callable[[], Chart | None] = lambda: None
    seen: Sequence[str] = ()
    share: float | None = None
    """The share of all units that are in at least one group shown, if the release paid for it."""


def _content(
    record: Record, assumption: str, what: str, facts: Sequence[str], *, one_round: bool = False, **others: Any
) -> Content:
    """The parts that all reports have in common. facts: three sentences on what is counted, how sure it is, what is missing."""
    epsilon, delta, unit = record.epsilon, record.delta, record.unit
    counted, sure, missing = facts
    read = f"Only records where {record.where} were read" if record.where else "All records were read"
    dropped = ", without those that have no key" if record.null_keys == "drop" else ""
    named = f"; unit of privacy: {unit_in_words(unit)}" if unit else ""
    protected = _protected(unit, one_round=one_round)
    whom = f"{read}{dropped}{named}. What is protected: {protected}."
    further = f" plus a probability of {rounded_up(delta)} (delta)" if delta else ""
    plain = (
        f"Adding or removing {protected} changes how likely any result is by at most a factor of"
        f" {factor_of(epsilon).rpartition(' = ')[2]} (epsilon {epsilon:g}){further}."
    )
    _, mark, cautions = record.guarantee.partition("CAUTION: ")
    return Content(
        headline=[("Counted", counted), ("For whom", whom), ("How sure", sure), ("Missing", missing)],
        guarantee=" ".join(part for part in (plain, not_protected(unit), mark + cautions) if part),
        explanation=_explanation(record, assumption, one_round=one_round),
        citation=_citation(what, record, " and round" if one_round else ""),
        maker=f"dphist {record.dphist}, {record.created.isoformat(timespec='seconds')}",
        **others,
    )


def _protected(unit: Unit | None, *, one_round: bool = False) -> str:
    """What a guarantee protects, by the name of its unit."""
    whose = "one unit" if unit is None else one_of(unit)
    return f"what {whose} adds in one round" if one_round else f"all records of {whose}"


def _explanation(record: Record, assumption: str, *, one_round: bool = False) -> list[str]:
    """The guarantee, first for readers who know nothing of privacy, then to the letter."""
    epsilon, delta = record.epsilon, record.delta
    one, protected = (
        "a unit" if record.unit is None else one_of(record.unit),
        _protected(record.unit, one_round=one_round),
    )
    hidden = "adds anything in a given round" if one_round else "is in the data"
    sure = "all but certain" if epsilon > 20 else f"{rounded_up(100 / (1 + math.exp(-epsilon)), 3)} % sure"
    told = (
        f"Delta, {rounded_up(delta)}, comes on top. In the worst case it is the probability that the table tells everything"
        f" about {protected}."
    )
    return [
        f"Think of two tables, one made with {protected} and one made without. Random noise makes it hard to tell which of"
        " them this is, even for somebody who knows everybody else's records.",
        f"Epsilon says how hard. Somebody who thinks it as likely as not that {one} {hidden} may become at most {sure}"
        f" of it by reading the table{', delta aside' if delta else ''}. No later computation on the table changes that.",
        *([told] if delta else []),
        "Not protected is what is true of many: that a group is large may be learnt, and is meant to be. Every further table"
        " from the same data adds to epsilon and delta.",
        f"To the letter: {record.guarantee}",
        f"This holds provided {assumption}.",
    ]


def _citation(what: str, record: Record, also: str = "") -> str:
    """A line to cite the table by."""
    unit = f" per {unit_in_words(record.unit)}{also}" if record.unit else ""
    return (
        f"{what}{_by_words(record.by)}, released with (ε = {record.epsilon:g}, δ ="
        f" {record.delta:.3g})-differential privacy{unit} by dphist {record.dphist} on {record.created:%Y-%m-%d}."
    )


def _by_words(names: Sequence[str]) -> str:
    return f" by {', '.join(names)}" if names else ""


def _units_of(unit: Unit | None) -> str:
    """The units that are counted, in words."""
    if unit is None:
        return "units"
    return f"different {'values' if isinstance(unit, str) else 'combinations'} of {unit_in_words(unit)}"


def _counted_in_words(unit: Unit | None, by: Sequence[str], *, largest: bool = False) -> str:
    """A sentence on the meaning of counts."""
    listed = " on the list" if largest else ""
    return f"For each {' and '.join(by)}{listed}: how many {_units_of(unit)} there are. Units are counted, not rows."


def _given_that(happened: str) -> str:
    """A sentence on the meaning of counts where noise selected the groups."""
    return (
        f"Counts are estimated given that their groups were {happened}, which noise helped them to; the plain noisy counts are"
        " the column count_noisy of the table file."
    )


def _groups_shown(count: int) -> str:
    if count == 0:
        return "No group was released: none was large enough"
    return f"{count:,} {'group is' if count == 1 else 'groups are'} shown"


def capital(words: str) -> str:
    """The words with a capital letter at their beginning."""
    return words[:1].upper() + words[1:]


_LONGEST: Final = 240
"""The most letters of a statement at the head of a report. All of it is further down."""

_HEAD = ("mechanism", "noise std", "threshold", "95 % released at", "against the plan")


def content_of(table: pa.Table, record: ReleaseRecord) -> Content:
    """The report of a release."""
    plan, by, level = record.plan, record.by, record.intervals
    what = "Counts" if plan.mechanism.counted else "Keys"
    note = standard_error_in_words(plan.mechanism) if level is None else f"With {percent(level)} % intervals."
    return _content(
        record,
        plan.mechanism.assumption,
        what,
        [_counted(table, record), _sure(table, plan, level), _missing(record)],
        title=f"Private {what.lower()}{_by_words(by)}",
        table=table_of(table, by, plan.value_names, level),
        table_note=note if plan.mechanism.counted else "Keys alone, in their order.",
        reading=_reading(record),
        charts=lambda: [chart(table, by, level)],
        appendix=lambda: _appendix(table, record),
        curve=lambda: chances(plan.mechanism) if by else None,
        seen=_seen(record) if by else [],
        share=_share(record),
    )


def content_of_answer(table: pa.Table, record: AnswerRecord, privates: Sequence[pa.Table]) -> Content:
    """The report of an answer and of the private tables behind it."""
    first, *others = [content_of(*one) for one in zip(privates, record.releases, strict=True)]
    names = table.column_names
    values = [name for name in names if name + STD_ERROR in names]
    keys = [name for name in names if name not in values and name.removesuffix(STD_ERROR) not in values]

    def appendix() -> Sequence[Appendix]:
        steps = [Appendix("The statement", [("", record.statement)]), Appendix("The outer query", [("", record.outer)])]
        return [*steps, *first.appendix(), *(part for other in others for part in other.appendix())]

    if others:  # explanation and citation have the cost of all private tables
        assumptions = dict.fromkeys(release.plan.mechanism.assumption for release in record.releases)
        explanation = _explanation(record, ", and ".join(assumptions))
        first = replace(first, explanation=explanation, citation=_citation("Private tables", record))
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
    groups = " and ".join(sized(one.num_rows) for one in privates)
    tables = f"a private table of {groups}" if len(privates) == 1 else f"private tables of {groups}"
    return f"The answer has {sized(table.num_rows, 'row')}. It is computed from {tables}, described below."


def _counted(table: pa.Table, record: ReleaseRecord) -> str:
    units = _units_of(record.unit)
    if not record.by:
        return f"How many {units} there are, all units together; units, not rows."
    shown = _groups_shown(table.num_rows)
    if not record.plan.mechanism.counted:
        return f"Which {' and '.join(record.by)} have enough {units}; nothing was counted. {shown}."
    return f"{_counted_in_words(record.unit, record.by)} {shown}."


def _sure(table: pa.Table, plan: Plan, level: float | None) -> str:
    if not plan.mechanism.counted:
        return f"{capital(dict(rates_in_words(plan.mechanism))['spurious'])}."
    if level is not None:
        covers = "covers what would stand there without noise"
        if plan.mechanism.in_rounds:
            covers = "is made to cover the true value, noise and estimates included,"
        missing = " Whom a count leaves out is in none of them." if strategy_of(plan).left_out else ""
        return f"Each interval {covers} with {percent(level)} % probability.{missing}"
    typical = ""
    if table.num_rows:
        error = float(np.median(numbers(table, "count" + STD_ERROR)))
        typical = f" On a count it is about {with_error(0.0, error).partition('± ')[2]}."
    return f"{standard_error_in_words(plan.mechanism)}{typical}"


def _missing(record: ReleaseRecord) -> str:
    mechanism, words = record.plan.mechanism, "No unit with a record that was read."
    if record.by and mechanism.threshold is None:
        words = "No group of the public list."
    elif record.by:
        size = "" if record.plan.mechanism.counted else f" ({mechanism.size_in_words})"
        words = f"Small groups: {mechanism.shown_in_words}{size}."
    return " ".join([words, *_units_in_all(record), *record.without_value, record.left_out]).rstrip()


def _sizes(mechanism: GroupMechanism) -> tuple[str, str]:
    """The sizes of groups that are released with 50 % and with 95 % probability."""
    return enough(mechanism.count_released_with(0.5)), enough(mechanism.count_released_with(0.95))


def _units_in_all(record: ReleaseRecord) -> list[str]:
    """The number of units, and of units in no group shown; nothing if the release did not pay for it."""
    total, other = record.total_units, record.other_units
    if total is None:
        return []
    left = "" if other is None else f", of whom about {_with_error(other)} are in none of the groups shown"
    return [f"There are about {_with_error(total)} units in all{left}."]


def _with_error(estimate: Estimate) -> str:
    return f"{estimate.value:,.0f} ± {estimate.std_error:,.0f}"


def _share(record: ReleaseRecord) -> float | None:
    total, part = record.total_units, record.covered_units
    if total is None or part is None or total.value <= 0:
        return None
    return min(max(part.value / total.value, 0.0), 1.0)


def _seen(record: ReleaseRecord) -> list[str]:
    """Which groups could be seen, and how many people are in none of them."""
    plan, mechanism, words = record.plan, record.plan.mechanism, []
    if (share := _share(record)) is not None and record.covered_units is not None:
        covered = _with_error(record.covered_units)
        words.append(f"About {100 * share:.0f} % of the units are in at least one of the groups shown: {covered}.")
    words += _units_in_all(record)
    if mechanism.threshold is None:
        return [*words, "All groups of the public list are released."]
    half, most = _sizes(mechanism)
    last = f"A group is released with 50 % probability if it has {half} units, with 95 % if it has {most}."
    if not plan.mechanism.counted:
        last = f"Of groups of {half} units 50 % are released, of {most} units 95 % ({mechanism.size_in_words})."
    elif mechanism.in_rounds:
        last = f"{capital(mechanism.shown_in_words)}."
    return [*words, last]


def _reading(record: ReleaseRecord) -> list[str]:
    if not record.plan.mechanism.counted:
        return [f"{capital(record.estimand)}."]
    words = [f"A count estimates {record.estimand}."]
    words += [f"{one['name']} estimates {one['estimand']}." for one in record.aggregates]
    words += map(str, record.bounds)
    if record.plan.mechanism.hides_small_counts:
        words.append(_given_that("released"))
    return words


def _appendix(table: pa.Table, record: ReleaseRecord) -> list[Appendix]:
    plan, elsewhere = record.plan, ("guarantee", "provided")
    sentences = [("mechanism", title(plan.mechanism)), *facts(plan.request, plan.mechanism, record.unit)]
    _, *rows = compared(plan.request, plan.mechanism, plan.alternatives, "chosen", "–")
    found = [
        Appendix("What was done", [("", record.summary)]),
        Appendix("The plan", [fact for fact in sentences if fact[0] not in elsewhere]),
        Appendix("What the alternatives would have cost", rows=[_HEAD, *(row[:3] + row[4:] for row in rows)]),
    ]
    if not plan.mechanism.counted or table.num_rows < 2:
        return found
    return [*found, Appendix("All released counts", picture=histogram(numbers(table, "count")))]


_PLUS_MINUS = "± is one standard error of the noise."


def content_of_largest(table: pa.Table, record: TopKRecord, *, complete: bool) -> Content:
    """The report of a list of the largest groups."""
    plan, by = record.plan, record.by
    ranked = plan.mechanism.noise_std is None
    ended = "" if complete else " The list ended early: no other group was clearly larger than the rest."
    missing = "A group that is missing may be nearly as large as the last one."
    counts, sure = _counted_in_words(record.unit, by, largest=True), _PLUS_MINUS
    reading = f"{record.left_out or 'A count estimates the number of units in the group.'} {_given_that('listed')}"
    if ranked:
        counts = f"Which {' and '.join(by)} have most {_units_of(record.unit)}, in their order. Units count, not rows."
        sure = "The list is an order without counts; noise may have exchanged groups of similar size."
        reading = "The list is an order without counts."
    counted = f"{counts} {_groups_shown(table.num_rows)}; at most {plan.k:,} were asked for."
    return _content(
        record,
        plan.mechanism.assumption,
        "Groups",
        [counted, sure, f"{missing}{ended} {record.left_out}".rstrip()],
        title=f"{'The largest groups, ranked,' if ranked else 'Private counts of the largest groups'}{_by_words(by)}",
        table=table_of(table, ["rank", *by], [], None) if ranked else table_of(table, by, ["count"], None),
        table_note="Ranks, largest first." if ranked else _PLUS_MINUS,
        reading=[reading, missing],
        charts=lambda: [] if ranked else [chart(table, by, None)],
        appendix=lambda: [Appendix("The plan", plan.mechanism.facts(plan.k))],
    )


def content_of_running(
    table: pa.Table, record: StreamRecord, facts: Sequence[Fact], history: Sequence[tuple[int, pa.Table]]
) -> Content:
    """The report of running counts: the largest groups over the rounds, and the counts now."""
    by, mechanism = record.by, record.mechanism
    shown = f"{_groups_shown(table.num_rows)}; round {record.round:,} of {mechanism.rounds:,}."
    counted = f"{_counted_in_words(record.unit, by)} The rounds are added up. {shown}"
    return _content(
        record,
        mechanism.assumption,
        "Groups",
        [counted, _PLUS_MINUS, f"Small groups: {dict(facts)['threshold']}. {record.left_out}"],
        one_round=True,
        title=f"Private running counts{_by_words(by)}",
        table=table_of(table, by, ["count"], None),
        table_note=_PLUS_MINUS,
        reading=[
            "A count estimates the sum over all rounds of the units counted in the group. The noise has as many terms as the"
            " number of the round has set bits.",
            "Protected is what one unit adds in one round; for all rounds of a unit together epsilon adds up.",
        ],
        charts=lambda: [over_rounds(table, by, mechanism, history), chart(table, by, None)],
        appendix=lambda: [Appendix("The plan", facts)],
    )
