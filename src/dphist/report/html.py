"""The report of a release: one HTML file, nothing loaded from anywhere, rendered from the release's own objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dphist.mechanisms import AdaptiveGaussian, Mechanism
from dphist.planning import Plan
from dphist.planning.describe import comparison, facts, number, standing, title
from dphist.planning.summary import objective_value, thresholded
from dphist.report import page, svg


def render(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> str:
    """The report as text."""
    by = list(metadata["by"])
    body = [
        "<h1>Private counts by " + page.text(", ".join(by)) + "</h1>",
        f'<p class="lead">{_headline(table, plan, metadata)}</p>',
        page.guarantee(metadata),
        page.section("The largest groups", page.bars(table, by)),
        page.section("All released counts", _distribution(table)),
        page.section("Which groups could be seen", _probabilities(plan)),
        page.section("The plan", _facts(plan)),
        page.section("What the alternatives would have cost", _alternatives(plan)),
        page.section("The released table", page.rows(table, by, plan.value_names)),
        page.section("How to read and cite this", _reading(metadata)),
        page.footer(metadata),
    ]
    return page.document(f"Private counts by {', '.join(by)}", body)


def _headline(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> str:
    groups = f"{table.num_rows:,} {'group' if table.num_rows == 1 else 'groups'} released"
    unit = f"unit of privacy: {page.text(metadata['unit'])}"
    budget = f"ε = {plan.epsilon:g}, δ = {plan.request.delta:g}"
    where = f"; records where <code>{page.text(metadata['where'])}</code>" if metadata["where"] else ""
    total = metadata["total_units"]
    units = f"; about {total['value']:,.0f} ± {total['std_error']:,.0f} units in all" if total else ""
    return f"{groups}; {unit}; {budget}{units}{where}"


def _distribution(table: pa.Table) -> str:
    if table.num_rows < 2:
        return ""
    picture = svg.histogram(page.numbers(table, "count"))
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
    told = [(name, page.capital(words)) for name, words in facts(plan.request, plan.mechanism, aggregates)]
    return page.described([("mechanism", title(plan.mechanism)), *told])


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
        rows.append(f'<tr{kind}><td class="key">{page.text(title(mechanism))}</td>{page.cells(cells)}</tr>')
    titles = ("noise std", "threshold", "95 % released at", "against the plan")
    head = '<tr><th class="key"></th>' + "".join(f"<th>{name}</th>" for name in titles) + "</tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _standing(plan: Plan, mechanism: Mechanism) -> str:
    return standing(plan.request, mechanism, plan.mechanism)


def _reading(metadata: dict[str, Any]) -> str:
    words = (
        f"Counts by {', '.join(metadata['by'])}, released with (ε = {metadata['epsilon']:g}, δ = {metadata['delta']:.3g})-"
        f"differential privacy per {metadata['unit']} by dphist {metadata['dphist']} on {metadata['created'][:10]}."
    )
    return (
        f"<p>A count estimates {page.text(metadata['estimand'])}. ± is one standard error of the noise.</p>"
        f"<p>Cite as: <em>{page.text(words)}</em></p>"
    )
