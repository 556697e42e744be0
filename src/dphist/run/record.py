"""The one record of what was published: written into a file, read from it, shown, and computed anew by `verify`.

A record has fields and claims. Fields are what its plan does not give: they are read strictly, since anyone may have made the
file. Claims (guarantee, noise, sentences) follow from the fields and are computed wherever they are asked for. `to_data` is
both, in the order of a file. Whoever made a table builds the record without a check, which could fail after the charge.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainValidator

from dphist.checks import MOST_GROUPS
from dphist.columns import Unit, joint_unit
from dphist.engines.base import Order
from dphist.engines.query import NullKeys, parse_key
from dphist.files.digests import VERSION
from dphist.files.stored import validate
from dphist.ledger.charge import Receipt
from dphist.mechanisms import ContinualCounts, CorrelatedTopK, FromTop, Ranked
from dphist.planning import Plan, storage
from dphist.planning.describe import guarantee, in_some_groups, rates, stream_guarantee
from dphist.planning.top_k import TopKPlan
from dphist.run.chosen_bounds import ChosenBounds
from dphist.run.strategies import strategy_of
from dphist.run.totals import Estimate
from dphist.run.withheld import Withheld, in_words
from dphist.version import __version__
from dphist.words import budget, rounded_up

_MOST: Final = 1_000
"""Private tables behind one answer."""

_METHODS: Final[dict[str, type[CorrelatedTopK] | type[FromTop] | type[Ranked]]] = {
    "correlated": CorrelatedTopK,
    "from-top": FromTop,
    "ranked": Ranked,
}


_SOMETIMES: Final = ("covered_units", "other_units", "allow_negative", "bounds", "withheld", "expected")
"""What a file has only where there is something to tell."""


def _check_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("names should be different")
    return names


def _check_several(parts: tuple[str, ...]) -> tuple[str, ...]:
    if len(parts) < 2:
        raise ValueError("a unit of one part is a text")
    return parts


Text = Annotated[str, Field(min_length=1)]
MaybeNames = Annotated[tuple[Text, ...], AfterValidator(_check_different)]
Names = Annotated[MaybeNames, Field(min_length=1)]
Number = int | float
"""A number as it is written: terms of a stream are hashed, and 2 is not 2.0 there."""

UnitOfText = Text | Annotated[Names, AfterValidator(_check_several)]
"""A unit: the text of its only part, or those of several."""

StoredPlan = Annotated[Plan, PlainValidator(lambda data: Plan(*storage.from_data(data, "the metadata")))]
"""A plan from a file of anyone, whose guarantee is computed anew."""


class Model(BaseModel):
    """Data from a file of anyone, with exactly these types: a text is no number, and true is not 1."""

    model_config = ConfigDict(strict=True, frozen=True)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Self:
        """The fields of the model; claims are compared later. The error names the first field that is wrong."""
        found: Self = validate(cls, data, "the metadata", extra=None)
        return found


class Charged(Model):
    """Which entry of a ledger paid for a table."""

    ledger: Receipt | None = None


class Record(Charged):
    """What is told of every published table."""

    format: ClassVar[str]
    told: ClassVar[tuple[str, ...]]
    version: ClassVar[int] = VERSION
    dphist: Text = __version__
    created: AwareDatetime
    where: Text | None = None
    null_keys: NullKeys = "group"
    intervals: float | None = None

    if TYPE_CHECKING:

        @property
        def unit(self) -> Unit | None:
            """Who is protected; None where the groups were counted elsewhere."""

        @property
        def by(self) -> Sequence[str]:
            """The names of the keys."""

        @property
        def epsilon(self) -> float:
            """Of the guarantee."""

        @property
        def delta(self) -> float:
            """Of the guarantee."""

    @property
    def guarantee(self) -> str:
        """What is guaranteed, in one sentence."""
        raise NotImplementedError

    @property
    def left_out(self) -> str:
        """Which units counts leave out; nothing where all units of a group are counted."""
        return ""

    @property
    def without_value(self) -> list[str]:
        """A line for each column in which values are withheld."""
        return []

    def to_data(self) -> dict[str, Any]:
        """Fields and claims, in the order of a file."""
        found = {name: getattr(self, name) for name in ("format", "version", "dphist", "created", *self.told)}
        kept = {name: value for name, value in found.items() if value or name not in _SOMETIMES}
        return {name: value if name == "unit" else _plain(value) for name, value in kept.items()}


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "parameters"):  # a mechanism
        return value.parameters()
    return value.to_data() if isinstance(value, Record | Receipt | Estimate | ChosenBounds) else value


class ReleaseRecord(Record):
    """A release, or a selection of keys alone."""

    format = "dphist-release"
    told = (
        "unit", "by", "keys", "where", "null_keys", "order", "intervals", "integers", "guarantee", "epsilon", "delta",
        "noise_std", "threshold", "total_units", "covered_units", "other_units", "allow_negative", "summary", "estimand",
        "aggregates", "bounds", "withheld", "expected", "ledger", "plan",
    )  # fmt: skip
    unit: UnitOfText
    stated_by: MaybeNames = Field(alias="by")
    keys: MaybeNames
    null_keys: NullKeys
    order: Order
    integers: bool
    total_units: Estimate | None = None
    covered_units: Estimate | None = None
    other_units: Estimate | None = None
    allow_negative: bool = False
    bounds: tuple[ChosenBounds, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    plan: StoredPlan

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the keys."""
        return names_of(self.keys)

    @property
    def epsilon(self) -> float:
        """Of the guarantee."""
        return self.plan.epsilon

    @cached_property
    def delta(self) -> float:
        """Of the guarantee."""
        return self.plan.delta

    @cached_property
    def guarantee(self) -> str:
        """What is guaranteed, in one sentence."""
        return guarantee(self.plan.request, self.plan.mechanism, self.unit)

    @property
    def estimand(self) -> str:
        """What a count estimates."""
        return strategy_of(self.plan).estimand

    @property
    def summary(self) -> str:
        """What was done."""
        return strategy_of(self.plan).what_was_done

    @property
    def aggregates(self) -> list[dict[str, Any]]:
        """What the other columns estimate, and their noise."""
        request, noisy = self.plan.request, {one.name: one for one in self.plan.measures}
        return [
            {
                "name": one.name,
                "estimand": one.estimand + request.sampled_in_words(one),
                "noise_std": {measure.name: noisy[measure.name].noise_std for measure in one.measures},
            }
            for one in request.aggregates
        ]

    @property
    def left_out(self) -> str:
        """Which units counts leave out; nothing where all units of a group are counted."""
        return strategy_of(self.plan).left_out

    @property
    def without_value(self) -> list[str]:
        """A line for each column in which values are withheld."""
        return [in_words(one, self.plan) for one in self.withheld]

    @property
    def noise_std(self) -> float | None:
        """Of the noise on a count."""
        return self.plan.mechanism.noise_std if self.plan.mechanism.counted else None

    @property
    def threshold(self) -> float | None:
        """That the noisy count of every group exceeds."""
        return None if self.plan.mechanism.in_rounds else self.plan.mechanism.threshold

    @property
    def expected(self) -> dict[str, Any]:
        """What a selection is expected to lose."""
        return rates(self.plan.mechanism) if not self.plan.mechanism.counted else {}

    def to_data(self) -> dict[str, Any]:
        """Fields and claims, in the order of a file."""
        plan, found = self.plan, super().to_data()
        if self.withheld:
            lines = zip(map(asdict, self.withheld), self.without_value, strict=True)
            found["withheld"] = [{**one, "names": list(one["names"]), "in_words": words} for one, words in lines]
        return {**found, "plan": storage.to_data(plan.request, plan.mechanism, plan.alternatives)}


