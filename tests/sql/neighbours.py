"""The hypothesis of the guarantee, on small tables: what an accepted statement counts is the sum of what each unit has alone.

For a unit u, tables D, those without u and those of u alone: histogram(D) = histogram(D without u) + histogram(u), and the last
one is within the bounds of the plan. So without u nothing changes but in the groups of u, by 1 in units, in at most max_groups
groups and by at most `sensitivity_steps` in each measure; and the pairs of all others stay the same. Distinct values are the
exception: one unit may take a value in the place of another, so that only the difference is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from statement_grammar import UNITS, schemas

import dphist as dp
from dphist.engines.query import PerformanceSettings
from dphist.engines.relations import Derived
from dphist.errors import DphistError, InvalidParameter
from dphist.run.job import Job
from dphist.run.strategies import bounds_of

SEED: Final = 7
Tables = Mapping[str, pa.Table]
Groups = dict[tuple[Any, ...], tuple[int, ...]]
"""Units, and the steps of each measure."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What removing a unit did that it must not."""

    words: str
    unit: object = None


@cache
def connection() -> Any:
    """To the tables without private rows: what is accepted, and how it is counted, follows from schemas alone."""
    given = {name: table if name in UNITS else dp.public(table) for name, table in schemas().items()}
    return dp.connect(tables=given, unit=UNITS, settings=PerformanceSettings(threads=1))


def prepared(statement: str) -> Job | InvalidParameter:
    """The job of a statement with one private SELECT, or why it is refused."""
    try:
        script = connection().prepare(statement)
        script.check()
        (job,) = script.jobs
        return job  # type: ignore[no-any-return]
    except InvalidParameter as problem:
        return problem


def neighbours(tables: Tables, used: set[str]) -> Iterator[tuple[object, Tables, Tables]]:
    """Each unit, the tables without it, and those of it alone. Rows of nobody stay with the others."""
    kinds = {UNITS[name] for name in used if name in UNITS}
    for kind in sorted(kinds):
        own = [name for name in tables if UNITS.get(name) == kind]
        units = {unit for name in own for unit in tables[name].column(kind).to_pylist()} - {None}
        for unit in sorted(units):
            without, alone = dict(tables), dict(tables)
            for name in own:
                is_own = pc.fill_null(pc.equal(tables[name].column(kind), unit), False)
                without[name] = tables[name].filter(pc.invert(is_own))
                alone[name] = tables[name].filter(is_own)
            for name in set(UNITS) - set(own):
                alone[name] = tables[name]
            yield unit, without, alone


def used_by(job: Job) -> set[str]:
    """The tables that a job reads."""
    if isinstance(job.source, Derived):
        return set(job.source.tables)
    return {name for name, table in connection().tables.items() if table.source is job.source}


def _source(job: Job, tables: Tables) -> object:
    """What the job reads, with other rows."""
    if isinstance(job.source, Derived):
        return Derived(job.source.relation, {name: tables[name] for name in job.source.tables})
    (name,) = used_by(job)
    return tables[name]


def count(job: Job, tables: Tables) -> Groups:
    """The bounded histogram of the job on other tables: what every mechanism starts from, without noise."""
    found = job.engine.histogram(_source(job, tables), job.query, bounds_of(job.plan), seed=SEED)
    keys = zip(*(column.to_pylist() for column in found.keys.columns), strict=True)
    sums = [found.sums[one.name].tolist() for one in found.measures if one.kind != "bins"]
    amounts = zip(found.counts.tolist(), *sums, strict=True)
    return {key: values for key, values in zip(keys, amounts, strict=True) if any(values)}


def violation(job: Job, tables: Tables) -> Violation | None:
    """The first thing that goes wrong when a unit leaves, if any."""
    measures = [one for one in job.query.measures if one.kind != "bins"]
    most = bounds_of(job.plan).max_groups
    limits = (1, *(one.sensitivity_steps for one in measures))
    local = (True, *(one.kind != "distinct" for one in measures))
    try:
        whole = count(job, tables)
    except DphistError:
        return Violation("a run that fails")
    for unit, without, alone in neighbours(tables, used_by(job)):
        try:
            rest, own = count(job, without), count(job, alone)
        except DphistError:
            return Violation("a run that fails for some", unit)
        if most is not None and len(own) > most:
            return Violation("more groups than the bound", unit)
        for group in {*whole, *rest, *own}:
            here, there, mine = (one.get(group, (0,) * len(limits)) for one in (whole, rest, own))
            if any(abs(amount) > limit for amount, limit in zip(mine, limits, strict=True)):
                return Violation("more than the bound in one group", unit)
            for a, b, c, limit, exact in zip(here, there, mine, limits, local, strict=True):
                if (exact and a - b != c) or abs(a - b) > limit or (a != b and group not in own):
                    return Violation("a change of somebody else's pairs", unit)
    return None
