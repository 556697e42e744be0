"""Check files of the largest groups and of running counts against the guarantee that their metadata states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from dphist import checks
from dphist.errors import DphistError
from dphist.mechanisms import ContinualCounts, CorrelatedTopK, FromTop, Ranked
from dphist.planning.plan import STD_ERROR
from dphist.planning.top_k import TopKPlan
from dphist.publish.check import Check, columns, distinct_keys

_METHODS = {"correlated": CorrelatedTopK, "from-top": FromTop, "ranked": Ranked}


def check_top_k(table: pa.Table, metadata: dict[str, Any]) -> list[Check]:
    """The plan computed anew from its parameters, and a table such a plan can give."""
    try:
        made: CorrelatedTopK | FromTop | Ranked = _METHODS[metadata["method"]](**metadata["mechanism"])
        plan = TopKPlan(*_budget(metadata), metadata["k"], metadata["method"], made)
        keys = list(metadata["by"])
    except (DphistError, KeyError, TypeError, ValueError) as problem:
        return [_broken(problem)]
    found = [_proved(made.delta(plan.epsilon), plan.epsilon, plan.delta)]
    expected = ["rank", *keys] if isinstance(made, Ranked) else [*keys, "count", "count" + STD_ERROR]
    found.append(columns(table, expected))
    if table.num_columns == 0 or not found[-1].passed:
        return found
    found.append(distinct_keys(table, keys))
    few = table.num_rows <= plan.k
    found.append(Check("groups", few, f"are at most {plan.k:,}" if few else f"are more than {plan.k:,}"))
    if isinstance(made, Ranked):
        ranks = table.column("rank").to_pylist() == list(range(1, table.num_rows + 1))
        return [*found, Check("ranks", ranks, "are 1, 2, 3, …" if ranks else "are not 1, 2, 3, …")]
    counts = _column(table, "count")
    bits = made.lattice_bits if isinstance(made, CorrelatedTopK) else 0
    falling = bool((np.diff(counts) <= 0).all())
    found.append(Check("order", falling, "largest count first" if falling else "is not by count"))
    return [*found, _lattice(counts, bits), _errors(table, made.noise_std)]


def check_running(table: pa.Table, metadata: dict[str, Any]) -> list[Check]:
    """The mechanism computed anew from its parameters, and counts above its threshold."""
    try:
        made = ContinualCounts(**metadata["mechanism"])
        (epsilon, delta), number, keys = _budget(metadata), metadata["round"], list(metadata["by"])
        checks.check_whole("round", number, 0)
        proved = made.delta(epsilon)
    except (DphistError, KeyError, TypeError, ValueError) as problem:
        return [_broken(problem)]
    found = [_proved(proved, epsilon, delta)]
    in_time = number <= made.rounds
    found.append(Check("round", in_time, f"{number:,} of {made.rounds:,} declared"))
    expected = [*keys, "count", "count" + STD_ERROR]
    found.append(columns(table, expected))
    if table.num_columns == 0 or not found[-1].passed:
        return found
    found.append(distinct_keys(table, keys))
    counts = _column(table, "count")
    above = bool((counts > made.threshold).all())
    said = f"every count exceeds {made.threshold:,}" if above else "a count is not above it"
    return [*found, Check("threshold", above, said), _lattice(counts, 0), _errors(table, made.std_at(number))]


def _budget(metadata: dict[str, Any]) -> tuple[float, float]:
    epsilon, delta = metadata["epsilon"], metadata["delta"]
    checks.check_epsilon(epsilon)
    checks.check_delta(delta)
    return epsilon, delta


def _broken(problem: Exception) -> Check:
    said = str(problem) if isinstance(problem, DphistError) else "the metadata does not say by which mechanism"
    return Check("guarantee", False, said)


def _proved(proved: float, epsilon: float, delta: float) -> Check:
    sign = "<=" if proved <= delta else ">"
    return Check("guarantee", proved <= delta, f"delta({epsilon:g}) = {proved:.4g} {sign} {delta:g}, computed anew")


def _column(table: pa.Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(table.column(name).to_numpy(), np.float64)


def _lattice(counts: np.ndarray[Any, np.dtype[np.float64]], bits: int) -> Check:
    steps = np.ldexp(counts, bits)
    whole = bool((steps == np.rint(steps)).all())
    of_them = f"a multiple of 2^-{bits}" if bits else "a whole number"
    return Check("lattice", whole, f"every count is {of_them}" if whole else f"a count is not {of_them}")


def _errors(table: pa.Table, std: float) -> Check:
    same = all(math.isclose(error, std, rel_tol=1e-12) for error in _column(table, "count" + STD_ERROR).tolist())
    return Check("errors", same, "standard errors are those of the noise" if same else f"expected {std:g}")
