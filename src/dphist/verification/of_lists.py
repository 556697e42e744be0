"""Check files of the largest groups and of running counts against what their metadata states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dphist.aggregates.measures import Floats
from dphist.checks import Check
from dphist.errors import InvalidParameter
from dphist.mechanisms import ContinualCounts
from dphist.planning.plan import NOISY, STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.publish.charge import terms_hash
from dphist.publish.record import StreamRecord, TopKRecord
from dphist.publish.spends import Calibrated, Spend, spend_of_mechanism, spend_of_top_k
from dphist.verification import claims
from dphist.verification.claims import Findings, numbers
from dphist.verification.stored import Stored

_NO_MECHANISM = "the metadata does not say by which mechanism"


def check_top_k(stored: Stored, table: pa.Table) -> Findings:
    """The plan computed anew from its parameters, and a table such a plan can give."""
    try:
        record = TopKRecord.read(stored.metadata)
        plan, expected = record.plan, record.to_data()
        proved = plan.mechanism.proved_delta(plan.epsilon)
        cut_off = record.cut_off
        if (cut_off is None) != (plan.mechanism.noise_std is None):
            raise InvalidParameter("a cut-off of counts, and none of a list without", "another")
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, _NO_MECHANISM)
    checks = [_proved(proved, record), *claims.compare(stored.metadata, expected)]
    checks += _check_list(table, plan, record.by, cut_off)
    return Findings(checks, lambda: spend_of_top_k(plan, record.unit or ""))


def _check_list(table: pa.Table, plan: TopKPlan, keys: Sequence[str], cut_off: float | None) -> Iterator[Check]:
    mechanism = plan.mechanism
    before, after = (["rank"], []) if mechanism.noise_std is None else ([], ["count", "count" + STD_ERROR])
    after += [] if cut_off is None else ["count" + NOISY]
    yield from (named := claims.columns_and_keys(table, keys, after, before))
    if not named[0].passed:
        return
    few = table.num_rows <= plan.k
    yield Check("groups", few, f"are at most {plan.k:,}" if few else f"are more than {plan.k:,}")
    if mechanism.noise_std is None or cut_off is None:
        ranks = numbers(table, "rank").tolist() == list(range(1, table.num_rows + 1))
        yield Check("ranks", ranks, "are 1, 2, 3, …" if ranks else "are not 1, 2, 3, …")
        return
    noisy, bits = numbers(table, "count" + NOISY), mechanism.lattice_bits
    yield claims.lattice(np.append(noisy, cut_off), bits)
    above = bool((noisy > cut_off).all())
    yield Check("cut-off", above, f"every noisy count exceeds {cut_off:,g}" if above else "a noisy count does not")
    found = mechanism.given_cut_off(noisy, cut_off)
    right = claims.close(numbers(table, "count"), found.counts)
    yield Check("estimates", right, "counts are those of the noisy ones, given the list" if right else "are others")
    yield from _check_order_and_errors(table, found.std_errors)


def check_running(stored: Stored, table: pa.Table) -> Findings:
    """The mechanism computed anew from its parameters, and counts above its threshold."""
    try:
        record = StreamRecord.read(stored.metadata)
        mechanism, expected = record.mechanism, record.to_data()
        proved = mechanism.proved_delta(record.epsilon)
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, _NO_MECHANISM)
    checks = [
        _proved(proved, record),
        *claims.compare(stored.metadata, expected),
        Check("round", record.round <= mechanism.rounds, f"{record.round:,} of {mechanism.rounds:,} declared"),
        *_check_running_counts(table, mechanism, record.round, record.by),
    ]
    return Findings(checks, lambda: _spend_of_stream(record))


def _check_running_counts(
    table: pa.Table, mechanism: ContinualCounts, number: int, keys: Sequence[str]
) -> Iterator[Check]:
    yield from (named := claims.columns_and_keys(table, keys, ["count", "count" + STD_ERROR]))
    if not named[0].passed:
        return
    threshold = mechanism.threshold
    above = bool((numbers(table, "count") > threshold).all())
    yield Check("threshold", above, f"every count exceeds {threshold:,}" if above else "a count is not above it")
    yield claims.lattice(numbers(table, "count"), 0)
    yield from _check_order_and_errors(table, np.full(table.num_rows, mechanism.std_at(number)))


def _spend_of_stream(record: StreamRecord) -> Spend:
    """What was charged when it started."""
    mechanism = record.mechanism
    facts = {"rounds": mechanism.rounds, "max_groups": mechanism.max_groups, "terms": terms_hash(record.terms)}
    plan = Calibrated(mechanism, record.epsilon, record.delta)
    return spend_of_mechanism("continual", plan, record.unit, facts, "event")


def _proved(proved: float, record: TopKRecord | StreamRecord) -> Check:
    holds = proved <= record.delta
    words = f"delta({record.epsilon:g}) = {proved:.4g} {'<=' if holds else '>'} {record.delta:g}, computed anew"
    return Check("guarantee", holds, words)


def _check_order_and_errors(table: pa.Table, errors: Floats) -> Iterator[Check]:
    falling = bool((np.diff(numbers(table, "count")) <= 0).all())
    yield Check("order", falling, "largest count first" if falling else "is not by count")
    right = claims.close(numbers(table, "count" + STD_ERROR), errors)
    yield Check("errors", right, "standard errors are those of the noise" if right else "are not those of the noise")