class TopKRecord(Record):
    """The largest groups."""

    format = "dphist-top-k"
    told = (
        "unit", "by", "where", "method", "k", "epsilon", "delta", "mechanism", "cut_off", "guarantee", "assumption", "ledger"
    )  # fmt: skip
    unit: UnitOfText | None = None
    by: Names
    method: Literal["correlated", "from-top", "ranked"]
    k: int = Field(ge=1, le=MOST_GROUPS)
    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    parameters: dict[str, Any] = Field(alias="mechanism")
    cut_off: float | None = None

    @cached_property
    def plan(self) -> TopKPlan:
        """The plan, whose guarantee is computed anew."""
        return TopKPlan(self.epsilon, self.delta, self.k, self.method, self.mechanism)

    @cached_property
    def mechanism(self) -> CorrelatedTopK | FromTop | Ranked:
        """Noise and threshold."""
        return _METHODS[self.method].from_data(self.parameters, "the metadata")

    @property
    def assumption(self) -> str:
        """On which the guarantee rests."""
        return self.mechanism.assumption

    @property
    def guarantee(self) -> str:
        """What is guaranteed, in one sentence."""
        return self.plan.guarantee_for(self.unit)

    @property
    def left_out(self) -> str:
        """Which units counts leave out; nothing where all units of a group are counted."""
        most = self.plan.max_groups
        return "" if most is None or self.mechanism.noise_std is None else f"A count is of {in_some_groups(most)}."


