"""The seam of engines: where records are read, groups are counted, and noise is drawn on them.

    Engine.open ──▶ Records ──▶ Groups (bounded counts and sums)  ──▶ published table
                        └─────▶ Pairs (of units and groups) ──▶ Groups of the rounds ──▶ published table

`Groups` are a handle to whole numbers per group, which stay where the engine keeps them: arrays of this process, or a table of
a cluster. Functions of those numbers go to them. So the road of a release, the rounds and the counting are written once.
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
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.engines.query import GroupByQuery
from dphist.errors import InvalidParameter
from dphist.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dphist.aggregates.measures import Measure


Integers: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = Mapping[str, Any]
"""Of each column an integer for each group; of `bins_i` a `Bins`; of columns that begin with `NOISY_VALUE` a double."""
Progress: TypeAlias = Callable[[str], None]
Order = Literal["count", "key"]

PRESENT: Final = "\0present_"
"""Before the name of a column: the noisy number of units with a value in it. No key is called so."""

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
"""Noise or arithmetic on the numbers of some groups, or of all. Never sees a key."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a published table beside its keys, which of them are whole numbers, and the order of its rows.

    keys: whether the keys are published; not where there is one group for all. beside: noisy numbers that are added up over
    groups and not published one by one.
    """

    names: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    order: Order = "count"
    keys: bool = True
    beside: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns behind the keys."""
        return (*self.names, *self.beside)


class Missing(NamedTuple):
    """Of a published column: in how many groups it is null; what is counted there, and the number of values, added up."""

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
        """How many groups there are, and what is missing in some columns."""
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
    """Whole numbers for each group: `units` and `steps_i`, or what the rounds need. Nothing here is safe to print."""

    @property
    def bounds(self) -> ContributionBounds:
        """How much one unit contributes to `units`: evidence that the engine has done its work."""
        ...

    @property
    def listed(self) -> bool:
        """Whether the groups are those of a public list."""
        ...

    def each(self, function: OnGroups, names: Sequence[str]) -> Groups:
        """Apply a function to groups, some or all at a time, once: what comes back keeps the noise it drew."""
        ...

    def together(self, function: OnGroups, names: Sequence[str]) -> Groups:
        """Apply a function to all groups at once, in the order of their keys."""
        ...

    def less_next_largest(self, most: int) -> Groups:
        """With the (most + 1)-th largest count subtracted from all and cut at 0: see `mechanisms.lattice.enforce_sparsity`."""
        ...

    def sum_of(self, column: str) -> int:
        """The numbers of a column, added up. A true value, if they are."""
        ...

    def total_units(self) -> int:
        """How many units are counted in at least one group. A true value."""
        ...

    def coverage(self, released: Any) -> tuple[int, int]:
        """How many units are in some group of the published table, and in none, by all of their pairs. True values.

        The query asks for it: the pairs of the records that were counted are kept until then.
        """
        ...

    def number(self) -> int:
        """How many groups there are. A true value, until they are selected."""
        ...

    def publish(self, function: OnGroups, layout: Layout, *, together: bool = False) -> pa.Table | StoredTable:
        """Apply the last function, draw its noise once, and put the table in an order that shows nothing else."""
        ...


class Pairs(Protocol):
    """The distinct pairs of units and groups of a source, kept for the length of one release.

    All answers are exact integers, so the order of pairs, chunks or tasks cannot change one bit of them. That is part of the
    guarantee: a floating-point norm that depended on the order of rows would let one unit move another's rounding.
    """

    def degree_histogram(self, edges: Integers) -> Integers:
        """How many units have a number of groups in [edges_k, edges_k+1); above the last, the last."""
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
        """The same in this process."""
        ...

    def sampled(self, most_groups: int) -> PairsByUnit:
        """With a sample of at most `most_groups` groups of each unit, drawn once for all rounds.

        It is a function of the seed and of the unit's own groups. The last thing that is asked of the pairs.
        """
        ...

    def voters(self) -> PairsByUnit:
        """With a turn for each unit and an order of its own groups, for an election. The last thing that is asked of the pairs.

        The turn is a keyed hash of (seed, unit), ties by the unit itself; the order is one of (seed, unit, group), ties by the
        key. Neither knows the position of a row, nor another unit.
        """
        ...


