"""What a report says, whether it is a page, Markdown or plain text: plain sentences first, then what they rest on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dphist.columns import Unit, not_protected, one_of, unit_in_words
from dphist.publish.record import Record
from dphist.show.charts import Chart
from dphist.show.table import Table
from dphist.words import factor_of, rounded_up

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


def by_words(names: Sequence[str]) -> str:
    """The keys behind what is told of them."""
    return f" by {', '.join(names)}" if names else ""


def counted(unit: Unit | None) -> str:
    """What is counted: units, of which a record names one."""
    if unit is None:
        return "units"
    return (
        f"different values of {unit_in_words(unit)}"
        if isinstance(unit, str)
        else f"different combinations of {unit_in_words(unit)}"
    )


def for_whom(record: Record, protected: str) -> Fact:
    """Whose records were read, and who is protected."""
    read = f"Only records where {record.where} were read" if record.where else "All records were read"
    dropped = ", without those that have no key" if record.null_keys == "drop" else ""
    unit = f"; unit of privacy: {unit_in_words(record.unit)}" if record.unit else ""
    return "For whom", f"{read}{dropped}{unit}. What is protected: {protected}."


def records_of(unit: Unit | None) -> str:
    """What a guarantee protects, by the name of its unit."""
    return f"all records of {'one unit' if unit is None else one_of(unit)}"


def guarantee_of(record: Record, protected: str) -> str:
    """The guarantee in one plain sentence, with what it leaves out and the cautions that it deserves."""
    epsilon, delta = record.epsilon, record.delta
    further = f" plus a probability of {rounded_up(delta)} (delta)" if delta else ""
    plain = (
        f"Adding or removing {protected} changes how likely any result is by at most a factor of"
        f" {factor_of(epsilon).rpartition(' = ')[2]} (epsilon {epsilon:g}){further}."
    )
    _, mark, cautions = record.guarantee.partition("CAUTION: ")
    return " ".join(part for part in (plain, not_protected(record.unit), mark + cautions) if part)


def explanation_of(record: Record, protected: str, assumption: str, takes_part: str = "is in the data") -> list[str]:
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


def citation_of(what: str, record: Record, also: str = "") -> str:
    """A line to cite the table by."""
    unit = f" per {unit_in_words(record.unit)}{also}" if record.unit else ""
    return (
        f"{what}{by_words(record.by)}, released with (ε = {record.epsilon:g}, δ ="
        f" {record.delta:.3g})-differential privacy{unit} by dphist {record.dphist} on {record.created:%Y-%m-%d}."
    )


def maker_of(record: Record) -> str:
    """Who made it, and when."""
    return f"dphist {record.dphist}, {record.created.isoformat(timespec='seconds')}"


def counted_in_words(unit: Unit | None, by: Sequence[str], *, largest: bool = False) -> str:
    """What a count of each group is."""
    listed = " on the list" if largest else ""
    return f"For each {' and '.join(by)}{listed}: how many {counted(unit)} there are. Units are counted, not rows."


def given_that(happened: str) -> str:
    """What counts are where noise decided which groups there are."""
    return (
        f"Counts are estimated given that their groups were {happened}, which noise helped them to; the plain noisy counts are"
        " the column count_noisy of the table file."
    )


def groups_shown(count: int) -> str:
    """How many groups are shown."""
    if count == 0:
        return "No group was released: none was large enough"
    return f"{count:,} {'group is' if count == 1 else 'groups are'} shown"


def capital(words: str) -> str:
    """A sentence from its words."""
    return words[:1].upper() + words[1:]
