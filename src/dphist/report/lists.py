"""The reports of the largest groups and of running counts, in the look of a release's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.mechanisms import ContinualCounts, Ranked
from dphist.planning.top_k import TopKPlan
from dphist.report import page, svg

_LINES = 6


def largest(table: pa.Table, plan: TopKPlan, metadata: dict[str, Any], *, complete: bool) -> str:
    """The report of the largest groups, with counts or as a ranked list."""
    by = list(metadata["by"])
    ranked = isinstance(plan.mechanism, Ranked)
    title = f"{'The largest groups, ranked,' if ranked else 'Private counts of the largest groups'} by {', '.join(by)}"
    ended = "" if complete else "<p>The list ended early: no other group was clearly larger than the rest.</p>"
    values: list[str] = [] if ranked else ["count"]
    keys = ["rank", *by] if ranked else by
    what = (
        "The list is an order without counts."
        if ranked
        else "A count estimates the number of units in the group; ± is one standard error of the noise."
    )
    body = [
        f"<h1>{page.text(title)}</h1>",
        f'<p class="lead">{_headline(table, metadata, f"at most {plan.k:,} asked for")}</p>',
        page.guarantee(metadata),
        page.section("The groups", "" if ranked else page.bars(table, by) + ended),
        page.section("The plan", _facts(plan.facts())),
        page.section("The released table", page.rows(table, keys, values) + (ended if ranked else "")),
        _reading(metadata, f"{what} A group that is missing may be nearly as large as the last one."),
        page.footer(metadata),
    ]
    return page.document(title, body)


def running(
    table: pa.Table,
    made: ContinualCounts,
    metadata: dict[str, Any],
    facts: Sequence[tuple[str, str]],
    history: Sequence[tuple[int, pa.Table]],
) -> str:
    """The report of running counts: the largest groups over the rounds, and the counts now."""
    by = list(metadata["by"])
    title = f"Private running counts by {', '.join(by)}"
    said = f"round {metadata['round']:,} of {made.rounds:,}"
    body = [
        f"<h1>{page.text(title)}</h1>",
        f'<p class="lead">{_headline(table, metadata, said)}</p>',
        page.guarantee(metadata),
        page.section("The largest groups over the rounds", _over_rounds(table, by, made, history)),
        page.section("Counts now", page.bars(table, by)),
        page.section("The plan", _facts(facts)),
        page.section("The released table", page.rows(table, by, ["count"])),
        _reading(
            metadata,
            "A count estimates the sum over all rounds of the units counted in the group; ± is one standard error of the"
            " noise, which has as many terms as the number of the round has set bits. Protected is what one unit adds"
            " in one round; for all rounds of a unit together epsilon adds up.",
            " and round",
        ),
        page.footer(metadata),
    ]
    return page.document(title, body)


def _over_rounds(
    table: pa.Table, by: Sequence[str], made: ContinualCounts, history: Sequence[tuple[int, pa.Table]]
) -> str:
    if table.num_rows == 0 or len(history) < 2:
        return ""
    rounds = np.array([number for number, _ in history], np.float64)
    reaches = np.array([1.96 * made.std_at(number) for number, _ in history])
    key = _keys(by)
    counted = [dict(zip(key(past), page.numbers(past, "count").tolist(), strict=True)) for _, past in history]
    top = table.slice(0, _LINES)
    drawn = [
        svg.Line(page.label(top, by, row), np.array([counts.get(name, np.nan) for counts in counted]), reaches)
        for row, name in enumerate(key(top))
    ]
    picture = svg.lines(rounds, drawn, made.threshold, f"threshold {made.threshold:,}", "round")
    caption = (
        "Running counts as they were released; the bands are ±1.96 standard errors of the noise. A line is missing where the"
        f" noisy count was not above the threshold of {made.threshold:,} (grey)."
    )
    return page.figure(picture, caption)


def _keys(by: Sequence[str]) -> Callable[[pa.Table], list[tuple[Any, ...]]]:
    return lambda table: list(zip(*(table.column(name).to_pylist() for name in by), strict=True))


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return page.described([(name, page.capital(words)) for name, words in facts])


def _headline(table: pa.Table, metadata: dict[str, Any], said: str) -> str:
    groups = f"{table.num_rows:,} {'group' if table.num_rows == 1 else 'groups'} released; {said}"
    unit = f"; unit of privacy: {page.text(metadata['unit'])}" if metadata["unit"] else ""
    where = f"; records where <code>{page.text(metadata['where'])}</code>" if metadata["where"] else ""
    return f"{groups}{unit}; ε = {metadata['epsilon']:g}, δ = {metadata['delta']:g}{where}"


def _reading(metadata: dict[str, Any], estimand: str, also: str = "") -> str:
    unit = f" per {metadata['unit']}{also}" if metadata["unit"] else ""
    words = (
        f"Groups by {', '.join(metadata['by'])}, released with (ε = {metadata['epsilon']:g}, δ = {metadata['delta']:g})-"
        f"differential privacy{unit} by dphist {metadata['dphist']} on {metadata['created'][:10]}."
    )
    return page.section(
        "How to read and cite this",
        f"<p>{page.text(estimand)}</p><p>This holds provided {page.text(metadata['assumption'])}.</p>"
        f"<p>Cite as: <em>{page.text(words)}</em></p>",
    )
