"""The seam of engines: where records are read, groups are counted, and noise is drawn on them.

    Engine.open ──▶ Records ──▶ Groups (bounded counts and sums)  ──▶ published table
                        └─────▶ Pairs (of units and groups) ──▶ Groups of the rounds ──▶ published table

`Groups` are a handle to whole numbers per group. The numbers stay where the engine keeps them: in arrays of this process, or
in a table of a cluster. Functions travel to the numbers, so a release, its rounds and its counting are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dphist.aggregates.measures import Measure
    from dphist.engines.histogram import ContributionBounds, Histogram
    from dphist.engines.query import GroupByQuery


Integers: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = Mapping[str, Any]
"""Columns by name: an integer for each group, a `Bins` as `bins_i`, doubles where a name begins with `NOISY_VALUE`."""
Progress: TypeAlias = Callable[[str], None]
Order = Literal["count", "key"]

PRESENT: Final = "\0present_"
"""The prefix of a column with the noisy number of units that have a value in another column. No key has such a name."""

NOISY_VALUE: Final = "value_of_"

READING: Final = "reading the schema"
BOUNDING: Final = "bounding and counting"
SIZING: Final = "looking for bounds"
SKETCHING: Final = "sketching"
SELECTING: Final = "selecting groups"
ROUNDS: Final = "selecting groups in rounds, counting them"
NOISING: Final = "adding noise"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some of the groups, by their positions, with a number for each in every column."""

    index: Integers
    columns: Mapping[str, NDArray[Any]]


