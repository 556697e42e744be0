"""The claims of metadata, read strictly and compared with the plan. A claim that does not follow from the plan fails a check.

A file of `dphist sql` has claims of its own, and those of every private table that it is computed from.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from dphist.checks import Check, check_share
from dphist.errors import DphistError, InvalidParameter
from dphist.files.digests import DIGEST, FILE, TABLE
from dphist.files.spreadsheet import ESCAPED
from dphist.ledger.charge import terms_hash
from dphist.planning import Plan
from dphist.planning.spends import Calibrated, Spend, spend_of_mechanism, spend_of_plan, spend_of_top_k
from dphist.run.chosen_bounds import ChosenBounds
from dphist.run.record import AnswerRecord, ReleaseRecord, StreamRecord, TopKRecord
from dphist.run.table import check_form
from dphist.run.totals import Estimate, contradiction, estimated
from dphist.verification.stored import Stored
from dphist.verification.tables import CLOSE, check_list, check_running_counts, check_table, skipped
from dphist.version import __version__
from dphist.words import canonical

WORDS: Final = ("guarantee", "estimand", "assumption", "summary")
"""Fields with sentences, which another version of dphist may word in another way. Numbers are compared whatever the version."""

UNREADABLE: Final = (DphistError, KeyError, TypeError, ValueError, ArithmeticError)
"""Errors that constructors of plans and mechanisms raise if metadata contradicts itself."""

_LONGEST: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Checks of a file, and the charge that must have paid for it; None where the charge is not known.

    same_words: whether the ledger's entry has the sentences of the metadata. They differ where the data chose the mechanism,
    as the charge came before the choice. paid: the metadata and findings of each private table of an answer, which has an
    entry for each.
    """

    checks: Sequence[Check]
    spend: Callable[[], Spend] | None = None
    same_words: bool = True
    paid: Sequence[tuple[dict[str, Any], Findings]] = ()


def same(stated: object, expected: object, tiny: float = 0.0) -> bool:
    """Equal but for the last digits; numbers up to `tiny` are 0."""
    if isinstance(stated, bool) or isinstance(expected, bool):
        return stated is expected
    if isinstance(stated, int | float) and isinstance(expected, int | float):
        return math.isclose(stated, expected, rel_tol=CLOSE, abs_tol=tiny)
    return stated == expected


def compare(metadata: dict[str, Any], expected: dict[str, Any]) -> Iterator[Check]:
    """One failed check for every field that differs, is unknown or is missing; else one check that passed."""
    how = {ESCAPED} if metadata.get(ESCAPED) is True else set()  # ESCAPED is about the form of the file, not a claim
    stated = {name: value for name, value in metadata.items() if name not in {FILE, DIGEST, TABLE, *how}}
    expected = {**json.loads(canonical(expected)), "dphist": stated["dphist"]}
    differing, others = dict(_differences(stated, expected, "")), "every field"
    for name in WORDS:
        if name in differing and isinstance(stated.get(name), str) and stated["dphist"] != __version__:
            del differing[name]
            others = "every other field"
            yield skipped(name, f"worded by dphist {excerpt(stated['dphist'])}, and otherwise than here")
    yield from (Check(name, False, problem) for name, problem in differing.items())
    if not differing:
        yield Check("claims", True, f"{others} is what the plan gives")