class StreamRecord(Record):
    """The running counts of a stream after a round."""

    format = "dphist-continual-release"
    told = (
        "unit", "by", "keys", "where", "null_keys", "round", "epsilon", "delta", "mechanism", "guarantee", "assumption",
        "ledger",
    )  # fmt: skip
    unit: UnitOfText
    stated_by: Names = Field(alias="by")
    keys: Names
    null_keys: NullKeys
    round: int = Field(ge=0, le=MOST_GROUPS)
    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    parameters: dict[str, Any] = Field(alias="mechanism")

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the keys."""
        return names_of(self.keys)

    @cached_property
    def mechanism(self) -> ContinualCounts:
        """Noise and threshold, whose guarantee is computed anew."""
        return ContinualCounts.from_data(self.parameters, "the metadata")

    @property
    def terms(self) -> dict[str, Any]:
        """On which the stream was started."""
        return {
            "unit": self.unit,
            "by": list(self.keys),
            "where": self.where,
            "null_keys": self.null_keys,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mechanism": self.parameters,
        }

    @property
    def assumption(self) -> str:
        """On which the guarantee rests."""
        return self.mechanism.assumption

    @property
    def guarantee(self) -> str:
        """What is guaranteed of all rounds together, in one sentence."""
        return stream_guarantee(self.mechanism, self.epsilon, self.delta, self.unit)

    @property
    def left_out(self) -> str:
        """Which units counts leave out; nothing where all units of a group are counted."""
        return f"A count adds up the rounds, each of {in_some_groups(self.mechanism.max_groups)}."


class AnswerRecord(Record):
    """The answer to a statement, and the private tables that it is computed from."""

    format = "dphist-answer"
    told = ("statement", "outer", "unit", "by", "columns", "epsilon", "delta", "guarantee", "ledger", "releases")
    statement: Text
    outer: Text
    columns: tuple[str, ...] = ()
    releases: Annotated[tuple[ReleaseRecord, ...], Field(min_length=1, max_length=_MOST)]

    @property
    def unit(self) -> Unit:
        """Who is protected by all private tables. Of different units there is no cost together, which is an error."""
        return joint_unit([one.unit for one in self.releases])

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that are called like a key of a private table."""
        keys = {name.casefold() for one in self.releases for name in one.by}
        return tuple(name for name in self.columns if name.casefold() in keys)

    @property
    def epsilon(self) -> float:
        """Of all private tables together, which protect the same unit."""
        return total_of([one.epsilon for one in self.releases])

    @property
    def delta(self) -> float:
        """Of all private tables together, which protect the same unit."""
        return total_of([one.plan.request.delta for one in self.releases])

    @property
    def guarantee(self) -> str:
        """What is guaranteed by each private table, and together."""
        if len(self.releases) == 1:
            return self.releases[0].guarantee
        each = "; ".join(f"({number}) {one.guarantee}" for number, one in enumerate(self.releases, 1))
        return f"{len(self.releases)} private tables, together {budget(self.epsilon, self.delta)}. {each}"

    @property
    def left_out(self) -> str:
        """Which units the counts of its private tables leave out."""
        return " ".join(dict.fromkeys(words for one in self.releases if (words := one.left_out)))

    @property
    def without_value(self) -> list[str]:
        """A line for each column of a private table in which values are withheld."""
        return [line for one in self.releases for line in one.without_value]

    def to_data(self) -> dict[str, Any]:
        """Fields and claims, in the order of a file. Of several private tables each has an entry of its own."""
        told = super().to_data()
        return {**told, "ledger": told["releases"][0]["ledger"] if len(self.releases) == 1 else None}


def names_of(keys: Sequence[str]) -> tuple[str, ...]:
    """The names of keys."""
    return tuple(parse_key(key).name for key in keys)


def total_of(parts: Sequence[float]) -> float:
    """The sum, never below it: parts of a budget are decimal numbers, and equal shares of it make a whole again."""
    whole = sum(Fraction(repr(float(one))) for one in parts)
    return parts[0] if len(parts) == 1 else float(rounded_up(Fraction(whole), 12))
