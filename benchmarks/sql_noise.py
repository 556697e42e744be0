"""The noise of a statement: by BigQuery's documented account, computed and not run, beside that of our plan. For docs/sql.md.

python benchmarks/sql_noise.py
"""

from __future__ import annotations

import math

import dphist as dp
from dphist.demo import professors

EPSILON, DELTA = 1.0, 1e-8
AGGREGATES = {
    "people": ("COUNT(DISTINCT id)", 1),
    "requests": ("COUNT(*, contribution_bounds_per_group => (0, 10))", 10),
    "quantity": ("SUM(quantity, contribution_bounds_per_group => (0, 100))", 100),
    "pens": ("SUM(IF(item = 'pen', quantity, 0), contribution_bounds_per_group => (0, 50))", 50),
}
"""Columns with what is asked for, and the most that one person adds."""
STATEMENTS = (("people",), ("people", "quantity"), ("people", "requests", "quantity", "pens"))


def bigquery_std(most: float, groups: int, aggregates: int) -> float:
    """Laplace noise for epsilon/(n + 1), one share for each aggregate and one for the threshold: sqrt(2) groups most/share."""
    return math.sqrt(2) * groups * most * (aggregates + 1) / EPSILON


def bigquery_threshold(groups: int, aggregates: int) -> float:
    """[WZLDSG20] Section 3.2: 1 - groups ln(2 - 2 (1 - delta)^(1/groups))/share; the noisy number of people must reach it."""
    missed = -math.expm1(math.log1p(-DELTA) / groups)
    return 1 - groups * math.log(2 * missed) * (aggregates + 1) / EPSILON


def our_std(plan: dp.Plan, most: float) -> float:
    """That of the count; or of the sum with this bound: its own noise, and the count's in what is added back for the centre."""
    count = plan.mechanism.noise_std
    stds = {one.measure.upper: math.hypot(one.noise_std, one.measure.centre * count) for one in plan.measures}
    return count if most == 1 else stds[most]


def main() -> None:
    """The table, in Markdown."""
    con = dp.connect(tables={"professors": professors()}, unit="id")
    print(
        "| columns | groups per person | standard errors, BigQuery | ours | shown every other time, BigQuery | ours |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for names in STATEMENTS:
        for groups in (1, 5, 20):
            options = f"epsilon = {EPSILON}, delta = {DELTA}, max_groups_contributed = {groups}"
            columns = ", ".join(f"{AGGREGATES[name][0]} AS {name}" for name in names)
            text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) item, {columns} FROM professors GROUP BY item"
            (job,) = con.prepare(text).jobs
            theirs = [bigquery_std(AGGREGATES[name][1], groups, len(names)) for name in names]
            shown = bigquery_threshold(groups, len(names)), job.plan.mechanism.count_released_with(0.5)
            ours = [our_std(job.plan, AGGREGATES[name][1]) for name in names]
            cells = [_numbers(theirs), _numbers(ours), *(f"{size:.0f}" for size in shown)]
            print(f"| {', '.join(f'`{name}`' for name in names)} | {groups} | {' | '.join(cells)} |")


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values)


if __name__ == "__main__":
    main()
