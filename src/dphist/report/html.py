"""Reports: one HTML file each, nothing loaded from anywhere, rendered from the published objects themselves."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.columns import unit_in_words
from dphist.mechanisms import ContinualCounts, GroupMechanism
from dphist.planning import Plan
from dphist.planning.describe import facts, standard_error_in_words, standing, title
from dphist.planning.plan import STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.report import svg
from dphist.words import number, printable, with_error

_BARS = 30
_ROWS = 100
_LINES = 6
_GIVEN_RELEASE = (
    "Counts are estimated given that their groups were released, which noise helped them to; the plain noisy counts are the"
    " column count_noisy of the table."
)
_GIVEN_LIST = _GIVEN_RELEASE.replace("released", "listed")

_STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --blue: #0072b2; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 2rem auto; padding: 2.5rem; background: var(--paper); border-radius: .5rem;
       box-shadow: 0 1px 4px rgb(0 0 0 / .08); }
h1 { margin: 0 0 .25rem; font-size: 1.7rem; } h2 { margin: 2.5rem 0 .75rem; font-size: 1.2rem; }
.lead { color: var(--soft); margin: 0 0 1.5rem; }
.guarantee { border-left: 4px solid var(--blue); background: #eef6fb; padding: 1rem 1.25rem; border-radius: 0 .4rem .4rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .4rem 1.25rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.key, th.key { text-align: left; overflow-wrap: anywhere; }
tr.chosen td { font-weight: 600; } .se { color: var(--soft); font-weight: 400; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .92rem; }
svg { width: 100%; height: auto; } code { font-size: .9em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { main { margin: 0; padding: 1.25rem; border-radius: 0; } dl { grid-template-columns: 1fr; } }
"""


def _text(text: str) -> str:
    """A text that somebody else typed, as the browser shows it."""
    return html.escape(printable(text, lines=True))