class PairsByUnit(Protocol):
    """The pairs of each unit together, in an order of its own: exact sums for public weights of the groups, and votes.

    In the rounds a unit has a sample, the first of its groups. In an election all of its groups are on its list.
    """

    def first_round(self) -> Groups:
        """The `exact` sum of weights of each group that some unit sampled.

        Each unit divides a norm of 1 evenly over its sample.
        """
        ...

    def next_round(self, state: Any) -> Groups:
        """The columns of the state but its `weight`, and the `exact` sums for that: 0 where it is 0."""
        ...

    def norm_histogram(self, weights: Any, edges: Integers, power: int) -> Integers:
        """How many units have a norm in [edges_k, edges_k+1), over all their pairs; outside, the nearest bucket.

        A norm is the sum of weights to the power.
        """
        ...

    def by_class(
        self, weights: Any, bounds: Sequence[int], light: int, power: int, shifts: Sequence[int], most: int = 1
    ) -> Groups:
        """The columns of `weights`, and the weights of units by their class in `class_1`, ...: a norm up to a first bound, ...

        What is beyond the last bound is scaled down to it, into the last class. Sums of steps likewise, of the first `light`
        classes in `light_i`, of the others in `heavy_i`.

        Bins, `bins_i`, are those of at most `most` of these groups of each unit, drawn by a hash of (seed, unit, group).
        """
        ...

    def coverage(self, groups: Any) -> tuple[int, int]:
        """How many units are in some of these groups, and in none of them, by all of their pairs. True values."""
        ...

    def shares(self) -> Groups:
        """The `exact` sum of shares of each group: a unit gives 2^LATTICE_BITS/d, rounded down, to each of its d groups."""
        ...

    def elect(self, capacity: int, look: Any = None) -> Groups:
        """The groups that have `votes`, and their `first` numbers of the look; 0 without one.

        Units act in their turns: each votes for the first group of its list that has fewer than `capacity` votes. With a look
        lists are in the order of its `first`, largest first; equal ones as without.
        """
        ...


class Records(Protocol):
    """The records of a query on a source, checked by names and types. Nothing has been read."""

    def require_noise(self) -> None:
        """Refuse, before anything is charged, an engine that could not draw noise where its groups stay."""
        ...

    def keep(self) -> Records:
        """The same records, written down if the source can be read only once."""
        ...

    def sizes(self, position: int) -> Integers:
        """How many units have a value of which size, in `buckets.BUCKETS` buckets: of measure number `position`, from 1."""
        ...

    def with_measures(self, measures: Sequence[Measure]) -> Records:
        """The same records with other measures of the same columns."""
        ...

    def groups(self, bounds: ContributionBounds) -> Groups:
        """Units per group, each unit in at most `bounds.max_groups` of its groups, drawn uniformly; and sums."""
        ...

    def sketch(self, sparsity: int) -> Groups:
        """A Misra-Gries sketch with at most `sparsity` groups; it carries no sums."""
        ...

    def histogram(self, bounds: ContributionBounds, largest: int | None = None) -> Histogram:
        """The bounded groups in this process; with `largest` only so many, largest first, equal counts by their keys."""
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

        `seed` fixes the random choices of units' groups for tests; the guarantee holds for every seed, a fresh one is drawn
        for each run.
        """
        raise NotImplementedError

    def columns(self, source: object) -> list[str]:
        """The names of a source's columns, from its schema or header alone; no record is read.

        The first line of a CSV file may be a record, if it lacks its header: no error may show these names.
        """
        raise NotImplementedError

    def check_output(self, path: str) -> None:
        """Refuse a place to write to that only the engine can see to be taken."""

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
    """Progress that nobody asked for."""


def fresh(seed: int | None) -> int:
    """The seed of a run: a new one, unless a test fixes it."""
    return int(SystemEntropy().words(1)[0]) if seed is None else seed % 2**64


def commented(query: GroupByQuery, sql: str) -> str:
    """SQL with what its numbered columns stand for."""
    names = [f"key_{i}: {key.name}" for i, key in enumerate(query.by, 1)]
    names += [
        f"{'steps' if measure.tree is None else 'bins'}_{i}: {measure.name}"
        for i, measure in enumerate(query.measures, 1)
    ]
    comments = [f"-- {text}".replace("\n", " ") for text in (*names, "the seed 0 stands for a fresh one in each run")]
    return "\n".join([*comments, sql])


Share: TypeAlias = Callable[[], float | None]


class Reading(str):
    """The name of a phase in which the source is read. `share` tells how much of it: from 0 to 1, None if unknown."""

    share: Share

    def __new__(cls, phase: str, share: Share) -> Reading:
        """A text like any other for those who only show names."""
        named = super().__new__(cls, phase)
        named.share = share
        return named
