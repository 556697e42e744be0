"""Check a published file against its own plan: what anyone can check without the data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from dphist.errors import InvalidParameter, InvalidPlan
from dphist.mechanisms import AdaptiveGaussian, KnownGroups
from dphist.planning import Plan, storage
from dphist.planning.plan import STD_ERROR
from dphist.publish.check import Check, columns, distinct_keys
from dphist.publish.files import METADATA_KEY, format_of, sha256, sidecar
from dphist.publish.table import column_names
from dphist.publish.verify_lists import check_running, check_top_k


def verify(path: str | Path) -> list[Check]:
    """Re-check plan, guarantee and file against each other. Reads only what was published."""
    file = Path(path)
    kind = format_of(file)
    beside = _load_json(sidecar(file))
    table, inside = _read(file, kind)
    metadata = inside if inside is not None else beside
    if metadata is None:
        raise InvalidParameter(f"the metadata of {file.name} inside it or in {sidecar(file).name}", "none")
    check = {
        "dphist-release": _check_release,
        "dphist-top-k": check_top_k,
        "dphist-continual-release": check_running,
    }.get(str(metadata.get("format")))
    if check is None:
        raise InvalidParameter("a file written by dphist release, top-k or continual", repr(metadata.get("format")))
    checks = [_check_digest(file, beside)]
    if inside is not None and beside is not None:
        same = {key: value for key, value in beside.items() if key != "file"} == inside
        checks.append(Check("metadata", same, "inside the file and beside it are the same" if same else "they differ"))
    return checks + check(table, metadata)


def _check_release(table: pa.Table, metadata: dict[str, Any]) -> list[Check]:
    try:
        plan = Plan(*storage.from_data(metadata.get("plan"), "the metadata"))
    except InvalidPlan as problem:
        return [Check("guarantee", False, str(problem))]
    detail = f"delta({plan.request.mechanism_epsilon:g}) = {plan.delta:.4g} <= {plan.request.delta:g}, computed anew"
    return [Check("guarantee", True, detail), *_check_table(table, plan, metadata)]


def _check_digest(file: Path, beside: dict[str, Any] | None) -> Check:
    if beside is None:
        return Check("file", True, "no sidecar to compare with")
    same = beside.get("file", {}).get("sha256") == sha256(file)
    return Check("file", same, "is the one that was written" if same else "was changed after it was written")


def _check_table(table: pa.Table, plan: Plan, metadata: dict[str, Any]) -> list[Check]:
    keys = list(metadata.get("by", []))
    expected = [*keys, *column_names(plan, metadata.get("intervals"))]
    checks = [columns(table, expected)]
    if table.num_columns == 0 or not checks[0].passed:
        return checks
    checks.append(distinct_keys(table, keys))
    counts = table.column("count").to_numpy().astype(np.float64)
    checks += _check_counts(counts, plan, bool(metadata.get("integers")))
    checks.append(_check_errors(table, plan))
    return checks


def _check_counts(counts: np.ndarray[Any, np.dtype[np.float64]], plan: Plan, integers: bool) -> list[Check]:
    mechanism = plan.mechanism
    if isinstance(mechanism, AdaptiveGaussian):
        finite = bool(np.isfinite(counts).all())
        return [Check("counts", finite, "are numbers; selected keys have no threshold on counts")]
    if isinstance(mechanism, KnownGroups):
        whole = len(counts) == mechanism.groups
        return [Check("groups", whole, "are all that were listed" if whole else f"expected {mechanism.groups}")]
    least = mechanism.threshold - (0.5 if integers else 0.0)  # rounding to integers can lower a count by a half
    above = bool((counts > least).all()) if not integers else bool((counts >= least).all())
    checks = [
        Check("threshold", above, f"every count exceeds {mechanism.threshold:g}" if above else "a count is below it")
    ]
    bits = 0 if integers else mechanism.lattice_bits
    steps = np.ldexp(counts, bits)
    on_lattice = bool((steps == np.rint(steps)).all())
    checks.append(
        Check("lattice", on_lattice, f"every count is a multiple of 2^-{bits}" if on_lattice else "a count is not")
    )
    return checks


def _check_errors(table: pa.Table, plan: Plan) -> Check:
    errors = pc.min_max(table.column("count" + STD_ERROR)).as_py()
    if isinstance(plan.mechanism, AdaptiveGaussian):
        known = table.num_rows == 0 or (errors["min"] > 0 and math.isfinite(errors["max"]))
        return Check("errors", known, "every count has its own standard error" if known else "one is missing")
    expected = plan.mechanism.noise_std
    same = table.num_rows == 0 or all(math.isclose(errors[end], expected, rel_tol=1e-12) for end in ("min", "max"))
    return Check("errors", same, "standard errors are those of the plan" if same else f"expected {expected:g}")


def _read(file: Path, kind: str) -> tuple[pa.Table, dict[str, Any] | None]:
    try:
        if kind == "parquet":
            table = pq.read_table(file)
            stored = (table.schema.metadata or {}).get(METADATA_KEY)
            return table, None if stored is None else json.loads(stored)
        if kind == "json" and file.stat().st_size == 0:
            return pa.table({}), None
        return (pa_csv.read_csv(file) if kind == "csv" else pa_json.read_json(file)), None
    except (OSError, ValueError) as problem:
        raise InvalidParameter(f"a released file at {file}", f"an unreadable one ({type(problem).__name__})") from None


def _load_json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise InvalidParameter(f"readable metadata in {path.name}", "something else") from None
    return data if isinstance(data, dict) else None