def render(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> str:
    """The report of a release."""
    by = metadata["by"]
    units = _units_in_all(metadata)
    sentences = [("mechanism", title(plan.mechanism)), *facts(plan.request, plan.mechanism, metadata["unit"])]
    what, reading, pictures = (
        "Counts",
        f"A count estimates {metadata['estimand']}. {standard_error_in_words(plan.mechanism)}",
        [],
    )
    if plan.mechanism.hides_small_counts:
        reading += f" {_GIVEN_RELEASE}"
    if plan.request.keys_only:
        what, reading = "Keys", f"{_capital(metadata['estimand'])}."
    elif by:
        pictures = [
            _section("The largest groups", _bars(table, by)),
            _section("All released counts", _distribution(table)),
        ]
    sections = [
        *pictures,
        _section("Which groups could be seen", _probabilities(plan) if by else ""),
        _section("Bounds that the data chose", _chosen(metadata)),
        _section("The plan", _described(sentences)),
        _section("What the alternatives would have cost", _alternatives(plan)),
        _section("The released table", _rows(table, by, plan.value_names)),
        _section("How to read and cite this", f"<p>{_text(reading)}</p>{_citation(what, metadata, '.3g')}"),
    ]
    unit = f"unit of privacy: {_text(unit_in_words(metadata['unit']))}"
    released = _released(table) if by else "all units together"
    lead = f"{released}; {unit}; ε = {plan.epsilon:g}, δ = {plan.request.delta:g}{units}{_where(metadata)}"
    return _report(f"Private {what.lower()}{_by(by)}", lead, metadata, sections)


def _chosen(metadata: dict[str, Any]) -> str:
    """What is clamped to which bounds, where they were chosen privately."""
    return "".join(f"<p>{_text(one['in_words'])}</p>" for one in metadata.get("bounds", ()))


def _units_in_all(metadata: dict[str, Any]) -> str:
    """How many units there are, and how many of them the table does not show at all."""
    total, other = metadata["total_units"], metadata.get("other_units")
    if total is None:
        return ""
    words = f"; about {total['value']:,.0f} ± {total['std_error']:,.0f} units in all"
    if other is None:
        return words
    return f"{words}, of whom about {other['value']:,.0f} ± {other['std_error']:,.0f} are in none of the groups shown"


def largest(table: pa.Table, plan: TopKPlan, metadata: dict[str, Any], *, complete: bool) -> str:
    """The report of the largest groups, with counts or as a ranked list."""
    by = metadata["by"]
    ranked = plan.mechanism.noise_std is None
    heading = (
        f"{'The largest groups, ranked,' if ranked else 'Private counts of the largest groups'} by {', '.join(by)}"
    )
    ended = "" if complete else "<p>The list ended early: no other group was clearly larger than the rest.</p>"
    estimand = (
        "The list is an order without counts."
        if ranked
        else f"A count estimates the number of units in the group; ± is one standard error of the noise. {_GIVEN_LIST}"
    )
    rows = _rows(table, ["rank", *by], []) + ended if ranked else _rows(table, by, ["count"])
    sections = [
        _section("The groups", "" if ranked else _bars(table, by) + ended),
        _section("The plan", _described(plan.mechanism.facts(plan.k))),
        _section("The released table", rows),
        _reading(f"{estimand} A group that is missing may be nearly as large as the last one.", metadata),
    ]
    return _report(heading, _list_lead(table, metadata, f"at most {plan.k:,} asked for"), metadata, sections)


def running(
    table: pa.Table,
    mechanism: ContinualCounts,
    metadata: dict[str, Any],
    facts: Sequence[tuple[str, str]],
    history: Sequence[tuple[int, pa.Table]],
) -> str:
    """The report of running counts: the largest groups over the rounds, and the counts now."""
    by = metadata["by"]
    estimand = (
        "A count estimates the sum over all rounds of the units counted in the group; ± is one standard error of the"
        " noise, which has as many terms as the number of the round has set bits. Protected is what one unit adds"
        " in one round; for all rounds of a unit together epsilon adds up."
    )
    sections = [
        _section("The largest groups over the rounds", _over_rounds(table, by, mechanism, history)),
        _section("Counts now", _bars(table, by)),
        _section("The plan", _described(facts)),
        _section("The released table", _rows(table, by, ["count"])),
        _reading(estimand, metadata, " and round"),
    ]
    lead = _list_lead(table, metadata, f"round {metadata['round']:,} of {mechanism.rounds:,}")
    return _report(f"Private running counts by {', '.join(by)}", lead, metadata, sections)


def document(title: str, parts: Iterable[str]) -> str:
    """A page in the look of all reports; empty parts are left out."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(part for part in parts if part)}</main></body></html>\n"
    )


def _report(heading: str, lead: str, metadata: dict[str, Any], sections: Sequence[str]) -> str:
    """What is promised in a box of its own, what was done, which entry of a ledger paid for it, the sections, who made it and
    when."""
    words, receipt = _text(_capital(metadata["guarantee"])), metadata.get("ledger")
    charged = "<p>Not recorded in a ledger.</p>"
    if receipt is not None:
        charged = (
            f"<p>Charged to the data set {_text(receipt['dataset'])} of a ledger before noise was drawn,"
            f" entry {receipt['entry']:,}: <code>{_text(receipt['hash'])}</code></p>"
        )
    done = f"<p><strong>What was done.</strong> {_text(metadata['summary'])}</p>" if "summary" in metadata else ""
    parts = [
        f"<h1>{_text(heading)}</h1>",
        f'<p class="lead">{lead}</p>',
        f'<p class="guarantee"><strong>Guarantee.</strong> {words}</p>{done}{charged}',
        *sections,
        f"<footer>dphist {_text(metadata['dphist'])}, {_text(metadata['created'])}</footer>",
    ]
    return document(heading, parts)


def _released(table: pa.Table) -> str:
    return f"{table.num_rows:,} {'group' if table.num_rows == 1 else 'groups'} released"


def _by(names: Sequence[str]) -> str:
    return f" by {', '.join(names)}" if names else ""


def _where(metadata: dict[str, Any]) -> str:
    return f"; records where <code>{_text(metadata['where'])}</code>" if metadata["where"] else ""


def _list_lead(table: pa.Table, metadata: dict[str, Any], extent: str) -> str:
    unit = f"; unit of privacy: {_text(unit_in_words(metadata['unit']))}" if metadata["unit"] else ""
    budget = f"ε = {metadata['epsilon']:g}, δ = {metadata['delta']:g}"
    return f"{_released(table)}; {extent}{unit}; {budget}{_where(metadata)}"


def _reading(estimand: str, metadata: dict[str, Any], also: str = "") -> str:
    provided = f"<p>This holds provided {_text(metadata['assumption'])}.</p>"
    content = f"<p>{_text(estimand)}</p>{provided}{_citation('Groups', metadata, 'g', also)}"
    return _section("How to read and cite this", content)


def _citation(what: str, metadata: dict[str, Any], digits: str, also: str = "") -> str:
    unit = f" per {unit_in_words(metadata['unit'])}{also}" if metadata["unit"] else ""
    words = (
        f"{what}{_by(metadata['by'])}, released with (ε = {metadata['epsilon']:g}, δ ="
        f" {metadata['delta']:{digits}})-differential privacy{unit} by dphist {metadata['dphist']}"
        f" on {metadata['created'][:10]}."
    )
    return f"<p>Cite as: <em>{_text(words)}</em></p>"


def _section(heading: str, content: str) -> str:
    """A heading with its content, or nothing."""
    return f"<section><h2>{_text(heading)}</h2>{content}</section>" if content else ""


def _described(facts: Iterable[tuple[str, str]]) -> str:
    """Names with their sentences; the name of a mechanism is none."""
    pairs = [(name, words if name == "mechanism" else _capital(words)) for name, words in facts]
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(words)}</dd>" for name, words in pairs) + "</dl>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{_text(caption)}</figcaption></figure>"


def _bars(table: pa.Table, by: Sequence[str]) -> str:
    """The largest counts as bars."""
    if table.num_rows == 0:
        return "<p>No group was released: none was large enough.</p>"
    counts = _numbers(table, "count")
    top = np.argsort(-counts, kind="stable")[:_BARS]
    labels = [_label(table, by, int(i)) for i in top]
    picture = svg.bars(labels, counts[top], 1.96 * _numbers(table, "count" + STD_ERROR)[top])
    return _figure(picture, "Noisy counts; whiskers are ±1.96 standard errors.")


def _rows(table: pa.Table, keys: Sequence[str], values: Sequence[str]) -> str:
    """The first rows: keys as they are, values with their standard errors."""
    head = "".join(f'<th class="key">{_text(name)}</th>' for name in keys)
    lines = [head + "".join(f"<th>{_text(name)}</th>" for name in values)]
    for row in table.slice(0, _ROWS).to_pylist():
        named = "".join(f'<td class="key">{_text(_shown(row[name]))}</td>' for name in keys)
        lines.append(named + "".join(_value(row[name], row[name + STD_ERROR]) for name in values))
    more = f"<p>The first {_ROWS} of {table.num_rows:,} rows.</p>" if table.num_rows > _ROWS else ""
    return f'<div class="scroll"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>{more}'


def _value(value: float, error: float) -> str:
    words, _, reach = with_error(value, error).partition(" ")
    return f'<td>{words} <span class="se">{reach}</span></td>'


def _distribution(table: pa.Table) -> str:
    if table.num_rows < 2:
        return ""
    return _figure(svg.histogram(_numbers(table, "count")), "How many released groups have which noisy count.")


def _probabilities(plan: Plan) -> str:
    mechanism = plan.mechanism
    if mechanism.threshold is None:
        return "<p>All groups of the public list are released.</p>"
    if plan.request.keys_only:
        return _shares_released(mechanism)
    grid = np.linspace(0, 1.15 * mechanism.count_released_with(0.999), 240)
    marks = [(mechanism.count_released_with(p), p) for p in (0.5, 0.95)]
    picture = svg.curve(grid, np.array([mechanism.release_probability(x) for x in grid]), marks)
    words = ", ".join(f"{p:.0%} at {number(x)}" for x, p in marks)
    caption = f"The probability that a group is released, by its true number of units: {words}."
    if mechanism.in_rounds:
        caption = (
            "The probability that a group is selected, by the weight that its units give it, which is their number if they"
            f" have no other undecided group: {words}."
        )
    return _figure(picture, caption)


def _shares_released(mechanism: GroupMechanism) -> str:
    """Of keys alone: up to sizes of which hardly any is lost."""
    grid = np.linspace(0, 4 * mechanism.count_released_with(0.5), 80)
    marks = [(x, 1 - mechanism.share_lost(x)) for x in map(mechanism.count_released_with, (0.5, 0.95))]
    picture = svg.curve(grid, np.array([1 - mechanism.share_lost(x) for x in grid]), marks)
    return _figure(picture, f"The share of groups that are released, by their units ({mechanism.size_in_words}).")


def _alternatives(plan: Plan) -> str:
    names = ("noise std", "threshold", "95 % released at", "against the plan")
    rows = ['<tr><th class="key"></th>' + "".join(f"<th>{name}</th>" for name in names) + "</tr>"]
    for mechanism in (plan.mechanism, *plan.alternatives):
        is_chosen, hides = mechanism is plan.mechanism, mechanism.threshold is not None
        cells = [
            number(mechanism.noise_std) if mechanism.counted else "–",
            number(mechanism.threshold) if mechanism.threshold is not None else "–",
            number(mechanism.count_released_with(0.95)) if hides else "–",
            standing(plan.request, mechanism, plan.mechanism, "chosen"),
        ]
        row = f'<td class="key">{_text(title(mechanism))}</td>' + "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="chosen">{row}</tr>' if is_chosen else f"<tr>{row}</tr>")
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _over_rounds(
    table: pa.Table, by: Sequence[str], mechanism: ContinualCounts, history: Sequence[tuple[int, pa.Table]]
) -> str:
    if table.num_rows == 0 or len(history) < 2:
        return ""
    rounds = np.array([number for number, _ in history], np.float64)
    reaches = np.array([1.96 * mechanism.std_at(number) for number, _ in history])
    counted = [dict(zip(_keys(past, by), _numbers(past, "count").tolist(), strict=True)) for _, past in history]
    top = table.slice(0, _LINES)
    lines = [
        svg.Line(_label(top, by, row), np.array([counts.get(key, np.nan) for counts in counted]), reaches)
        for row, key in enumerate(_keys(top, by))
    ]
    threshold = mechanism.threshold
    caption = (
        "Running counts as they were released; the bands are ±1.96 standard errors of the noise. A line is missing where the"
        f" noisy count was not above the threshold of {threshold:,} (grey)."
    )
    return _figure(svg.lines(rounds, lines, threshold, f"threshold {threshold:,}", "round"), caption)


def _keys(table: pa.Table, by: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in by), strict=True))


def _label(table: pa.Table, by: Sequence[str], row: int) -> str:
    """The key of a row in one line."""
    return " · ".join(_shown(table.column(name)[row].as_py()) for name in by)


def _shown(value: object) -> str:
    return "(null)" if value is None else str(value)


def _numbers(table: pa.Table, name: str) -> svg.Floats:
    return np.asarray(table.column(name).to_numpy(), np.float64)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