OnGroups: TypeAlias = Callable[[Arrays], Rows]
"""A function that adds noise to the numbers of some or all groups, or computes with them. It never sees a key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a published table beside its keys, which of them are whole numbers, and the order of its rows.

    keys: whether the keys are published. A table with one group for everybody publishes none. beside: columns of noisy
    numbers that are added up over groups and are not published one by one.
    """

    names: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    order: Order = "count"
    keys: bool = True
    beside: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns after the keys."""
        return (*self.names, *self.beside)


class Missing(NamedTuple):
    """Where a published column is null: the number of such groups, and the sums of their units and of their values."""

    groups: int
    units: float
    present: float


class StoredTable(Protocol):
    """A published table that stays where its engine wrote it until it is asked for."""

    def to_arrow(self) -> pa.Table:
        """The table, brought to this machine."""
        ...

    def to_spark(self) -> DataFrame:
        """The table as a DataFrame of Spark, in its order."""
        ...

    def first(self, most: int) -> tuple[pa.Table, int]:
        """The first rows, and how many there are in all."""
        ...

    def missing(self, names: Sequence[str]) -> tuple[int, dict[str, Missing]]:
        """The number of groups, and what is missing in the named columns."""
        ...

    def save(self, path: str, kind: str, metadata: str, folder: str, *, escape: bool = False) -> None:
        """Let the engine write a folder of files of this kind, with the metadata as one line in a folder inside it.

        escape: texts that a spreadsheet would run are written as `spreadsheet.escaped` says.
        """
        ...

    def close(self) -> None:
        """Delete it."""
        ...


class Groups(Protocol):
    """Whole numbers for each group: `units` and `steps_i`, or the sums that rounds need. Nothing here is safe to print."""

    @property
    def bounds(self) -> ContributionBounds:
        """How much one unit contributes to `units`: evidence that the engine has done its work."""
        ...

    @property
    def listed(self) -> bool:
        """Whether the groups are those of a public list."""
        ...

    def each(self, function: OnGroups, names: Sequence[str]) -> Groups:
        """Apply a function once to all groups, some at a time. The result keeps the noise that was drawn."""
        ...

    def together(self, function: OnGroups, names: Sequence[str]) -> Groups:
        """Apply a function to all groups at once, in the order of their keys."""
        ...

    def less_next_largest(self, most: int) -> Groups:
        """Subtract the (most + 1)-th largest count from all counts and cut them at 0: see
        `mechanisms.lattice.enforce_sparsity`.
        """
        ...

    def sum_of(self, column: str) -> int:
        """The sum of a column: a true value if the numbers are true."""
        ...

    def total_units(self) -> int:
        """How many units are counted in at least one group. A true value."""
        ...

    def coverage(self, released: Any) -> tuple[int, int]:
        """Of all units with pairs, how many are in some published group, and how many in none. True values.

        Only if the query asks for it: then the counted pairs are kept until here.
        """
        ...

    def number(self) -> int:
        """How many groups there are. A true value, until they are selected."""
        ...

    def publish(self, function: OnGroups, layout: Layout, *, together: bool = False) -> pa.Table | StoredTable:
        """Apply the last function, draw its noise once, and sort the rows so that their order tells nothing more."""
        ...


class Pairs(Protocol):
    """The distinct pairs of units and groups of a source, kept for the length of one release.

    All answers are exact integers, so the order of pairs, chunks or tasks cannot change one bit of them. That is part of the
    guarantee: a floating-point norm that depended on the order of rows would let one unit move another's rounding.
    """

    def degree_histogram(self, edges: Integers) -> Integers:
        """For each bucket [edges_k, edges_k+1), how many units have a number of groups in it. The last bucket is open above."""
        ...

    def total_units(self) -> int:
        """How many units have at least one pair. A true value."""
        ...

    def non_empty_groups(self) -> int:
        """How many groups have at least one pair. A true value."""
        ...

    def groups(self, bounds: ContributionBounds) -> Groups:
        """Bounded counts and sums of the same pairs, for the mechanisms that need one pass only."""
        ...

    def histogram(self, bounds: ContributionBounds) -> Histogram:
        """The bounded counts and sums as a histogram of this process."""
        ...

    def sampled(self, most_groups: int) -> PairsByUnit:
        """The pairs with a sample of at most `most_groups` groups of each unit, drawn once for all rounds.

        A sample is a function of the seed and of the unit's own groups. Nothing is asked of the pairs after this.
        """
        ...

    def voters(self) -> PairsByUnit:
        """The pairs with each unit's turn and its order of groups, for an election. Nothing is asked of the pairs after this.

        The turn is a keyed hash of (seed, unit); the unit itself breaks ties. The order follows a keyed hash of (seed,
        unit, group); the key breaks ties. Neither depends on the position of a row or on another unit.
        """
        ...


class PairsByUnit(Protocol):
    """Pairs that lie unit by unit. They give exact sums for public weights of groups, and votes.

    In rounds the first groups of a unit are its sample. In an election all its groups are its list.
    """

    def first_round(self) -> Groups:
        """The `exact` sum of weights of each group that some unit sampled.

        Each unit divides a norm of 1 evenly over its sample.
        """
        ...

    def next_round(self, state: Any) -> Groups:
        """The columns of the state but its `weight`, and the `exact` sum of each group for it. A weight of 0 gives 0."""
        ...

    def norm_histogram(self, weights: Any, edges: Integers, power: int) -> Integers:
        """For each bucket [edges_k, edges_k+1), how many units have such a norm. Other norms go to the nearest bucket.

        A unit's norm adds up the weights of all its groups, each raised to `power`.
        """
        ...

    def by_class(
        self, weights: Any, bounds: Sequence[int], light: int, power: int, shifts: Sequence[int], most: int = 1
    ) -> Groups:
        """The columns of `weights`, and in `class_i` the weights of units of class i: their norm is at most the i-th bound.

        A unit beyond the last bound is scaled down to it and is in the last class. `light_i` adds up steps of the first
        `light` classes, `heavy_i` those of the other classes.

        `bins_i` has the bins of at most `most` of these groups of each unit. A hash of (seed, unit, group) draws the groups.
        """
        ...

    def coverage(self, groups: Any) -> tuple[int, int]:
        """Of all units with pairs, how many are in some of these groups, and how many in none. True values."""
        ...

    def shares(self) -> Groups:
        """The `exact` sum of shares of each group: a unit gives 2^LATTICE_BITS/d, rounded down, to each of its d groups."""
        ...

    def elect(self, capacity: int, look: Any = None) -> Groups:
        """The groups that have `votes`, and their `first` of the look, or 0 without a look.

        Units act in their turns: each votes for the first group of its list that has fewer than `capacity` votes. With
        a look, lists are sorted by its `first`, largest first. Groups with equal numbers keep their order.
        """
        ...


class Records(Protocol):
    """The records of a query on a source, checked by names and types. Nothing has been read."""

    def require_noise(self) -> None:
        """Refuse, before anything is charged, an engine that could not draw noise where its groups stay."""
        ...

    def keep(self) -> Records:
        """These records, written down if the source can be read only once."""
        ...

    def sizes(self, position: int) -> Integers:
        """For each of `buckets.BUCKETS` sizes, how many units have a value of this size. position: of the measure, from 1."""
        ...

    def with_measures(self, measures: Sequence[Measure]) -> Records:
        """These records with other measures of the same columns."""
        ...

    def groups(self, bounds: ContributionBounds) -> Groups:
        """Units per group, each unit in at most `bounds.max_groups` of its groups, drawn uniformly; and sums."""
        ...

    def sketch(self, sparsity: int) -> Groups:
        """A Misra-Gries sketch with at most `sparsity` groups; it carries no sums."""
        ...

    def histogram(self, bounds: ContributionBounds, largest: int | None = None) -> Histogram:
        """The bounded groups in this process. largest: how many to keep, largest first; equal counts stand in the order
        of keys.
        """
        ...

    def sketched(self, sparsity: int) -> Histogram:
        """The sketch in this process."""
        ...

    def pairs(self) -> AbstractContextManager[Pairs]:
        """The pairs, written down once; they are gone when the block ends."""
        ...

    def explain(self, bounds: ContributionBounds) -> str:
        """The SQL that `groups` executes."""
        ...

    def explain_pairs(self) -> str:
        """The SQL that `pairs` executes."""
        ...


class Engine:
    """Something that can open a source. The rest follows from that."""

    __slots__ = ()
    writes_folders: ClassVar[bool] = False
    """Whether a release is written as a folder of files."""

    def open(
        self, source: object, query: GroupByQuery, *, seed: int | None = None, progress: Progress | None = None
    ) -> AbstractContextManager[Records]:
        """Check everything that can be checked without reading a record.

        `seed` fixes the random choice of units' groups in tests. The guarantee holds for every seed; a run draws a fresh one.
        """
        raise NotImplementedError

    def columns(self, source: object) -> list[str]:
        """The names of a source's columns, from its schema or header alone; no record is read.

        No error may show these names: the first line of a CSV file without a header is a record.
        """
        raise NotImplementedError

    def check_output(self, path: str) -> None:
        """Refuse an output that exists already, where only the engine can see it."""

    def histogram(
        self,
        source: object,
        query: GroupByQuery,
        bounds: ContributionBounds,
        *,
        largest: int | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Histogram:
        """The bounded histogram of a source, or its largest groups: true values, in this process."""
        with self.open(source, query, seed=seed, progress=progress) as records:
            return records.histogram(bounds, largest)

    def sketch(
        self,
        source: object,
        query: GroupByQuery,
        sparsity: int,
        *,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Histogram:
        """The sketch of a source, in this process."""
        with self.open(source, query, seed=seed, progress=progress) as records:
            return records.sketched(sparsity)

    def explain(self, query: GroupByQuery, bounds: ContributionBounds, source: object) -> str:
        """The SQL that a run executes. Reads the schema of the source and no record."""
        with self.open(source, query, seed=0) as records:
            return records.explain(bounds)


def check_sketch(query: GroupByQuery, sparsity: int) -> None:
    """A sketch carries counts alone."""
    checks.check_whole("sparsity", sparsity)
    if query.measures or query.want_total or query.want_coverage or query.public_keys is not None:
        raise InvalidParameter("a sketch of counts alone", "sums, a total or public keys", "leave them out.")


def silent(phase: str) -> None:
    """Progress that nobody sees."""


def fresh(seed: int | None) -> int:
    """The seed of a run: a new one, unless a test fixes it."""
    return int(SystemEntropy().words(1)[0]) if seed is None else seed % 2**64


def commented(query: GroupByQuery, sql: str) -> str:
    """SQL after comments that explain its numbered columns."""
    names = [f"key_{i}: {key.name}" for i, key in enumerate(query.by, 1)]
    names += [
        f"{'steps' if measure.tree is None else 'bins'}_{i}: {measure.name}"
        for i, measure in enumerate(query.measures, 1)
    ]
    comments = [f"-- {text}".replace("\n", " ") for text in (*names, "the seed 0 stands for a fresh one in each run")]
    return "\n".join([*comments, sql])


Share: TypeAlias = Callable[[], float | None]


class Reading(str):
    """The name of a phase in which the source is read. `share` gives the part that is read, from 0 to 1, or None if unknown."""

    share: Share

    def __new__(cls, phase: str, share: Share) -> Reading:
        """A plain text for callers that only show names."""
        named = super().__new__(cls, phase)
        named.share = share
        return named
