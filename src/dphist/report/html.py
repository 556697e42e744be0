"""The report of a release: one HTML file, nothing loaded from anywhere, rendered from the release's own objects."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dphist.mechanisms import AdaptiveGaussian, Mechanism
from dphist.planning import Plan
from dphist.planning.describe import comparison, facts, number, standing, title, with_error
from dphist.planning.plan import STD_ERROR
from dphist.planning.summary import objective_value, thresholded
from dphist.report import svg

_BARS = 30
_ROWS = 100

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


def render(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> str:
    """The report as text."""
    by = list(metadata["by"])
    body = [
        "<h1>Private counts by " + _text(", ".join(by)) + "</h1>",
        f'<p class="lead">{_headline(table, plan, metadata)}</p>',
        f'<p class="guarantee"><strong>Guarantee.</strong> {_text(_capital(metadata["guarantee"]))}</p>',
        _section("The largest groups", _largest(table, by)),
        _section("All released counts", _distribution(table)),
        _section("Which groups could be seen", _probabilities(plan)),
        _section("The plan", _facts(plan)),
        _section("What the alternatives would have cost", _alternatives(plan)),
        _section("The released table", _rows(table, plan, by)),
        _section("How to read and cite this", _reading(metadata)),
        f"<footer>dphist {_text(metadata['dphist'])}, {_text(metadata['created'])}</footer>",
    ]
    return page(f"Private counts by {', '.join(by)}", body)


def page(title: str, body: Iterable[str]) -> str:
    """One HTML file from its parts, with everything it needs inside."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(part for part in body if part)}</main></body></html>\n"
    )


def _headline(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> str:
    groups = f"{table.num_rows:,} {'group' if table.num_rows == 1 else 'groups'} released"
    unit = f"unit of privacy: {_text(metadata['unit'])}"
    budget = f"ε = {plan.epsilon:g}, δ = {plan.request.delta:g}"
    where = f"; records where <code>{_text(metadata['where'])}</code>" if metadata["where"] else ""
    total = metadata["total_units"]
    units = f"; about {total['value']:,.0f} ± {total['std_error']:,.0f} units in all" if total else ""
    return f"{groups}; {unit}; {budget}{units}{where}"


def _largest(table: pa.Table, by: Sequence[str]) -> str:
    if table.num_rows == 0:
        return "<p>No group was released: none had a noisy count above the threshold.</p>"
    counts = _numbers(table, "count")
    top = np.argsort(-counts, kind="stable")[:_BARS]
    labels = [_label(table, by, int(i)) for i in top]
    picture = svg.bars(labels, counts[top], 1.96 * _numbers(table, "count" + STD_ERROR)[top])
    caption = "Noisy counts; whiskers are ±1.96 standard errors of the noise."
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _distribution(table: pa.Table) -> str:
    if table.num_rows < 2:
        return ""
    picture = svg.histogram(_numbers(table, "count"))
    return f"<figure>{picture}<figcaption>How many released groups have which noisy count.</figcaption></figure>"


def _probabilities(plan: Plan) -> str:
    mechanism = thresholded(plan.mechanism)
    if mechanism is None:
        return "<p>All groups of the public list are released.</p>"
    top = 1.15 * mechanism.count_released_with(0.999)
    grid = np.linspace(0, top, 240)
    marks = [(mechanism.count_released_with(p), p) for p in (0.5, 0.95)]
    picture = svg.curve(grid, np.array([mechanism.release_probability(x) for x in grid]), marks)
    words = ", ".join(f"{p:.0%} at {number(x)}" for x, p in marks)
    caption = f"The probability that a group is released, by its true number of units: {words}."
    if isinstance(mechanism, AdaptiveGaussian):
        caption = (
            "The probability that a group is selected, by the weight that its units give it, which is their number if they"
            f" have no other undecided group: {words}."
        )
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def _facts(plan: Plan) -> str:
    aggregates = [(noisy.aggregate, noisy.noise_std) for noisy in plan.aggregates]
    rows = [(name, _capital(words)) for name, words in facts(plan.request, plan.mechanism, aggregates)]
    rows.insert(0, ("mechanism", title(plan.mechanism)))
    return "<dl>" + "".join(f"<dt>{_text(name)}</dt><dd>{_text(words)}</dd>" for name, words in rows) + "</dl>"


def _alternatives(plan: Plan) -> str:
    best = objective_value(plan.mechanism, plan.request.objective)
    rows = []
    for mechanism in (plan.mechanism, *plan.alternatives):
        hidden = thresholded(mechanism)
        worse = objective_value(mechanism, plan.request.objective) / best - 1
        chosen = "chosen" if mechanism is plan.mechanism else comparison(worse)
        cells = [
            number(mechanism.noise_std),
            number(hidden.threshold) if hidden else "–",
            number(hidden.count_released_with(0.95)) if hidden else "–",
            _standing(plan, mechanism) if plan.request.choice != "given" else chosen,
        ]
        kind = ' class="chosen"' if mechanism is plan.mechanism else ""
        rows.append(f'<tr{kind}><td class="key">{_text(title(mechanism))}</td>{_cells(cells)}</tr>')
    titles = ("noise std", "threshold", "95 % released at", "against the plan")
    head = '<tr><th class="key"></th>' + "".join(f"<th>{name}</th>" for name in titles) + "</tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _standing(plan: Plan, mechanism: Mechanism) -> str:
    return standing(plan.request, mechanism, plan.mechanism)


def _rows(table: pa.Table, plan: Plan, by: Sequence[str]) -> str:
    names = plan.value_names
    head = "".join(f'<th class="key">{_text(name)}</th>' for name in by) + "".join(
        f"<th>{_text(name)}</th>" for name in names
    )
    lines = []
    for row in table.slice(0, _ROWS).to_pylist():
        keys = "".join(f'<td class="key">{_text(_shown(row[name]))}</td>' for name in by)
        values = "".join(_value(row[name], row[name + STD_ERROR]) for name in names)
        lines.append(f"<tr>{keys}{values}</tr>")
    more = f"<p>The first {_ROWS} of {table.num_rows:,} rows.</p>" if table.num_rows > _ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>{more}'


def _value(value: float, error: float) -> str:
    shown, _, reach = with_error(value, error).partition(" ")
    return f'<td>{shown} <span class="se">{reach}</span></td>'


def _reading(metadata: dict[str, Any]) -> str:
    words = (
        f"Counts by {', '.join(metadata['by'])}, released with (ε = {metadata['epsilon']:g}, δ = {metadata['delta']:.3g})-"
        f"differential privacy per {metadata['unit']} by dphist {metadata['dphist']} on {metadata['created'][:10]}."
    )
    return (
        f"<p>A count estimates {_text(metadata['estimand'])}. ± is one standard error of the noise.</p>"
        f"<p>Cite as: <em>{_text(words)}</em></p>"
    )


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{_text(heading)}</h2>{content}</section>" if content else ""


def _cells(values: Iterable[str]) -> str:
    return "".join(f"<td>{_text(value)}</td>" for value in values)


def _label(table: pa.Table, by: Sequence[str], row: int) -> str:
    return " · ".join(_shown(table.column(name)[row].as_py()) for name in by)


def _shown(value: object) -> str:
    return "(null)" if value is None else str(value)


def _numbers(table: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(table.column(name).to_numpy(), np.float64)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _text(value: str) -> str:
    return html.escape(value)
