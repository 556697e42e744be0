"""`report_format => "JSON"`: a value with its interval and the bounds that were found, as columns of the published table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

Named: TypeAlias = Callable[[str], exp.Expr]
"""A column of the published table by its name."""


def _pack(**fields: exp.Expr) -> exp.Expr:
    """An object with these fields."""
    pairs = [exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in fields.items()]
    return exp.Struct(expressions=pairs)


def _value(value: exp.Expr, low: exp.Expr, high: exp.Expr, level: float) -> Mapping[str, exp.Expr]:
    interval = _pack(lower_bound=low, upper_bound=high, confidence_level=exp.Literal.number(level))
    return {"value": value, "noise_confidence_interval": interval}


def report(
    column: Named, suffix: str, level: float, *, about_zero: bool = False, bounding: exp.Expr | None = None
) -> exp.Expr:
    """One value. about_zero: the interval is that of the noise alone, as counts and sums have it."""
    value, low, high = (column(f"{name}{suffix}") for name in ("value", "low", "high"))
    lower, upper = (
        exp.Sub(this=end.copy(), expression=value.copy()) if about_zero else end.copy() for end in (low, high)
    )
    parts = {} if bounding is None else {"bounding_report": bounding}
    return _pack(result=_pack(**_value(value, lower, upper, level)), **parts)


def reports(column: Named, suffixes: Sequence[str], number: int, level: float, bounding: exp.Expr | None) -> exp.Expr:
    """The boundaries of APPROX_QUANTILES.

    Both ends are the bounds: values are clamped to them, so that the smallest is between the lower bound and wherever the
    first boundary inside may be, and the largest likewise.
    """
    lower, upper = (f"{end}_{number}" for end in ("lower", "upper"))
    columns = [
        (lower, lower, f"high{suffixes[0]}"),
        *((f"value{one}", f"low{one}", f"high{one}") for one in suffixes),
        (upper, f"low{suffixes[-1]}", upper),
    ]
    boundaries = [_pack(**_value(column(value), column(low), column(high), level)) for value, low, high in columns]
    parts = {} if bounding is None else {"bounding_report": bounding}
    return _pack(result=exp.Array(expressions=boundaries), **parts)


def bounding_report(column: Named, number: int) -> exp.Expr:
    """The bounds that the release found, and how many units it saw, as far as that is published."""
    return _pack(
        lower_bound=column(f"lower_{number}"),
        upper_bound=column(f"upper_{number}"),
        num_inputs=column(f"inputs_{number}"),
        num_outside=column(f"outside_{number}"),
    )
