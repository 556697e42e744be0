"""Check files of the largest groups and of running counts against what their metadata states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.engines.query import parse_key
from dphist.errors import DphistError
from dphist.lists.running import describe_stream
from dphist.lists.top_k import TopK
from dphist.mechanisms import ContinualCounts, CorrelatedTopK, FromTop, Profile, Ranked
from dphist.planning.plan import STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.publish.charge import Spend, spend_of_mechanism, spend_of_top_k, terms_hash
from dphist.publish.table import Floats
from dphist.verification import claims
from dphist.verification.check import Check, columns, distinct_keys
from dphist.verification.verified import Findings, Loaded, close, numbers

_METHODS = {"correlated": CorrelatedTopK, "from-top": FromTop, "ranked": Ranked}


def check_top_k(loaded: Loaded) -> Findings:
    """The plan computed anew from its parameters, and a table such a plan can give."""
    stated = loaded.metadata
    try:
        made: CorrelatedTopK | FromTop | Ranked = _METHODS[stated["method"]](**stated["mechanism"])
        checks.check_whole("k", stated["k"])
        plan = TopKPlan(*_budget(stated), stated["k"], stated["method"], made)
        proved = made.delta(plan.epsilon)
        keys = claims.check_names(stated, "by")
        unit, where = (claims.check_text_or_none(stated, name) for name in ("unit", "where"))
        receipt = claims.receipt_of_file(stated)
        again = TopK(loaded.table, plan, keys, True, claims.created_of(stated), unit, where, receipt)
        expected = again.metadata()
    except (DphistError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return Findings([_broken(problem)])
    found = [_proved(proved, plan.epsilon, plan.delta), *claims.compare(stated, expected)]
    found += _check_list(loaded.table, plan, keys)
    return Findings(found, lambda: spend_of_top_k(plan, unit or ""))


def _check_list(table: pa.Table, plan: TopKPlan, keys: tuple[str, ...]) -> Iterator[Check]:
    made = plan.mechanism
    expected = ["rank", *keys] if isinstance(made, Ranked) else [*keys, "count", "count" + STD_ERROR]
    yield (named := columns(table, expected))
    if not named.passed:
        return
    yield distinct_keys(table, keys)
    few = table.num_rows <= plan.k
    yield Check("groups", few, f"are at most {plan.k:,}" if few else f"are more than {plan.k:,}")
    if isinstance(made, Ranked):
        ranks = numbers(table, "rank").tolist() == list(range(1, table.num_rows + 1))
        yield Check("ranks", ranks, "are 1, 2, 3, …" if ranks else "are not 1, 2, 3, …")
        return
    yield from _check_counts(table, made.lattice_bits if isinstance(made, CorrelatedTopK) else 0, made.noise_std)


def check_running(loaded: Loaded) -> Findings:
    """The mechanism computed anew from its parameters, and counts above its threshold."""
    stated = loaded.metadata
    try:
        made = ContinualCounts(**stated["mechanism"])
        (epsilon, delta), number = _budget(stated), stated["round"]
        checks.check_whole("round", number, 0)
        proved = made.delta(epsilon)
        old = stated["version"] == 1  # which had names for keys and nothing about nulls
        settings = {
            "unit": claims.check_text(stated, "unit"),
            "by": list(claims.check_names(stated, "by" if old else "keys")),
            "where": claims.check_text_or_none(stated, "where"),
            "null_keys": "group" if old else claims.check_text(stated, "null_keys"),
            "epsilon": epsilon,
            "delta": delta,
            "mechanism": stated["mechanism"],
        }
        checks.check_choice("null_keys", settings["null_keys"], ("group", "drop"))
        receipt = claims.receipt_of_file(stated)
        named = {**settings, "ledger": None if receipt is None else receipt.to_data()}
        expected = describe_stream(made, named, number, claims.created_of(stated))
    except (DphistError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return Findings([_broken(problem)])
    keys = settings["by"] if old else [parse_key(name).name for name in settings["by"]]
    found = [_proved(proved, epsilon, delta), *claims.compare(stated, {**expected, "by": keys})]
    in_time = number <= made.rounds
    found.append(Check("round", in_time, f"{number:,} of {made.rounds:,} declared"))
    found += _check_running_counts(loaded.table, made, number, keys)
    return Findings(found, lambda: _spend_of_stream(made, settings, old=old))


def _check_running_counts(table: pa.Table, made: ContinualCounts, number: int, keys: list[str]) -> Iterator[Check]:
    yield (named := columns(table, [*keys, "count", "count" + STD_ERROR]))
    if not named.passed:
        return
    yield distinct_keys(table, keys)
    above = bool((numbers(table, "count") > made.threshold).all())
    yield Check("threshold", above, f"every count exceeds {made.threshold:,}" if above else "a count is not above it")
    yield from _check_counts(table, 0, made.std_at(number))


def _spend_of_stream(made: ContinualCounts, settings: dict[str, Any], *, old: bool) -> Spend:
    """What was charged when it started; its terms are known where the metadata has all of them."""
    facts = {"delta": settings["delta"], "rounds": made.rounds, "max_groups": made.max_groups}
    if not old:
        facts["terms"] = terms_hash(settings)

    def same(_epsilon: float) -> Profile:
        return made

    return spend_of_mechanism(
        "continual", made, settings["epsilon"], unit=settings["unit"], protects="event", calibrate=same, facts=facts
    )


def _budget(stated: dict[str, Any]) -> tuple[float, float]:
    epsilon, delta = stated["epsilon"], stated["delta"]
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
    return epsilon, delta


def _broken(problem: Exception) -> Check:
    said = str(problem) if isinstance(problem, DphistError) else "the metadata does not say by which mechanism"
    return Check("guarantee", False, said)


def _proved(proved: float, epsilon: float, delta: float) -> Check:
    sign = "<=" if proved <= delta else ">"
    return Check("guarantee", proved <= delta, f"delta({epsilon:g}) = {proved:.4g} {sign} {delta:g}, computed anew")


def _check_counts(table: pa.Table, bits: int, std: float) -> Iterator[Check]:
    counts = numbers(table, "count")
    yield _lattice(counts, bits)
    falling = bool((np.diff(counts) <= 0).all())
    yield Check("order", falling, "largest count first" if falling else "is not by count")
    same = close(numbers(table, "count" + STD_ERROR), np.full(len(counts), std))
    yield Check("errors", same, "standard errors are those of the noise" if same else f"expected {std:g}")


def _lattice(counts: Floats, bits: int) -> Check:
    steps = np.ldexp(counts, bits)
    whole = bool((steps == np.rint(steps)).all()) and bool(np.isfinite(counts).all())
    of_them = f"a multiple of 2^-{bits}" if bits else "a whole number"
    return Check("lattice", whole, f"every count is {of_them}" if whole else f"a count is not {of_them}")