def _differences(stated: Any, expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(stated, dict) and isinstance(expected, dict):
        for name in dict.fromkeys([*expected, *stated]):
            place = f"{path}.{name}" if path else name
            if name not in expected:
                yield ascii(place)[1:-1], "is a field that dphist does not write"
            elif name not in stated:
                yield place, f"is missing; the plan gives {excerpt(expected[name])}"
            else:
                yield from _differences(stated[name], expected[name], place)
    elif isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        for place, (one, other) in enumerate(zip(stated, expected, strict=True)):
            yield from _differences(one, other, f"{path}[{place}]")
    elif not same(stated, expected):
        yield path, f"says {excerpt(stated)}, the plan gives {excerpt(expected)}"


def excerpt(value: object) -> str:
    """A value from a stranger's file for a message: short, and without letters that a terminal would obey."""
    text = canonical(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


_TABLE: Final = re.compile(r'FROM "(private_[0-9]+_*)"')
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")


def check_release(stored: Stored, table: pa.Table) -> Findings:
    """Check everything that follows from a release's plan."""
    try:
        record = ReleaseRecord.read(stored.metadata)
        found = _check_claims(record, stored.metadata)
    except UNREADABLE as problem:
        return _unreadable(problem, "the metadata lacks what it should say")
    return replace(found, checks=[*found.checks, *check_table(stored, table, record)])


def check_answer(stored: Stored, table: pa.Table) -> Findings:
    """Compute the guarantees of an answer's private tables anew. Its rows follow from tables that are not in the file."""
    metadata = stored.metadata
    try:
        record = AnswerRecord.read(metadata)
        parts = [_check_claims(*one) for one in zip(record.releases, metadata["releases"], strict=True)]
        if table.num_columns:
            record = record.model_copy(update={"columns": tuple(table.column_names)})
        expected = {**record.to_data(), "releases": metadata["releases"]}
    except UNREADABLE as problem:
        return _unreadable(problem, "the metadata lacks what it should say")
    checks = [
        replace(check, name=check.name if len(parts) == 1 else f"{check.name} {number}")
        for number, part in enumerate(parts, 1)
        for check in part.checks
    ]
    checks += [*compare(metadata, expected), _check_tables(record.outer, len(parts))]
    checks.append(skipped("rows", "are computed from private tables that are not in this file"))
    return Findings(checks, paid=list(zip(metadata["releases"], parts, strict=True)))


def _unreadable(problem: Exception, otherwise: str) -> Findings:
    """The findings on metadata from which no plan can be read."""
    return Findings([Check("guarantee", False, str(problem) if isinstance(problem, DphistError) else otherwise)])


def _check_tables(outer: str, releases: int) -> Check:
    """Whether the outer query reads as many private tables as the metadata describes."""
    read = len(set(_TABLE.findall(_TEXT.sub("''", outer))))
    words = f"the outer query reads {read}, and {releases} are described" if read != releases else "all are described"
    return Check("tables", read == releases, words)


def _check_claims(record: ReleaseRecord, metadata: dict[str, Any]) -> Findings:
    """Compare metadata with the record that was read from it. Raises one of `UNREADABLE`."""
    plan = record.plan
    if not record.keys and (plan.request.thresholded or plan.request.keys != 1):
        raise InvalidParameter("columns that make the groups, which the plan has", "none")
    if record.intervals is not None:
        check_share("intervals", record.intervals)
    check_form(plan, record.order, record.intervals, record.integers)
    withheld = [name for one in record.withheld for name in one.names]
    if len(set(withheld)) < len(withheld) or not all(one.names for one in record.withheld):
        raise InvalidParameter("different withheld columns", "others")
    if not set(withheld) <= set(plan.limited_names):
        raise InvalidParameter("withheld values of columns with bounds", "others")
    again = record.model_copy(update={**_totals_of(record), "bounds": _bounds_of(record)})
    detail = f"delta({plan.request.mechanism_epsilon:g}) = {plan.delta:.4g} <= {plan.request.delta:g}, computed anew"
    checks = [Check("guarantee", True, detail), *compare(metadata, again.to_data())]
    return Findings(
        checks, lambda: spend_of_plan(_as_charged(plan), record.unit), same_words=not plan.request.choice_epsilon
    )


def _totals_of(record: ReleaseRecord) -> dict[str, Estimate | bool | None]:
    """The noisy totals that the plan pays for, with the errors that it gives them."""
    request, names = record.plan.request, ("total_units", "covered_units", "other_units")
    paid = names if request.other else names[:1] if request.total else ()
    values = [part.value for name in paid if (part := getattr(record, name)) is not None]
    if len(values) < len(paid):
        raise InvalidParameter("a noisy total, which the plan pays for", "none")
    if not all(value.is_integer() for value in values):
        raise InvalidParameter("a whole number as a noisy total", "another one")
    if request.other and (problem := contradiction(values, allow_negative=record.allow_negative)):
        raise InvalidParameter("totals that fit together", problem)
    found = None
    if record.total_units is not None and paid:
        found = estimated(values, request, record.intervals, allow_negative=record.allow_negative)
    parts = (found.total, found.covered, found.other) if found else (None,) * 3
    return {**dict(zip(names, parts, strict=True)), "allow_negative": record.allow_negative and found is not None}


def _bounds_of(record: ReleaseRecord) -> tuple[ChosenBounds, ...]:
    """The statements about chosen bounds, with the bounds that the plan has."""
    chosen = [one for one in record.plan.request.aggregates if one.chosen != "given"]
    if [one.name for one in record.bounds] != [one.name for one in chosen] or any(one.open for one in chosen):
        raise InvalidParameter("bounds for each aggregate that has them chosen", "others")
    pairs = zip(record.bounds, chosen, strict=True)
    return tuple(replace(one, lower=aggregate.lower, upper=aggregate.upper) for one, aggregate in pairs)


def _as_charged(plan: Plan) -> Plan:
    """The plan of the charge, before the data chose one of its mechanisms: the charge is for all of them."""
    if not plan.request.choice_epsilon or plan.mechanism.in_rounds:
        return plan
    return Plan(replace(plan.request, max_groups=None), plan.mechanism, plan.alternatives)


_NO_MECHANISM = "the metadata does not say by which mechanism"


def check_top_k(stored: Stored, table: pa.Table) -> Findings:
    """Compute the plan anew from its parameters, and check whether it can give the table."""
    try:
        record = TopKRecord.read(stored.metadata)
        plan = record.plan
        if (record.cut_off is None) != (plan.mechanism.noise_std is None):
            raise InvalidParameter("a cut-off of counts, and none of a list without", "another")
        checks = [*_proved(record), *compare(stored.metadata, record.to_data())]
    except UNREADABLE as problem:
        return _unreadable(problem, _NO_MECHANISM)
    checks += check_list(table, plan, record.by, record.cut_off)
    return Findings(checks, lambda: spend_of_top_k(plan, record.unit or ""))


def check_running(stored: Stored, table: pa.Table) -> Findings:
    """Compute the mechanism anew from its parameters, and check whether all counts are above its threshold."""
    try:
        record = StreamRecord.read(stored.metadata)
        mechanism = record.mechanism
        checks = [*_proved(record), *compare(stored.metadata, record.to_data())]
    except UNREADABLE as problem:
        return _unreadable(problem, _NO_MECHANISM)
    checks.append(
        Check("round", record.round <= mechanism.rounds, f"{record.round:,} of {mechanism.rounds:,} declared")
    )
    checks += check_running_counts(table, mechanism, record.round, record.by)
    facts = {"rounds": mechanism.rounds, "max_groups": mechanism.max_groups, "terms": terms_hash(record.terms)}
    started = Calibrated(mechanism, record.epsilon, record.delta)
    return Findings(checks, lambda: spend_of_mechanism("continual", started, record.unit, facts, "event"))


def _proved(record: TopKRecord | StreamRecord) -> Iterator[Check]:
    proved = record.mechanism.proved_delta(record.epsilon)
    holds = proved <= record.delta
    words = f"delta({record.epsilon:g}) = {proved:.4g} {'<=' if holds else '>'} {record.delta:g}, computed anew"
    yield Check("guarantee", holds, words)
