"""What is spent, as data: events. A ledger can store them, and `ledger/accountant.py` prices them.

An event bounds what one unit can change: the laws P and Q of a result with and without the unit, in both directions. Its
numbers are proved by whoever makes the event, and rounded up. docs/composition.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, get_args

from dphist.errors import InvalidParameter
from dphist.privacy.composition import LARGEST_COST


class _Event:
    __slots__ = ()

    def __post_init__(self) -> None:
        values: Any = self
        for one in fields(values):
            value = getattr(self, one.name)
            if one.name == "events":
                right = isinstance(value, tuple) and bool(value) and all(isinstance(part, _Event) for part in value)
            elif one.name == "event":
                right = isinstance(value, _Event) or value is one.default
            else:
                kinds, least = (int, 1) if one.name == "times" else (int | float, 0)
                right = isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= LARGEST_COST
            if not right:
                raise InvalidParameter(
                    f"a number in [0, {LARGEST_COST:g}], or an event, as {one.name}", "something else"
                )

    def to_data(self) -> dict[str, Any]:
        """As JSON has it, with the kind of the event; numbers are read back to the same bits."""
        values: Any = self
        return {"kind": type(self).__name__, **{one.name: _plain(getattr(self, one.name)) for one in fields(values)}}


@dataclass(frozen=True, slots=True)
class GaussianEvent(_Event):
    """mu-GDP: P and Q are a post-processing of N(mu, 1) and N(0, 1)."""

    mu: float


@dataclass(frozen=True, slots=True)
class ConcentratedEvent(_Event):
    """rho-zCDP: the Renyi divergence of every order a > 1 is at most a rho. `event`: what else is known of P and Q."""

    rho: float
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class PureEvent(_Event):
    """epsilon-DP: P(S) <= e^epsilon Q(S) for every S."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class ChoiceEvent(_Event):
    """The exponential mechanism: ln(P/Q) lies in some range of this length, around 0."""

    length: float


@dataclass(frozen=True, slots=True)
class RepeatedEvent(_Event):
    """All of these events, so many times: on each group of a unit, or for each choice of a list."""

    events: tuple[Event, ...]
    times: int


@dataclass(frozen=True, slots=True)
class ComposedEvent(_Event):
    """Several events, each of which may be chosen in view of the results of those before."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class WorstOfEvent(_Event):
    """One of several events; the data may decide which."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class ApproximateEvent(_Event):
    """P and Q agree with those of `event` outside a bad event, whose probability under P is at most `delta`.

    The laws that are drawn are within `sampler_error` of P and Q, in total variation.
    """

    event: Event
    delta: float
    sampler_error: float = 0.0


@dataclass(frozen=True, slots=True)
class ProfileEvent(_Event):
    """One mechanism: its own analysis proves (epsilon, delta)-DP. `event`: what its noise is, where more is known.

    `delta` is proved for the decimal that names epsilon, which may lie below the double; `delta_of_double` for the double.
    """

    epsilon: float
    delta: float
    delta_of_double: float
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class WholeEvent(_Event):
    """An event of several parts for which (epsilon, delta)-DP is proved as a whole, without the rounding of the parts."""

    event: Event
    epsilon: float
    delta: float


Event: TypeAlias = (
    GaussianEvent | ConcentratedEvent | PureEvent | ChoiceEvent | RepeatedEvent
    | ComposedEvent | WorstOfEvent | ApproximateEvent | ProfileEvent | WholeEvent
)  # fmt: skip

_KINDS: Final[dict[str, Any]] = {kind.__name__: kind for kind in get_args(Event)}


def from_data(data: object, source: str = "an event") -> Event:
    """The inverse of `to_data`, strict about names; the constructor checks the values."""
    kind = _KINDS.get(str(data.get("kind"))) if isinstance(data, Mapping) else None
    if kind is None or {*data} != {"kind", *(one.name for one in fields(kind))}:  # type: ignore[misc]
        raise InvalidParameter(f"a whole event of a known kind in {source}", "something else")
    event: Event = kind(**{name: _read(value, source) for name, value in data.items() if name != "kind"})  # type: ignore[attr-defined]
    return event


def _read(value: Any, source: str) -> Any:
    if isinstance(value, list):
        return tuple(from_data(one, source) for one in value)
    return from_data(value, source) if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [one.to_data() for one in value]
    return value.to_data() if isinstance(value, _Event) else value
