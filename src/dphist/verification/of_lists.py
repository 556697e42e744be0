"""Check files of the largest groups and of running counts against what their metadata states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from dphist.checks import MOST_GROUPS, Check
from dphist.engines.query import NullKeys, parse_key
from dphist.errors import InvalidParameter
from dphist.lists.running import describe_stream
from dphist.lists.top_k import TopK
from dphist.measures import Floats
from dphist.mechanisms import ContinualCounts, CorrelatedTopK, FromTop, Ranked
from dphist.planning.plan import NOISY, STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.publish.charge import Spend, spend_of_mechanism, spend_of_top_k, terms_hash
from dphist.verification import claims
from dphist.verification.claims import Findings, Names, numbers
from dphist.verification.stored import Stored

_METHODS: Final[dict[str, type[CorrelatedTopK] | type[FromTop] | type[Ranked]]] = {
    "correlated": CorrelatedTopK,
    "from-top": FromTop,
    "ranked": Ranked,
}
_NO_MECHANISM = "the metadata does not say by which mechanism"


class _List(claims.Stated):
    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    mechanism: dict[str, Any]


class _TopK(_List):
    unit: claims.UnitOfText | None = None
    method: Literal["correlated", "from-top", "ranked"]
    k: int = Field(ge=1, le=MOST_GROUPS)
    cut_off: float | None = None


class _Stream(_List):
    unit: claims.UnitOfText
    keys: Names
    null_keys: NullKeys
    round: int = Field(ge=0, le=MOST_GROUPS)

    def settings(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """The terms on which the stream was started, numbers as they are written: their hash tells 2 from 2.0."""
        return {
            "unit": self.unit,
            "by": list(self.keys),
            "where": self.where,
            "null_keys": self.null_keys,
            **{name: metadata[name] for name in ("epsilon", "delta", "mechanism")},
        }


def check_top_k(stored: Stored, table: pa.Table) -> Findings:
    """The plan computed anew from its parameters, and a table such a plan can give."""
    try:
        stated = _TopK.read(stored.metadata)
        mechanism = _METHODS[stated.method].from_data(stated.mechanism, "the metadata")
        plan = TopKPlan(stated.epsilon, stated.delta, stated.k, stated.method, mechanism)
        proved = mechanism.proved_delta(plan.epsilon)
        cut_off = stated.cut_off
        if (cut_off is None) != (mechanism.noise_std is None):
            raise InvalidParameter("a cut-off of counts, and none of a list without", "another")
        again = TopK(table, plan, stated.by, True, stated.created, stated.unit, stated.where, stated.receipt, cut_off)
        expected = again.metadata()
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, _NO_MECHANISM)
    checks = [_proved(proved, stated), *claims.compare(stored.metadata, expected)]
    checks += _check_list(table, plan, stated.by, cut_off)
    return Findings(checks, lambda: spend_of_top_k(plan, stated.unit or ""))


def _check_list(table: pa.Table, plan: TopKPlan, keys: tuple[str, ...], cut_off: float | None) -> Iterator[Check]:
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
        stated = _Stream.read(stored.metadata)
        mechanism = ContinualCounts.from_data(stated.mechanism, "the metadata")
        settings, proved = stated.settings(stored.metadata), mechanism.proved_delta(stated.epsilon)
        ledger = None if stated.receipt is None else stated.receipt.to_data()
        expected = describe_stream(mechanism, {**settings, "ledger": ledger}, stated.round, stated.created)
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, _NO_MECHANISM)
    keys = [parse_key(name).name for name in settings["by"]]
    checks = [
        _proved(proved, stated),
        *claims.compare(stored.metadata, expected),
        Check("round", stated.round <= mechanism.rounds, f"{stated.round:,} of {mechanism.rounds:,} declared"),
        *_check_running_counts(table, mechanism, stated.round, keys),
    ]
    return Findings(checks, lambda: _spend_of_stream(mechanism, settings))


def _check_running_counts(table: pa.Table, mechanism: ContinualCounts, number: int, keys: list[str]) -> Iterator[Check]:
    yield from (named := claims.columns_and_keys(table, keys, ["count", "count" + STD_ERROR]))
    if not named[0].passed:
        return
    threshold = mechanism.threshold
    above = bool((numbers(table, "count") > threshold).all())
    yield Check("threshold", above, f"every count exceeds {threshold:,}" if above else "a count is not above it")
    yield claims.lattice(numbers(table, "count"), 0)
    yield from _check_order_and_errors(table, np.full(table.num_rows, mechanism.std_at(number)))


def _spend_of_stream(mechanism: ContinualCounts, settings: dict[str, Any]) -> Spend:
    """What was charged when it started."""
    facts = {
        "delta": settings["delta"], "rounds": mechanism.rounds, "max_groups": mechanism.max_groups,
        "terms": terms_hash(settings),
    }  # fmt: skip
    return spend_of_mechanism(
        "continual", mechanism, settings["epsilon"], unit=settings["unit"], protects="event", facts=facts,
        calibrate=lambda _: mechanism,
    )  # fmt: skip


def _proved(proved: float, stated: _List) -> Check:
    holds = proved <= stated.delta
    words = f"delta({stated.epsilon:g}) = {proved:.4g} {'<=' if holds else '>'} {stated.delta:g}, computed anew"
    return Check("guarantee", holds, words)


def _check_order_and_errors(table: pa.Table, errors: Floats) -> Iterator[Check]:
    falling = bool((np.diff(numbers(table, "count")) <= 0).all())
    yield Check("order", falling, "largest count first" if falling else "is not by count")
    right = claims.close(numbers(table, "count" + STD_ERROR), errors)
    yield Check("errors", right, "standard errors are those of the noise" if right else "are not those of the noise")
